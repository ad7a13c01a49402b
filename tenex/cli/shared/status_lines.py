"""How lines of `tenex status` show a state and a time."""

from datetime import datetime
from typing import Final

from tenex.core.text.amounts import duration

_LOUD: Final = frozenset(
    {"unresponsive", "away", "suspended", "quarantined", "held", "limited", "reached", "refused", "silent", "asks"}
)
"""States that are printed in capitals."""


def mark(state: str) -> str:
    """A state at the beginning of a line."""
    return f"{state.upper() if state in _LOUD else state:12}"


def ago(at: str | None, now: datetime) -> str:
    """How long ago a time of a report was."""
    if at is None:
        return "never"
    try:
        return f"{duration(max(0, (now - datetime.fromisoformat(at)).total_seconds()))} ago"
    except ValueError:  # a clock that was set to nonsense
        return at
