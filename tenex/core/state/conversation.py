"""What a conversation's state is made of, and what can be read from it without a rule.

All of it is bounded however long the conversation, by the numbers here, the roster and the workspace: a snapshot is
this, written down. Collections are replaced, never changed in place, so that a copy is shallow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeVar

from tenex.core import records as r
from tenex.core.context.window import PastCycle
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import QUALITY_PHASES, TALK_PHASES, Phase
from tenex.core.port_values import UnsignedEvent
from tenex.core.verdicts import Verdict

from .agent import AgentPhaseState
from .history import History
from .memory import UserDecision, Window
from .mission import Mission
from .questions import DecisionQuestion
from .run import Message, OrchestratorTurn, Question, Run
from .undecided import Undecided
from .workflow import WorkflowSession

CYCLE_MESSAGES = 30
"""Messages of a cycle the router is shown, and turns: more would only push out the newest in its window."""
CYCLE_BLOCK = 10
"""Messages, or turns, that leave the cycle together: between, the router's questions begin with the same ones."""
SEEN = 512
"""Event ids kept against a message that arrives twice; the index remembers the older ones."""
ROUTER_LESSONS = 10
EARLIER_PLANS = 100
"""Messages that presented a plan which was changed since: a late `/approve` as a reply to one approves nothing."""
LINES_KEPT = 500
"""Changed files whose added and removed lines are remembered; users are shown fewer."""
READ_FILES = 500
"""Files read in a cycle that are remembered by name: for users to see, so the newest will do."""
SYSTEMS = 40
"""System prompts remembered, the lately used: one for each agent and phase of a cycle, and room for changed ones."""
SPENDING_DAYS = 2
"""Today, and the day before for a clock that is set back a little."""

TITLE_CHARACTERS = 80

Status = Literal["new", "active", "waiting", "ended"]
T = TypeVar("T")


def title_of(text: str) -> str:
    """What a conversation is called after its first words: their first line, cut."""
    title = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """Where a fork branched off: after record `seq` of another conversation, called `title`."""

    id: ConversationId
    seq: int
    title: str


def of_cycle(items: tuple[T, ...], item: T, first: int = 0) -> tuple[T, ...]:
    """The newest items of a cycle with one more, the `first` of them whatever follows."""
    items = (*items, item)
    if len(items) <= CYCLE_MESSAGES:
        return items
    return (*items[:first], *items[first + CYCLE_BLOCK :])


def worked_on(state: "State", shown: int) -> int:
    """`State.worked_on` once agents of the open turn were shown the messages up to `shown`."""
    before = state.answered if state.worked_on is None else state.worked_on
    turn = state.turn
    if turn is None or turn.phase not in QUALITY_PHASES:
        return max(before, shown)
    previous = state.turns[-1].seq if state.turns else 0
    is_for_message = turn.phase is Phase.VERIFICATION and previous < state.asked_at_rest < turn.seq
    return max(before, state.asked_at_rest) if is_for_message else before


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMetrics:
    """What a phase has taken so far: finished stays, ms, model calls and what they cost."""

    visits: int = 0
    duration: int = 0
    usage: Usage = NO_USAGE
    working: int = field(default=0, compare=False)
    """ms of `duration` without those in which a user was waited for; older snapshots lack it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The events of one `MessageSent` and the relays that have not answered for good."""

    events: tuple[UnsignedEvent, ...]
    open: tuple[tuple[int, str], ...]
    """(part, relay), in the order in which they go out."""
    expires_at: Millis = Millis(0)
    others: tuple[str, ...] = ()
    """Relays to try too once one has refused an event for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRefusal:
    """A relay refused an event of a `MessageSent` for good."""

    message: int
    event: EventId
    relay: str
    reason: str
    at: Millis
    is_delivered: bool = False
    """Another relay has accepted what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoState:
    """An `/undo` that is open, or the list it gave; `to` as in `UndoRequested`, of a list what undoes it."""

    seq: int
    scope: r.UndoScope
    to: int = 0
    is_open: bool = True


# What a rollback does with a field of `State`; each field is declared as one of the three. (ADR 15.)
Restored = Annotated[T, "restored"]
"""It gets its earlier value: what agents and the router know, and what the rules of the cycle read."""
Reset = Annotated[T, "reset"]
"""It gets its default: what was open then, or is open now, is over, and so are the counts since a user spoke."""
Kept = Annotated[T, "kept"]
"""It keeps its present value: money is spent, sent messages are delivered, and no message, id or name is used twice."""


