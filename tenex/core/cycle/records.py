"""Records of cycles: how they begin, change phase, wait and end."""

from dataclasses import dataclass, field

from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRestarted(Record):
    """A process resumed unfinished work; the `away` ms since the last record count against no deadline."""

    away: int = 0
    interrupted: tuple[str, ...] = ()
    """What was under way when the process before ended, cut; none in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAdjusted(Record):
    """The wall clock was set while something was pending: every time the state waits for moves by `by` ms."""

    by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleStarted(Record):
    """A new cycle begins, with gates, waivers, participants and the limits of a cycle cleared.

    `carried` are the seqs of the last cycle's messages that it begins with. Older journals do not name them: there it
    begins with those that are newer than the last turn.
    """

    cycle: int
    reason: str
    phase: Phase = Phase.CHAT
    carried: tuple[int, ...] | None = None
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Record):
    """Nothing runs until a user writes."""

    reason: str
    """`user`, `fallback`, `limit`, `stopped`, `waiver`, or the name of a kind that says what it waits for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Record):
    """The cycle is over; a user's next message begins another."""

    reason: str
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""
    checks: tuple[str, ...] = ()
    """How each check of the project ended, on the files as they are and before the work; none in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Record):
    """A user stopped everything that ran."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued(Record):
    """A user let the conversation continue past a limit; its counters restart."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(Record):
    """A limit was reached; with `until`, a daily limit pauses work until then, else a user decides."""

    limit: str
    sentence: str
    until: Millis = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTransition(Record):
    """The phase changed. In JSON `from_` is `from`; `announceAt` is of journals of older programs, and unused."""

    from_: Phase
    to: Phase
    message: str
    agent_pubkey: PublicKey
    agent_name: str
    reason: str
    summary: str
    announce_at: Millis = Millis(0)
    decided_by: Decider | None = field(default=None, compare=False)
    """Who decided it, and below in which cycle; older journals name neither, and no rule reads them."""
    cycle: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)
    """The file that alone says so, where the journal was rebuilt from it; "" for what was decided here."""
    gate: Phase | None = None
    """The quality gate that a rule passed with this, because there was nothing to do in it; the reason says why."""
    request: EventId = field(default=EventId(""), compare=False)
    """The message of a user for which the work is done; "" in older journals, and where none is recorded yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOff(Record):
    """The work went on to other agents in the same phase; the fields of a transition, but none happened."""

    from_: Phase
    to: Phase
    message: str
    agent_pubkey: PublicKey
    agent_name: str
    reason: str
    summary: str
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""
