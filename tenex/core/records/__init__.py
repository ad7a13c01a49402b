"""The records of a journal: what has happened, kept for ever, in the past tense.

Every record carries its `seq` (position in its journal, from 1) and `at` (ms). The field names are the journal's
format: camelCase in JSON, snake_case here. A record whose meaning changes gets a higher `version` and a migration;
fields may be added with a default. Records of one agent's part in a turn are in `run`, those of a kind of conversation
in its folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenex.core.config import Role
from tenex.core.decider import Decider
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.port_values import Handoff, UnsignedEvent

from .agent import AgentPhaseChanged, AgentStateInitialized, AgentStateSet, ConditionFailed, PromptRerendered
from .base import Record
from .rebuild import ConversationImported, JournalRebuilt
from .run import (
    ModelCallCancelled,
    ModelReprompted,
    ModelResponded,
    Outcome,
    QuestionAnswered,
    QuestionAsked,
    RetryDue,
    RetryScheduled,
    RunEnded,
    RunStarted,
    RunWarned,
    ToolCallCompleted,
    ToolCallQueued,
    ToolCallRejected,
    ToolCallStarted,
    WorkVerdict,
)
from .undo import FilesUndone, UndoRequested, UndoScope

Purpose = Literal["completion", "question", "notice", "error", "announcement"]
Ask = Literal["", "approval", "waiver"]
"""What only a user can decide: the approval of a plan, or whether gates are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStarted(Record):
    """The first record: whose conversation it is and where it lives."""

    id: ConversationId
    title: str
    starter: PublicKey
    address: Mapping[str, Any]
    agent: Slug = Slug("")
    """The agent that answers alone; "" where the phases, or rules, choose who works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRestarted(Record):
    """A process resumed unfinished work; the `away` ms since the last record count against no deadline."""

    away: int = 0


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
class MessageRecorded(Record):
    """A message of an authorized user or agent."""

    event_id: EventId
    author: PublicKey
    name: str
    role: Role
    text: str
    created_at: int
    addressed: tuple[Slug, ...] = ()
    reply_to: EventId | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    context: str = ""
    """What it replies to or quotes, in words for models: kept as it was then, so that a replay shows them the same."""
    is_outside: bool = False
    """Sent from outside the group that the conversation is in: its author gets no right to read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWithdrawn(Record):
    """The author of the message `message` (a seq) deleted it (NIP-09)."""

    message: int
    was_read: bool = False
    """Work on it had begun: who has read it goes on, and nothing else shows it any more."""
    was_title: bool = False
    """The conversation's title is its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGiven(Record):
    """A message that is a command to the daemon; agents and the router do not see it."""

    event_id: EventId
    author: PublicKey
    name: str
    role: Role
    command: str
    argument: str
    created_at: int
    origin: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Record):
    """Nothing runs until a user writes."""

    reason: Literal["user", "fallback", "limit", "stopped", "waiver", "mission"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Record):
    """The cycle is over; a user's next message begins another."""

    reason: str
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""


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
    settles: int = 0
    """The seq up to which users' messages in a gate ask for no work of their own; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterCorrected(Record):
    """A rejected answer was followed by a valid one; `lesson` is what the router should learn from it."""

    lesson: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpened(Record):
    """Agents started to work, concurrently.

    `gates_by_effect`: the gates open when a turn in execute changes something. In older journals it opens them itself.
    """

    turn_id: TurnId
    phase: Phase
    agents: tuple[Slug, ...]
    reason: str
    handoff: Handoff | None = None
    gates_by_effect: bool = False
    decided_by: Decider | None = None
    """Who decided it; None in older journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnClosed(Record):
    """Every agent of the turn is done; `summary` joins their completions, `gate` is the quality gate this met."""

    turn_id: TurnId
    summary: str
    gate: Phase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent(Record):
    """An agent or the orchestrator sent a message; `events` are signed by id and wait for their relays.

    `call` is the question it asks, if any.

    `others` are relays that also get the events once one of `relays` has refused one permanently. `asks` is what a user
    is to decide, by a reply to these events.
    """

    speaker: PublicKey
    name: str
    text: str
    purpose: Purpose
    phase: Phase
    phase_from: Phase | None = None
    run: RunId | None = None
    call: CallId | None = None
    tags: tuple[tuple[str, ...], ...] = ()
    events: tuple[UnsignedEvent, ...] = ()
    relays: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    asks: Ask = ""
    is_published: bool = True
    """False where the words are for other agents and the conversation's file only: then there are no events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Record):
    """A relay gave its final answer about one event of a `MessageSent`; the others then have until `expires_at`.

    `refused` is the event's id where the relay did not accept it; older journals do not name it.
    """

    message: int
    part: int
    relay: str
    accepted: bool
    detail: str = ""
    expires_at: Millis = Millis(0)
    refused: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxExpired(Record):
    """Relays that did not answer in time are no longer tried for this `MessageSent`."""

    message: int


RECORDS: dict[str, type[Record]] = {kind.__name__: kind for kind in Record.__subclasses__()}
"""Every kind of record by its name in the journal."""