@dataclass(slots=True)
class State:
    """The state of a conversation."""

    id: Kept[ConversationId]
    next_seq: Kept[int] = 1
    started_at: Kept[Millis] = Millis(0)
    updated_at: Kept[Millis] = Millis(0)
    title: Restored[str] = ""
    starter: Kept[PublicKey] = PublicKey("")
    address: Kept[Mapping[str, Any]] = field(default_factory=dict)
    agent: Kept[Slug] = Slug("")
    """The agent that answers alone, as configured when the conversation began; "" for none."""
    status: Restored[Status] = "new"
    waiting_for: Restored[str] = ""
    phase: Restored[Phase] = Phase.CHAT
    phase_started_at: Kept[Millis] = Millis(0)
    working: Kept[int] = field(default=0, compare=False)
    """ms in which an agent or the router worked: not those in which a user, an operator or another day was waited for.
    For readers, and older snapshots lack it."""
    worked_before_phase: Kept[int] = field(default=0, compare=False)
    """The same when the phase was entered."""
    cycle: Restored[int] = 0

    # the current cycle
    messages: Restored[tuple[Message, ...]] = ()
    turns: Restored[tuple[OrchestratorTurn, ...]] = ()
    participants: Restored[tuple[Slug, ...]] = ()
    reflected: Restored[frozenset[Slug]] = frozenset()
    executed: Restored[bool] = False
    gates_met: Restored[frozenset[Phase]] = frozenset()
    waivers: Restored[tuple[r.Waived, ...]] = ()
    delay_reported: Reset[bool] = field(default=False, compare=False)
    """Whether users know that the router is slow, since one of them last wrote; older snapshots lack it."""
    wrote_since_entry: Restored[bool] = False
    """A user has written since the phase was entered."""
    plan_question: Restored[DecisionQuestion | None] = None
    """The messages that presented the newest plan and asked for its approval; None for none."""
    earlier_plans: Restored[tuple[EventId, ...]] = ()
    """The newest of the messages that presented plans of this cycle which have been changed since."""
    approved_turn: Restored[TurnId] = TurnId("")
    """The turn whose plan a user has approved; "" for none. A later turn makes another plan."""
    touched: Restored[frozenset[str]] = frozenset()
    lines: Restored[Mapping[str, tuple[int, int]]] = field(default_factory=dict, compare=False)
    """Lines added and removed in some of them since the cycle began, for readers; older snapshots lack it."""
    changed_outside: Restored[bool] = field(default=False, compare=False)
    """Whether execute may have changed something that `touched` does not name; older snapshots lack it."""
    read_files: Restored[Mapping[str, str]] = field(default_factory=dict)
    cycle_usage: Restored[Usage] = NO_USAGE
    talk_usage: Restored[Usage] = field(default=NO_USAGE, compare=False)
    """What of it does not count against the limits of a cycle: of talk, and with one agent alone of earlier messages.
    A snapshot written before it was counted lacks it; then all of it counts."""

    # since a user last spoke
    turns_since_user: Reset[int] = 0
    route_streak: Reset[int] = 0
    streak_of: Reset[tuple[str, ...]] = ()

    # what is open
    turn: Reset[OrchestratorTurn | None] = None
    runs: Reset[Mapping[RunId, Run]] = field(default_factory=dict)
    question: Reset[Question | None] = None
    addressed: Reset[tuple[tuple[Slug, str], ...]] = ()
    """Agents a user mentioned who have not had their turn, with the user's name."""
    waiver_asked: Reset[tuple[Phase, ...]] = ()
    """Gates a user is being asked to give up."""
    waiver_asked_of: Reset[PublicKey] = PublicKey("")
    """Who is asked; "" for any owner."""
    waiver_question: Reset[DecisionQuestion | None] = None
    """The message that asks; None where its journal does not name it."""
    waiver_untried: Reset[str] = ""
    """Why the work could not be tried, where a user is asked to accept that."""
    untried_asked: Restored[bool] = False
    """A user was asked to accept untried what has been changed; they are asked once."""
    waiver_declined: Restored[frozenset[Phase]] = frozenset()
    """Gates a user was asked to give up, and would not, since someone last wrote."""
    stopped: Kept[int] = 0
    """The seq of the newest `Stopped` or `RolledBack`: a message before it is no reason to begin another cycle."""
    outbox: Kept[Mapping[int, OutboxRow]] = field(default_factory=dict)
    refusals: Kept[tuple[RelayRefusal, ...]] = ()
    """The newest events that a relay refused for good."""
    asks: Reset[Mapping[str, tuple[RunId, str]]] = field(default_factory=dict)
    """Event id of a question we put -> the run and the call it belongs to."""
    undo: Reset[UndoState | None] = None
    """The newest `/undo`, until other work begins."""
    mission: Restored[Mission | None] = None
    """The current mission, or the last one."""
    refused: Restored[str] = ""
    """The mission that what was written here could not begin yet; "" for none."""
    undecided: Reset[tuple[Undecided, ...]] = ()
    """Signals that wait for functions of operators, in order; the functions of the first are being called."""
    verdicts: Reset[Mapping[str, Verdict]] = field(default_factory=dict)
    """What functions of operators have answered for the open runs, by `Verdict.key`."""

    # memory
    turn_count: Kept[int] = 0
    last_turn: Restored[OrchestratorTurn | None] = None
    last_transition: Restored[r.PhaseTransition | r.HandedOff | None] = None
    unannounced: Reset[r.PhaseTransition | None] = None
    """The last transition, as long as no message has shown it."""
    phase_from: Restored[Phase | None] = None
    """The phase before this one."""
    origin: Kept[Mapping[str, Any]] = field(default_factory=dict)
    """The message we answer: a user's newest that is no command."""
    first_origin: Kept[Mapping[str, Any]] = field(default_factory=dict, compare=False)
    """The message that began the conversation, answered where the newest was deleted; older snapshots lack it."""
    command_origin: Reset[Mapping[str, Any]] = field(default_factory=dict)
    """The command that the next message answers, where one was given last."""
    origin_at: Kept[int] = 0
    last_created_at: Kept[int] = 0
    answered: Restored[int] = 0
    """The seq of the newest message that an agent was shown before its run ended."""
    worked_on: Restored[int | None] = field(default=None, compare=False)
    """The same, of runs in phases that may carry a message out: a gate may only look at what was asked for before.
    A snapshot written before this was kept lacks it; then it is `answered`."""
    asked_at_rest: Restored[int] = field(default=0, compare=False)
    """The seq of the newest message that came in execute while nothing was under way or asked. The router could choose
    any work for it: where it chose to verify, that was what the user asked for."""
    router_asked: Restored[int] = field(default=0, compare=False)
    """The seq of the router's newest question: it knows of no message after it. Older snapshots lack it."""
    recent: Restored[tuple[Message, ...]] = ()
    """The newest messages, whole, across cycles."""
    recent_size: Restored[int] = field(default=0, compare=False)
    """About the bytes of `recent`. This, `earlier`, `user_decisions` and `window` are not compared, because a snapshot
    written before there were any lacks them; so no decision may depend on them."""
    earlier: Restored[tuple[Message, ...]] = field(default=(), compare=False)
    """Users' messages before these, each cut to a line: the first ones and the newest."""
    user_decisions: Restored[tuple[UserDecision, ...]] = field(default=(), compare=False)
    """What users decided: their answers to questions, the gates they gave up, the plans they approved."""
    window: Restored[Window] = field(default_factory=Window, compare=False)
    """What the newest run of a turn's own agents was shown of the conversation."""
    seen: Kept[dict[str, None]] = field(default_factory=dict)
    past: Restored[tuple[PastCycle, ...]] = ()
    """What stays of the cycles that are over."""
    systems: Kept[Mapping[str, str]] = field(default_factory=dict)
    """System prompts by their digest, the lately used last."""
    router_lessons: Kept[tuple[str, ...]] = ()
    usage: Kept[Usage] = NO_USAGE
    granted: Kept[Usage] = NO_USAGE
    """The sum of `usage` when a user last let the conversation go on: its own limits count from there."""
    spending: Kept[Mapping[int, Mapping[PublicKey, Usage]]] = field(default_factory=dict, compare=False)
    """What the newest `SPENDING_DAYS` days have cost, by day since 1970 (UTC) and by `on_behalf_of`. No rule of the
    conversation reads it, and a snapshot written before it was counted lacks it; so it is not compared."""
    limit_reported: Kept[tuple[str, Millis]] = ("", Millis(0))
    """The last limit of a day that users were informed of, and when that day ends."""
    metrics: Kept[Mapping[Phase, PhaseMetrics]] = field(default_factory=dict)
    forked_from: Kept[ForkOrigin | None] = None
    imported: Kept[int] = 0
    """The seq up to which its records were not written here, but imported; 0 where all were."""
    workflow: Restored[WorkflowSession | None] = None
    """The workflow this is a conversation of: its rules are the router, and no phase forbids anything."""
    agent_states: Restored[Mapping[str, AgentPhaseState]] = field(default_factory=dict)
    """States of agents in their own phases, by `Run.state_key`."""
    history: Kept[History | None] = field(default_factory=History, compare=False)
    """For readers; None where none is kept. A snapshot of an older program lacks most of it, so it is not compared."""

    @property
    def on_behalf_of(self) -> PublicKey:
        """The user whose message began the cycle; who wrote last where the cycle began without one.

        Not who is only said to have written: such a message has no author.
        """
        written = chain(self.messages, reversed(self.recent))
        return next((m.author for m in written if m.role is not None and m.author), self.starter)

    @property
    def has_phases(self) -> bool:
        """Whether the seven phases limit what agents may do; else it is in `execute`, where code forbids nothing.

        A new kind without phases is excluded here. Missions need not be: they have a sender of their own.
        """
        return self.workflow is None and not self.agent

    @property
    def place(self) -> str:
        """The phase; in a conversation without phases `@` and the agent or workflow that it is with."""
        if self.mission is not None and self.mission.is_alone:
            return f"@{self.mission.workflow}"
        name = self.agent if self.workflow is None else self.workflow.slug
        return f"@{name}" if name else str(self.phase)

    @property
    def is_talk(self) -> bool:
        """Whether it is in a phase in which nothing is made."""
        return self.has_phases and not self.has_mission and self.phase in TALK_PHASES

    @property
    def position(self) -> str:
        """The phase, if there are phases, and the cycle, as part of a sentence."""
        return f"in {self.phase}, cycle {self.cycle}" if self.has_phases else f"in cycle {self.cycle}"

    @property
    def unmet_gates(self) -> tuple[Phase, ...]:
        """The quality gates still in the way of END, in order."""
        if not self.executed or not self.has_phases:
            return ()
        waived = self.waived
        return tuple(gate for gate in QUALITY_PHASES if gate not in self.gates_met and gate not in waived)

    @property
    def waived(self) -> frozenset[Phase]:
        """The gates a user gave up in this cycle."""
        return frozenset(phase for waiver in self.waivers for phase in waiver.phases)

    @property
    def has_mission(self) -> bool:
        """Whether a mission is open, running or paused: while it is, its nodes decide what is next, not the router."""
        return self.mission is not None and self.mission.is_open

    @property
    def undecided_keys(self) -> frozenset[object]:
        """The keys of the tasks that have ended in a signal that is not decided."""
        return frozenset(getattr(one.signal, "key", None) for one in self.undecided)

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

    def failed_tries(self, run: Run | None) -> int:
        """How often the present model call of a run has failed in transport; with None that of the router."""
        if run is not None:
            return run.attempt
        return self.question.tries if self.question is not None else 0

    @property
    def unanswered(self) -> tuple[Message, ...]:
        """A user's messages of this cycle that no agent has been shown."""
        return tuple(m for m in self.messages if m.role is not None and m.seq > self.answered)

    def spare_systems(self, digest: str) -> tuple[str, ...]:
        """The prompts that no one has used for longest, as many as must go if this one is to be remembered too."""
        surplus = 0 if digest in self.systems else len(self.systems) - SYSTEMS + 1
        return tuple(islice(self.systems, max(0, surplus)))

    @property
    def requests(self) -> tuple[Message, ...]:
        """A user's messages of this cycle that no turn could carry out: shown to no agent, or in quality gates only.

        Answers to us are none, nor is what came before a user stopped the work.
        """
        handled = max(self.answered if self.worked_on is None else self.worked_on, self.stopped)
        return tuple(m for m in self.messages if m.role is not None and m.seq > handled and not m.is_answer)

    def newer_than_last_turn(self) -> tuple[Message, ...]:
        """What a cycle begins with in journals whose `CycleStarted` does not name it."""
        opened = max(self.turns[-1].seq if self.turns else 0, self.stopped)
        return tuple(m for m in self.messages if m.role is not None and m.seq > opened and not m.is_answer)
