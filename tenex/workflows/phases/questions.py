"""A question that only a user can decide: whether a plan is approved, whether gates are skipped."""

from dataclasses import dataclass

from tenex.core.ids import EventId, Millis
from tenex.core.values import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuestion:
    """The events that ask, to which an answer replies, and when they were sent."""

    events: tuple[EventId, ...]
    at: Millis

    def shifted(self, by: int) -> "DecisionQuestion":
        """The clock was set by so many ms."""
        return replace(self, at=Millis(self.at + by))
