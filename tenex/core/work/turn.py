"""A turn as a value: which agents were set to work, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenex.core.ids import Millis, Slug, TurnId
from tenex.core.messages import Usage
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.port_values import Handoff
from tenex.core.router.answer import RoutingDecision

from .records import Finding, Outcome, WorkVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """A program that an agent ran, with its exit status; that of a shell's line is the shell's."""

    agent: Slug
    command: str
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What became of one agent's part in a turn."""

    agent: Slug
    outcome: Outcome
    text: str
    summary: str
    verdict: WorkVerdict
    error: str
    at: Millis
    hand_over: RoutingDecision | None = None
    """Where its agent wants the work to go on."""
    untried: str = ""
    """Why the work could not be tried, with that verdict."""
    findings: tuple[Finding, ...] = ()
    calls: tuple[str, ...] = ()
    """What was called, a line each, where it was not finished."""
    completed: bool = False
    """Whether its agent called `complete`: what it stopped at without that may be an announcement."""

    @property
    def is_finished(self) -> bool:
        """Whether its agent came to its end."""
        return self.outcome == "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorTurn:
    """A turn: which agents were set to work, why, and what came of it. `seq` is the record that opened it."""

    turn_id: TurnId
    seq: int
    timestamp: Millis
    phase: Phase
    agents: tuple[Slug, ...]
    reason: str
    handoff: Handoff | None = None
    completions: tuple[Completion, ...] = ()
    is_completed: bool = False
    summary: str = ""
    ran: tuple[ProgramRun, ...] = ()
    """The newest programs that its agents, and those they called, have run."""
    looked_at: frozenset[str] = frozenset()
    """Files changed in the cycle that were read in it."""
    has_effect: bool = False
    """Whether it has changed a file or something outside."""
    shown: int = field(default=0, compare=False)
    """The seq of the newest message that an agent of it was shown before its run ended.

    0, as below, in snapshots that were written before it was kept.
    """
    shown_at_change: int = field(default=0, compare=False)
    """The seq of the newest message that an agent of it had been shown when it changed something."""
    cycle: int = 0
    """This and what follows are for readers."""
    decided_by: Decider | None = None
    models: Mapping[str, Usage] = field(default_factory=dict)
    """What the router has cost since the turn before it, and what the runs have that have ended, by model."""
    worked_before: int = 0
    """`Totals.working` when it began."""
    working: int | None = None
    """ms of work, once it is closed."""
    changed: tuple[str, ...] = ()
    """Files that its calls changed, cut."""
    source: str = ""
    """The file that alone says so; "" for what this journal recorded."""

    def has_finished(self, agent: Slug) -> bool:
        """Whether the agent's completion has been counted."""
        return any(done.agent == agent for done in self.completions)
