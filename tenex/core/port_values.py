"""Values that cross the ports and are part of records, state or effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Role
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, RunId, Slug
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tenex.core.work.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsignedEvent:
    """An event whose id is fixed and whose signature is still to come."""

    id: EventId
    pubkey: PublicKey
    created_at: int
    """Seconds (NIP-01)."""
    kind: int
    tags: tuple[tuple[str, ...], ...]
    content: str
    sig: str = ""
    """Of one that a key signed which is used once, such as a gift wrap: only there nothing is still to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """An answer that a client may show as a button, where the relay of a conversation has them (ADR 103).

    A press is read as the picture that a reaction with the same meaning has.
    """

    picture: str
    """One of `answers.pictures`: of a number, or of a yes or no."""
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """The buttons of a question."""

    each: tuple[Button, ...]
    closes_at: Millis
    """When they end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCost:
    """What one answer has cost, for the owner of the key that gave it: of an agent in a turn, or of the router."""

    owner: PublicKey
    session: str
    """The conversation."""
    turn: str
    """The id of the run; of the router the seq of its answer."""
    usage: Usage
    model: str
    ended: Millis
    outcome: str = ""
    """Of the run; "" for the router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap:
    """A message as one of its readers gets it in private: the event that hides it, and where they look for it."""

    event: UnsignedEvent
    relays: tuple[str, ...]


