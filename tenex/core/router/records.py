"""Records of the router's question and its answers."""

from dataclasses import dataclass

from tenex.core.ids import Millis
from tenex.core.inbox.message import Settlement
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequested(Record):
    """The router is asked; attempts count from 1 for each question. At `warn_at` the user learns that it is slow."""

    attempt: int
    warn_at: Millis = Millis(0)
    """0 in journals from before this notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDelayed(Record):
    """The router has not answered in the expected time; the user was notified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRejected(Record):
    """The router's answer was refused, with a sentence it can act on. `counted` is False if it was only stale."""

    answer: str
    sentence: str
    counted: bool = True
    usage: Usage = NO_USAGE
    model: str = ""
    decided_by: Decider | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed(Record):
    """A decision was accepted; `by` is the orchestrator, or the user who addressed an agent."""

    agents: tuple[str, ...]
    phase: Phase | None
    reason: str
    by: str
    usage: Usage = NO_USAGE
    model: str = ""
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""
    settled: tuple[Settlement, ...] | None = None
    """The users' messages of which nothing is left to be done; None in older journals, which have `settles`."""
    is_question: bool = False
    """Whether the users' messages only ask something, as the router says; False in older journals."""
    settles: int = 0
    """In older journals the seq up to which users' messages in a gate ask for no work of their own; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterCorrected(Record):
    """A rejected answer was followed by a valid one; `lesson` is what the router should learn from it."""

    lesson: str
