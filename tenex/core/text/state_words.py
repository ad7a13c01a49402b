"""States of conversations in the words of people; their names in records and JSON are for programs."""

from collections.abc import Mapping
from typing import Final

_WAITS_FOR: Final = {
    "": "for you",
    "you": "for you",
    "user": "for you",
    "answer": "for your answer",
    "waiver": "for your decision",
    "mission": "for `/continue` or `/new`",
    "fallback": "for you: what was decided could not be used",
}
"""By `Glance.waiting_for`, in the words of people."""


def waits_for(waiting_for: str) -> str:
    """What a conversation waits for, as words behind "waiting": by `Glance.waiting_for`, or what `status` has of it."""
    return _WAITS_FOR.get(waiting_for, f"for you ({waiting_for})")


def state_word(state: str) -> str:
    """The state of a conversation or a run as people read it: what is parked waits as all else does."""
    return "waiting" if state == "parked" else state


def by_state_word(counts: Mapping[str, int]) -> dict[str, int]:
    """The numbers of conversations by the words of people for their states; those by `kind` are for programs."""
    shown: dict[str, int] = {}
    for kind, number in counts.items():
        word = state_word(kind)
        shown[word] = shown.get(word, 0) + number
    return shown
