"""What has happened in a conversation, for readers: the newest of it, whole enough to explain what was done and why.

No rule reads any of it, but for a rollback, which names the turns that it undoes. Every value is cut, and every list
holds from `BLOCK` to twice as many, so that the state stays bounded; the readable file keeps what leaves in files of
its own. Programs that only fold need none, so `State.history` is not compared.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from tenex.core import records as r
from tenex.core.ids import CallId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import NO_USAGE, Usage, cut
from tenex.core.people.decider import Decider
from tenex.core.phases import Phase
from tenex.core.values import replace
from tenex.core.work.turn import OrchestratorTurn

BLOCK: Final = 100
"""Entries that leave a list together: the readable view keeps them in a file of their own."""
ROLLBACKS: Final = 50
"""Times the conversation went back that are remembered, the newest: users read them, no rule does."""
ARGUMENTS: Final = 6
"""Of a call that are shown; those of most tools have fewer."""
ARGUMENT_CHARACTERS: Final = 100
RESULT_CHARACTERS: Final = 240
PATHS: Final = 20
"""Files that one call changed which are named."""
CYCLE_PATHS: Final = 200
CYCLE_CHECKS: Final = 20
REASON_CHARACTERS: Final = 400

T = TypeVar("T")
CallOutcome = Literal["ok", "failed", "refused"]
DecisionKind = Literal[
    "route",
    "refused",
    "wait",
    "end",
    "cycle",
    "limit",
    "stop",
    "continue",
    "command",
    "waiver asked",
    "waiver declined",
    "waiver",
    "approval",
    "permission",
    "notice",
    "restart",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The conversation went back: `undone` are the turns that count no more."""

    seq: int
    """Of its record."""
    at: Millis
    to: int
    by: str
    reason: str
    undone: tuple[TurnId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """A tool call that has ended or was refused, with what it was given and what it gave, both cut."""

    seq: int
    """Of the record of its result."""
    at: Millis
    cycle: int
    run: RunId
    call: CallId
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outcome: CallOutcome = "ok"
    exit_status: int | None = None
    """Of the program that it ran; negative where a signal ended that."""
    result: str = ""
    duration: int | None = None
    """ms of work; None where it did not begin."""
    waited: int | None = None
    """ms until a user answered."""
    changed: tuple[str, ...] = ()
    reverted: tuple[str, ...] = ()
    source: str = ""
    """The file that alone says so; "" for what this journal recorded."""
    is_broken_off: bool = False
    """As in `ToolCallCompleted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run took and what came of it, for readers; also of a sub-agent, which is no part of the turn."""

    cycle: int
    run: RunId
    agent: Slug
    name: str
    pubkey: PublicKey
    started: Millis
    ended: Millis
    working: int
    """ms, without the time it waited for a user, a sub-agent or a busy provider."""
    outcome: r.Outcome
    error: str = ""
    steps: int = 0
    calls: int = 0
    models: Mapping[str, Usage] = field(default_factory=dict)
    caller: RunId | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """What was decided, or refused, about the conversation, by whom and why."""

    seq: int
    at: Millis
    cycle: int
    kind: DecisionKind
    by: Decider | None = None
    reason: str = ""
    agents: tuple[str, ...] = ()
    phase: str = ""
    answer: str = ""
    """What the router answered, where that was refused."""
    model: str = ""
    usage: Usage = NO_USAGE
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSummary:
    """A cycle: why it began and ended, and what it took."""

    cycle: int
    at: Millis = Millis(0)
    began_because: str = ""
    begun_by: Decider | None = None
    worked_before: int = 0
    """ms of work in the conversation before it."""
    usage_before: Usage = NO_USAGE
    first_turn: int = 0
    """The number of turns before it."""
    ended_at: Millis | None = None
    ended_because: str = ""
    ended_by: Decider | None = None
    working: int = 0
    usage: Usage = NO_USAGE
    turns: int = 0
    changed: tuple[str, ...] = ()
    changed_count: int = 0
    checks: tuple[str, ...] = ()
    """How each check of the project ended, here and before."""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """Where a message of a file was written: `message` is the seq of its record here."""

    message: int
    cycle: int
    phase: Phase | None = None
    turn: TurnId | None = None
    event: EventId | None = None
    """Of a message of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecovered(r.Record):
    """What a readable file shows of the past, for readers alone: it approves, waives and counts nothing.

    At most `BLOCK` entries of each list are in one record. (ADR 51.)
    """

    source: str
    transitions: tuple[r.PhaseTransition, ...] = ()
    turns: tuple[OrchestratorTurn, ...] = ()
    runs: tuple[RunSummary, ...] = ()
    calls: tuple[CallSummary, ...] = ()
    decisions: tuple[DecisionSummary, ...] = ()
    cycles: tuple[CycleSummary, ...] = ()
    places: tuple[MessagePlace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What has happened, for readers; only a rollback reads it. It holds the newest, from `BLOCK` to twice that."""

    transitions: tuple[r.PhaseTransition, ...] = ()
    turns: tuple[OrchestratorTurn, ...] = ()
    transitions_before: int = 0
    """How many were before these; only the journal and the readable view hold them."""
    turns_before: int = 0
    rollbacks: tuple[Rollback, ...] = ()
    runs: tuple[RunSummary, ...] = ()
    runs_before: int = 0
    calls: tuple[CallSummary, ...] = ()
    calls_before: int = 0
    decisions: tuple[DecisionSummary, ...] = ()
    decisions_before: int = 0
    cycles: tuple[CycleSummary, ...] = ()
    """Those that are over."""
    cycles_before: int = 0
    open_cycle: CycleSummary | None = None
    routed: Decider | None = None
    """Who decided what is being carried out, for journals that do not name them with what follows."""
    routing: Mapping[str, Usage] = field(default_factory=dict)
    """What the router has cost since the last turn began, by model."""
    reason: str = ""
    """Why the conversation is in the status it is in."""

    def moved(self, transition: r.PhaseTransition) -> "History":
        """The phase changed."""
        return self._with("transitions", transition)

    def closed(self, turn: OrchestratorTurn) -> "History":
        """A turn came to its end; one that a file has shown already is not listed twice."""
        if any(other.source and other.turn_id == turn.turn_id for other in self.turns):
            return self
        return self._with("turns", turn)

    def run_ended(self, run: RunSummary) -> "History":
        """A run came to its end."""
        return self._with("runs", run)

    def called(self, call: CallSummary) -> "History":
        """A tool call ended."""
        return self._with("calls", call)

    def decided(self, decision: DecisionSummary) -> "History":
        """Something was decided or refused."""
        return self._with("decisions", decision)

    def ended(self, cycle: CycleSummary) -> "History":
        """A cycle is over; one that a file has shown already is not listed twice."""
        if any(other.source and other.cycle == cycle.cycle for other in self.cycles):
            return replace(self, open_cycle=None)
        return replace(self._with("cycles", cycle), open_cycle=None)

    def recovered(self, record: HistoryRecovered) -> "History":
        """A file shows what was before; the turns in it count as of that record."""
        history = self
        for name in ("transitions", "runs", "calls", "decisions", "cycles"):
            for item in getattr(record, name):
                history = history._with(name, item)
        for turn in record.turns:
            history = history._with("turns", replace(turn, seq=record.seq))
        return history

    def undone(self, rollback: Rollback) -> "History":
        """The conversation went back."""
        return replace(self, rollbacks=(*self.rollbacks, rollback)[-ROLLBACKS:])

    def from_zero(self) -> "History":
        """The history where the sums of costs and work begin again."""
        cycle = self.open_cycle and replace(self.open_cycle, usage_before=NO_USAGE, worked_before=0)
        return replace(self, open_cycle=cycle, routed=None, routing={})

    def _with(self, name: str, item: Any) -> "History":
        """The history with one more entry of a list, of which `BLOCK` leave together."""
        items = (*getattr(self, name), item)
        gone = 0
        if len(items) >= 2 * BLOCK:
            items = items[BLOCK:]
            gone = BLOCK
        changes: dict[str, Any] = {name: items, f"{name}_before": getattr(self, f"{name}_before") + gone}
        return replace(self, **changes)


def cut_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, each cut: long texts keep their beginning and their end."""
    shown: dict[str, Any] = {}
    for name, value in list(arguments.items())[:ARGUMENTS]:
        if value is None or isinstance(value, bool | int | float):
            shown[str(name)[:ARGUMENT_CHARACTERS]] = value
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        shown[str(name)[:ARGUMENT_CHARACTERS]] = cut(text, ARGUMENT_CHARACTERS)
    if len(arguments) > ARGUMENTS:
        shown["…"] = f"{len(arguments) - ARGUMENTS} more"
    return shown
