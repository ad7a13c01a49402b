"""Lines of a transcript: what a record shows, for a terminal, in the words of every conversation or of a kind."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

Tone = Literal["person", "agent", "stranger", "phase", "turn", "tool", "refused", "notice", "error", "end", "dim"]

ARGUMENT_CHARACTERS: Final = 60
RESULT_CHARACTERS: Final = 100

PARTNER: Final = "partner"
"""Of a `Place`: who or what the conversation is with, where there are no phases."""

Place = dict[str, str]
"""What lines show of where the conversation is, by name; the records that change it do so while they are rendered."""


class Row(NamedTuple):
    """A line before it has its time; `event` is set for a message that relays deliver too."""

    tone: Tone
    head: str
    text: str = ""
    event: str = ""


def fields(data: Mapping[str, Any]) -> str:
    """Arguments or fields as text on one line, each cut."""
    return ", ".join(f"{name}={shorten(value, ARGUMENT_CHARACTERS)}" for name, value in data.items())


def shorten(value: object, limit: int = RESULT_CHARACTERS) -> str:
    """A value as text on one line, cut to fit."""
    words = " ".join(str(value).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
