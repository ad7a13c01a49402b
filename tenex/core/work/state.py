"""What is under way: the open turn with its runs and their calls, and the signals whose decision is put off."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenex.core.functions.undecided import Undecided
from tenex.core.functions.verdicts import Verdict
from tenex.core.ids import CallId, RunId, Slug
from tenex.core.undo.state import UndoState

from .run import Run
from .turn import OrchestratorTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is open. A rollback ends it all, so it begins with a new value."""

    turn: OrchestratorTurn | None = None
    runs: Mapping[RunId, Run] = field(default_factory=dict)
    addressed: tuple[tuple[Slug, str], ...] = ()
    """Agents a user mentioned who have not had their turn, with the user's name."""
    asks: Mapping[str, tuple[RunId, CallId]] = field(default_factory=dict)
    """Events that put an open question of a run to a user."""
    answered_asks: Mapping[str, tuple[RunId, CallId]] = field(default_factory=dict)
    """Events of the questions of tools that have an answer, which another reply may correct."""
    undo: UndoState | None = None
    """The newest `/undo`, until other work begins."""
    undecided: tuple[Undecided, ...] = ()
    """Signals that wait for functions of operators, in order; the functions of the first are being called."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """What functions of operators have answered for the open runs, by `Verdict.key`."""
    stopped: int = 0
    """The seq of the newest `Stopped` or `RolledBack`: a message before it is no reason to begin another cycle."""

    @property
    def undecided_keys(self) -> frozenset[object]:
        """The keys of the tasks that have ended in a signal that is not decided."""
        return frozenset(getattr(waiting.signal, "key", None) for waiting in self.undecided)

    @property
    def is_parked(self) -> bool:
        """Whether every open run waits for a user, or for a sub-agent who does."""
        return bool(self.runs) and all(run.is_waiting for run in self.runs.values())

    @property
    def own_runs(self) -> tuple[Run, ...]:
        """The runs of the turn's own agents; the others were called by one of them, or by one they called."""
        return tuple(run for run in self.runs.values() if run.parent is None)

    def called_by(self, run: RunId) -> tuple[Run, ...]:
        """The open runs of the sub-agents that a run has called."""
        return tuple(other for other in self.runs.values() if other.parent == run)

    def with_run(self, run: Run) -> Mapping[RunId, Run]:
        """The open runs with another value of one of them, or with one more."""
        return {**self.runs, run.id: run}
