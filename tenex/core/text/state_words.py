"""The states of a conversation: one name for each, what it means, and what a person does about it.

The list, the page, `tenex status`, `show`, `/status` and the documents use these names (a test compares the glossary
with this table). Records and JSON have one more, `parked`, which is `waiting` here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StateText:
    """What a state of a conversation means to people."""

    meaning: str
    remedy: str = ""
    """What a person does about it; "" where there is nothing to do."""
    command: str = ""
    """The command in the conversation that has it go on now; "" where there is none."""


STATES: Final[Mapping[str, StateText]] = {
    "new": StateText("no agent was set to work yet"),
    "active": StateText("agents or the orchestrator are at work"),
    "waiting": StateText(
        "the next word is a person's: it is your turn, or an agent asks a question or for a permission",
        "answer when you like",
    ),
    "ended": StateText("the cycle is over", "write, and the next cycle begins"),
    "held": StateText(
        "a model cannot be used; the daemon tries it again every five minutes",
        "repair the cause, then `/continue` in the conversation tries at once",
        "continue",
    ),
    "limited": StateText(
        "a limit of the day is reached; it goes on by itself at 00:00 UTC",
        "wait, or raise the limit in `tenex.toml`, then `tenex reload`",
    ),
    "suspended": StateText(
        "a record could not be written; the daemon tries again within 30 s",
        "make room on the disk; no restart is needed",
    ),
    "quarantined": StateText(
        "its journal is damaged, or of another version of tenex; it is left unchanged",
        "`tenex conversations verify` names the fault; restore it from a backup, or rebuild it",
    ),
    "unread": StateText(
        "its journal cannot be read, and no daemon has met it yet",
        "`tenex conversations verify` names the line",
    ),
}
"""In the order of a list that names them."""
_WAITS_FOR: Final = {
    "": "for you",
    "you": "for you",
    "user": "for you",
    "answer": "for your answer",
    "waiver": "for your decision",
    "limit": "for `/continue`: a limit is reached",
    "mission": "for `/continue` or `/new`",
    "fallback": "for you: what was decided could not be used",
}
"""By `Glance.waiting_for`, in the words of people."""
CONTINUES: Final = frozenset({"limit", "mission", "fallback"})
"""What `/continue` goes on after, by `Glance.waiting_for`: the work was stopped before its end."""


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
