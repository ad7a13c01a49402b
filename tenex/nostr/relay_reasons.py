"""What a relay means by the text of an OK or a CLOSED: NIP-01's prefixes as one table."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final


class ReasonAction(Enum):
    """What to do about a refusal."""

    HAVE = "have"
    """The relay already has the event: success."""
    AUTH = "auth"
    """Say who we are (NIP-42), then again."""
    SLOWER = "slower"
    """Wait as long as it asks, then again."""
    AGAIN = "again"
    """Back off, then again: it may pass."""
    FINAL = "final"
    """Again would be no help; somebody must be told."""


_ADVICE: Final = {
    "duplicate": ReasonAction.HAVE,
    "auth-required": ReasonAction.AUTH,
    "rate-limited": ReasonAction.SLOWER,
    "error": ReasonAction.AGAIN,
    "pow": ReasonAction.FINAL,  # mining would change the id, and the id is already written down
    "invalid": ReasonAction.FINAL,
    "blocked": ReasonAction.FINAL,
    "restricted": ReasonAction.FINAL,
    "unsupported": ReasonAction.FINAL,
    "mute": ReasonAction.FINAL,
}

_PREFIX: Final = re.compile(r"\s*([a-z][a-z-]{1,30}):")
_SECONDS: Final = re.compile(r"(\d{1,4})\s*(?:s|sec|secs|second|seconds)\b")
_MOST_ASKED: Final = 600.0  # a relay that asks for more than ten minutes is asked again after ten


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal taken apart."""

    prefix: str
    """Empty where the relay gave none that NIP-01 knows."""
    text: str
    """The whole text, cut at 200 characters: it goes to logs and to the status."""
    advice: ReasonAction
    wait: float | None = None
    """Seconds, where the relay said how long."""


def read_answer(text: str) -> Answer:
    """Take the text of an OK or a CLOSED apart; one without a known prefix may pass by itself."""
    match = _PREFIX.match(text)
    prefix = match.group(1) if match and match.group(1) in _ADVICE else ""
    advice = _ADVICE.get(prefix, ReasonAction.AGAIN)
    asked = _SECONDS.search(text.lower()) if advice is ReasonAction.SLOWER else None
    return Answer(
        prefix=prefix,
        text=printable(text),
        advice=advice,
        wait=min(float(asked.group(1)), _MOST_ASKED) if asked else None,
    )


def printable(text: str) -> str:
    """A relay's text as it may stand in a log: no control characters, at most 200 of the rest."""
    return "".join(char if char.isprintable() else " " for char in text[:200])


def is_worth_saying(count: int) -> bool:
    """Tell whether the count-th of many alike is worth more than a debug line: the 1st, 10th, 100th ... are."""
    return count > 0 and set(str(count)[1:]) <= {"0"} and str(count)[0] == "1"
