"""What a conversation's state is made of, and what can be read from it without a rule.

What `decide` needs is bounded; what only readers need goes to `history`. Collections are replaced, never changed in
place, so that a copy is shallow.

Never: change anything; that is `folds`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import records as r
from .context import PastCycle
from .ids import ConversationId, Millis, PublicKey, RunId, Slug
from .phases import QUALITY_PHASES, Phase
from .ports import UnsignedEvent
from .runs import Message, OrchestratorTurn, Question, Run
from .steps import NO_USAGE, Usage

CYCLE_MESSAGES = 30
"""Messages of a cycle the router is shown, and turns: more would only push out the newest in its window."""
RECENT = 40
"""Messages kept for the agents' context, across cycles."""
SEEN = 512
"""Event ids kept against a message that arrives twice; the index remembers the older ones."""
ROUTER_LESSONS = 10
SYSTEMS = 32
"""System prompts kept, those used last: each lesson and each change of the workspace's notes makes new ones."""

TITLE_CHARACTERS = 80

Status = Literal["new", "active", "waiting", "ended"]


def title_of(text: str) -> str:
    """What a conversation is called after its first words: their first line, cut."""
    title = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1].rstrip() + "…"


@dataclass(slots=True)
class History:
    """What has happened, for readers: grows with the conversation, is never looked at by a rule."""

    transitions: list[r.PhaseTransition] = field(default_factory=list)
    turns: list[OrchestratorTurn] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMetrics:
    """What a phase has taken so far: finished stays, ms, model calls and what they cost."""

    visits: int = 0
    duration: int = 0
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The events of one `Said` and the relays that have not answered for good."""

    events: tuple[UnsignedEvent, ...]
    open: tuple[tuple[int, str], ...]
    """(part, relay), in the order in which they go out."""
    expires_at: Millis = Millis(0)


@dataclass(slots=True)
class State:
    """Where a conversation stands."""

    id: ConversationId
    next_seq: int = 1
    started_at: Millis = Millis(0)
    updated_at: Millis = Millis(0)
    title: str = ""
    starter: PublicKey = PublicKey("")
    address: Mapping[str, Any] = field(default_factory=dict)
    status: Status = "new"
    waiting_for: str = ""
    phase: Phase = Phase.CHAT
    phase_started_at: Millis = Millis(0)
    cycle: int = 0

    # the cycle at hand
    messages: tuple[Message, ...] = ()
    turns: tuple[OrchestratorTurn, ...] = ()
    participants: tuple[Slug, ...] = ()
    reflected: frozenset[Slug] = frozenset()
    executed: bool = False
    gates_met: frozenset[Phase] = frozenset()
    waivers: tuple[r.Waived, ...] = ()
    wrote_since_entry: bool = False
    """A person has written since the phase was entered."""
    touched: frozenset[str] = frozenset()
    read_files: Mapping[str, str] = field(default_factory=dict)
    cycle_usage: Usage = NO_USAGE

    # since a person last spoke
    turns_since_person: int = 0
    route_streak: int = 0
    streak_of: tuple[str, ...] = ()

    # what is open
    turn: OrchestratorTurn | None = None
    runs: Mapping[RunId, Run] = field(default_factory=dict)
    question: Question | None = None
    addressed: tuple[tuple[Slug, str], ...] = ()
    """Agents a person mentioned who have not had their turn, with the person's name."""
    waiver_asked: tuple[Phase, ...] = ()
    waiver_declined: frozenset[Phase] = frozenset()
    """Gates of this cycle a person was asked to give up, and would not."""
    stopped: int = 0
    """The seq of the newest `Stopped`: what was written before it is no reason to begin another cycle."""
    outbox: Mapping[int, OutboxRow] = field(default_factory=dict)
    asks: Mapping[str, tuple[RunId, str]] = field(default_factory=dict)
    """Event id of a question we put -> the run and the call it belongs to."""

    # memory
    turn_count: int = 0
    last_turn: OrchestratorTurn | None = None
    last_transition: r.PhaseTransition | r.HandedOff | None = None
    unannounced: r.PhaseTransition | None = None
    """The last transition, as long as no message has shown it."""
    phase_from: Phase | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What we answer: the newest thing a person said."""
    origin_at: int = 0
    last_created_at: int = 0
    answered: int = 0
    """The seq of the newest message that an agent was shown before its run ended."""
    recent: tuple[Message, ...] = ()
    seen: Mapping[str, None] = field(default_factory=dict)
    past: tuple[PastCycle, ...] = ()
    """What stays of the cycles that are over."""
    systems: Mapping[str, str] = field(default_factory=dict)
    """By digest, the one used last at the end; a record whose prompt is not among them holds it."""
    router_lessons: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    metrics: Mapping[Phase, PhaseMetrics] = field(default_factory=dict)
    history: History | None = field(default_factory=History)

    @property
    def previous_phase(self) -> Phase | None:
        """The phase before this one, in this conversation."""
        return self.phase_from

    @property
    def open_gates(self) -> tuple[Phase, ...]:
        """The quality gates still in the way of END, in order."""
        if not self.executed:
            return ()
        waived = self.waived
        return tuple(gate for gate in QUALITY_PHASES if gate not in self.gates_met and gate not in waived)

    @property
    def waived(self) -> frozenset[Phase]:
        """The gates a person gave up in this cycle."""
        return frozenset(phase for waiver in self.waivers for phase in waiver.phases)

    @property
    def is_parked(self) -> bool:
        """Whether every open run waits for a person."""
        return bool(self.runs) and all(run.is_parked for run in self.runs.values())

    @property
    def unanswered(self) -> tuple[Message, ...]:
        """A person's messages of this cycle that no agent has been shown."""
        return tuple(m for m in self.messages if m.role is not None and m.seq > self.answered)

    def newer_than_last_turn(self) -> tuple[Message, ...]:
        """A person's messages that came after the last turn of this cycle was opened, and were no answer to us."""
        opened = max(self.turns[-1].seq if self.turns else 0, self.stopped)
        return tuple(m for m in self.messages if m.role is not None and m.seq > opened and not m.is_answer)