def outgoing_events(
    events: Sequence[UnsignedEvent], relays: tuple[str, ...], wraps: Sequence[Wrap]
) -> list[tuple[UnsignedEvent, tuple[str, ...]]]:
    """What goes out for a message, and where: its events, or the wraps in place of them."""
    if wraps:
        return [(wrap.event, wrap.relays) for wrap in wraps]
    return [(event, relays) for event in events]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutcome:
    """How one relay took one event, finally."""

    accepted: bool
    detail: str = ""
    is_outdated: bool = False
    """Whether it was refused, has a date that is not of now, and the relay was asked and does not have it: the same
    words with a new date may be accepted, and are then there once."""
    fallback: PublicKey | None = None
    """Of an event in a room that was refused: another key of ours that may write there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOutcome:
    """What came of an `/undo`; the fields as in `FilesUndone`."""

    to: int = 0
    since: str = ""
    files: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    restored_tree: str = ""
    previous_tree: str = ""
    unclear: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    is_as_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What the last transition or hand-off passes to the next agents."""

    from_: Phase
    to: Phase
    message: str
    reason: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stored message, whole or in part; the title counts as one, without a name."""

    seq: int
    """Of its record: the number of the message in its conversation."""
    at: Millis
    name: str
    text: str
    author: str = ""
    """The user who wrote it to this conversation; "" for all else: our messages, commands, what came from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages:
    """Messages of one conversation, oldest first."""

    conversation: ConversationId
    title: str
    messages: tuple[Passage, ...] = ()
    others: int = 0
    """Messages that match too."""
    imported: bool = False
    """Its first messages were not written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassagesFound:
    """What a search of the conversations has found: the asking one first, if anything is found in it."""

    found: tuple[Passages, ...]
    is_partial: bool = False
    """No message has all the words; these have some."""
    fault: str = ""
    """Why not all conversations were searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """An event that a message replies to or quotes and that is not of its conversation."""

    event_id: EventId
    name: str = ""
    """Who wrote it."""
    text: str = ""
    """The beginning; "" where it may not be shown in the conversation of the message."""
    conversation: ConversationId | None = None
    """The conversation it belongs to; None for a note of others, or one that may not be shown."""
    title: str = ""
    """Of that conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """A file for a person: at an address where a server took it, else with words that stand in its place."""

    name: str
    media_type: str
    size: int
    """Bytes of what is at the address."""
    caption: str = ""
    url: str = ""
    """Where it can be loaded; "" where it was not sent."""
    x: str = ""
    """The SHA-256 of what is at the address, in hexadecimal."""
    dim: str = ""
    """Of a picture: `<width>x<height>` in pixels."""
    key: str = ""
    """Of one that is encrypted: its key, its nonce and the SHA-256 of what is decrypted, in hexadecimal."""
    nonce: str = ""
    ox: str = ""
    instead: str = ""
    """What the person reads in place of a file that was not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDestination:
    """Where a file for a person goes: to the conversation, as the form of its messages has it."""

    address: Mapping[str, Any] = field(default_factory=dict)
    """As in `OutgoingMessage`; empty outside of a conversation that is published."""
    reply_to: Mapping[str, Any] = field(default_factory=dict)
    """As in `OutgoingMessage`."""
    person: PublicKey | None = None
    """The user on whose behalf it is sent."""
    role: Role | None = None
    waiting: int = 0
    """Files that wait for the next messages of the conversation."""
    speaker: PublicKey | None = None
    """The key of ours whose message the file goes with; None for the project's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOutcome:
    """What came of a `/show`."""

    text: str = ""
    """What the person reads: the file where it is short text, a list where it is a folder, why there is nothing."""
    files: tuple[AttachedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionReply:
    """What a person has answered to a question of a tool."""

    question: str
    """As it was asked."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """What every tool is given about the call it serves."""

    conversation_id: ConversationId
    cycle: int
    turn: str
    phase: Phase
    previous_phase: Phase | None
    handoff: Handoff | None
    agent: Slug
    idempotency_key: str
    call_id: CallId = CallId("")
    run: RunId = RunId("")
    """The part of the agent in its turn; "" for a call outside of a conversation's turns."""
    touched: frozenset[str] = frozenset()
    """Paths, relative to the workspace, that this cycle has changed."""
    read: Mapping[str, str] = field(default_factory=dict)
    """Paths this agent has read in this run, with the sha256 of what it saw."""
    agent_state: AgentPhaseState | None = None
    """Where the agent is in its own phases; None for one that has none."""
    author: PublicKey | None = None
    """The user on whose behalf it works: of several in the conversation, one who may do least."""
    role: Role | None = None
    """What that user may do; None where no message is known."""
    answers: tuple[QuestionReply, ...] = ()
    """What people have answered to questions of this tool with these arguments, the oldest first."""
    destination: FileDestination = FileDestination()
    """Where a file for a person goes."""
    tools: frozenset[str] = frozenset()
    """The tools that the agent may call in this phase; set by those who carry the call out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call gave back. A refusal or a failure is a result like any other: `ok` is False."""

    ok: bool
    content: str
    """What the model reads."""
    read: Mapping[str, str] = field(default_factory=dict)
    """Paths read, relative to the workspace, with the sha256 of their content."""
    touched: tuple[str, ...] = ()
    """Paths changed, relative to the workspace."""
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of some of them: the lines added and removed since the cycle began; (0, 0) where that is not known, too."""
    unchanged: tuple[str, ...] = ()
    """Those of `touched` that are known to be as they were when the cycle began."""
    lesson: str = ""
    """The lesson recorded, if that is what the call did."""
    reverted: tuple[str, ...] = ()
    """Paths that a program wrote beyond what the phase permits: the workspace does not have that."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the agent's own state that were changed, as JSON values."""
    moves: tuple[tuple[str, str], ...] = ()
    """From which to which of its own phases the agent went by the call itself."""
    route: Route | None = None
    """Who works next, or that the conversation ends, if the call asks for that."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the conversation that the call sets."""
    removed: tuple[str, ...] = ()
    """Variables of the conversation that the call deletes."""
    exit_status: int | None = None
    """The exit status of the program that it ran, negative where a signal ended it; None where it ran none."""
    has_outside_effect: bool = False
    """Whether it may have changed something that `touched` does not name."""
    background: Mapping[str, str] | None = None
    """The commands of its run that go on in the background now, by their ids; None where it says nothing of them."""
    question: str = ""
    """What it asks a person before it can go on; nothing was done. It is called again with the answer."""
    form: Mapping[str, Any] = field(default_factory=dict)
    """The fields of that question, as `core.forms` stores them; empty where every text is an answer."""
    files: tuple[AttachedFile, ...] = ()
    """Files that go to a person with the next message of the agent."""
