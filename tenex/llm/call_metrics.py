"""What one call of a model was like, for logs and metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tenex.core.messages import Usage

Outcome = Literal["answered", "refused", "unavailable", "cancelled"]
"""`cancelled`: nobody wants the answer any more; what it cost is known only as far as it had come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One call. `seconds` is without `queued`, the wait for a turn; `first` is until a stream was heard."""

    model: str
    agent: str
    purpose: Literal["route", "work"]
    phase: str
    conversation: str
    outcome: Outcome
    seconds: float
    queued: float
    first: float | None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """How busy a provider is. `paused` is in seconds; 0 where it has not asked us to wait."""

    name: str
    active: int
    waiting: int
    paused: float


Observer = Callable[[CallReport], None]
"""Hears of each call once it has ended; must not block or raise."""


def unobserved(report: CallReport) -> None:
    """An observer that does not look."""
