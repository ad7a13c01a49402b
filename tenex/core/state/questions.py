"""A question that only a user can decide: whether a plan is approved, whether gates are skipped."""

from dataclasses import dataclass

from tenex.core.ids import EventId, Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuestion:
    """The events that ask, to which an answer replies, and when they were sent."""

    events: tuple[EventId, ...]
    at: Millis
