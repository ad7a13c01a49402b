"""What the core and the runtime need from outside, as protocols; `app/root.py` connects them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tenex.core.conversation import Conversation, Run
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Check, Inspect, KindEffect
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.inbox.received_files import NamedFile, ReceivedFile
from tenex.core.messages import ModelRequest, ModelStep, StartEntry, ToolSpec
from tenex.core.phases import Phase
from tenex.core.port_values import (
    AttachedFile,
    Buttons,
    ExecutionContext,
    FileDestination,
    Handoff,
    PublishOutcome,
    Quotation,
    ToolResult,
    TurnCost,
    UnsignedEvent,
    Wrap,
)
from tenex.core.records import Record
from tenex.core.signals import InboundMessage, Signal


class Clock(Protocol):
    """Time, so that tests may own it."""

    def now(self) -> Millis:
        """Milliseconds since the epoch."""

    async def sleep_until(self, due: Millis) -> None:
        """Return once `now() >= due`; at once if that has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message of an agent before it has an event format."""

    speaker: PublicKey
    text: str
    tags: tuple[tuple[str, ...], ...] = ()
    """Tags every form carries: phase, phase-from, status, tool, error, llm-*."""
    created_at: int
    """Seconds; already later than our last one here and than what it answers."""
    address: Mapping[str, Any]
    """Where the conversation lives, as the form that opened it wrote it down (`ConversationStarted.address`)."""
    reply_to: Mapping[str, Any]
    """The message that is answered, as its form wrote it down (`MessageRecorded.origin`)."""
    is_markdown: bool = False
    """Whether a model wrote the text: clients that show no Markdown get it without its marks."""
    name: str = ""
    """The speaker's, for forms in which one key sends for all."""
    notifies: tuple[PublicKey, ...] | None = None
    """Whom p tags may name; None for all whom the form names. Where they name its readers, they name all."""
    silent: tuple[PublicKey, ...] = ()
    """Whom they may not name."""
    most_bytes: int = 0
    """Of an event, where its key signs only small ones or a relay takes no others; 0 for the usual size."""
    most_characters: int = 0
    """Of the content of an event, where a relay takes no more; 0 for as many as fit into it."""
    files: tuple[AttachedFile, ...] = ()
    """What goes with it; `text` has what is read of them (`delivery.files.words_with_files`)."""
    buttons: Buttons | None = None
    """Answers to it that clients may show as buttons."""


class Sealer(Protocol):
    """Gives a draft the shape of its form: tags, kind, splitting, ids. Synchronous, no network."""

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """One event, or several in order where the text is too long for one; created_at counts up."""

    def wraps(self, draft: OutgoingMessage, events: Sequence[UnsignedEvent]) -> tuple[Wrap, ...]:
        """What is published in place of the events of a draft, finished; () where they are published themselves."""

    def has_buttons(self, draft: OutgoingMessage) -> bool:
        """Whether the buttons of a draft are part of its events; else it is sealed as one without."""

    def closing(self, draft: OutgoingMessage, event: EventId) -> tuple[UnsignedEvent, ...]:
        """What ends the buttons of an earlier event; the text of the draft is not used."""

    def cost_report(self, draft: OutgoingMessage, cost: TurnCost) -> tuple[UnsignedEvent, ...]:
        """What informs an owner of a cost; the text of the draft is not used. () without the speaker's key."""

    def redated(self, event: UnsignedEvent, created_at: int) -> UnsignedEvent:
        """The same event with another date (seconds), and so another id."""

    def relays(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """Where the events of a draft are to be published."""

    def others(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """Where they are published too if one of those relays refuses them for good."""


class Publisher(Protocol):
    """Signs and sends."""

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Send until the relay has answered for good; the same bytes each time. Cancelling is safe."""


OnText = Callable[[str], None]
"""Receives the text so far of an answer being written; it may be dropped."""


def ignore_text(text: str) -> None:
    """Drop the text."""


class Model(Protocol):
    """A model: takes a request and returns one step."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once, in bounded time; waiting for a turn at a busy provider is not part of it.

        Raises:
            ModelUnavailable: in transport; may be tried again.
            ModelRefused: the answer is of no use (refused, not parsable); trying the same again is no help.
        """


class Tools(Protocol):
    """Offers tools and runs calls."""

    def specs(self, phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        """What an agent is offered in a phase; None: all that it may use in any of them."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Check the gate once more, then do it. Never raises for what a model can do wrong."""


@runtime_checkable
class KindTask(Protocol):
    """A node's run: ends in one signal, and requests steps and reports their results by others."""

    async def __call__(self) -> Signal:
        """Run the node; whatever happens, end in `NodeReturned` or `NodeFailed`."""

    def see(self, effect: KindEffect) -> None:
        """Receive what has become durable of its steps since."""

    def rest(self) -> None:
        """Want no more steps: the process is about to stop, and those under way may return."""

    @property
    def is_busy(self) -> bool:
        """Whether a step is under way, from when it was asked for until it is known to be durable."""


class FileSender(Protocol):
    """Uploads files for people, to where they can be loaded with a link."""

    async def send(
        self, data: bytes, *, name: str, media_type: str, unique: str, destination: FileDestination
    ) -> AttachedFile:
        """Upload a file in the form of its conversation, encrypted where that is; the same again makes no second copy.

        Args:
            data: the file.
            name: as people are shown it.
            media_type: what it is.
            unique: identifies what sends it, so that a repetition after a restart gives the same.
            destination: the conversation.

        Raises:
            FileNotSent: no server has it; the sentence says why.
        """


class Checks(Protocol):
    """Looks at the workspace, and runs the project's checks in it."""

    async def inspect(self, effect: Inspect) -> Inspection:
        """What differs since the cycle began, and which checks apply; a fault is part of the answer."""

    async def run(self, effect: Check) -> CheckResult:
        """Run a check in a view; whatever happens, it ends in a result. Cancelled, it ends its programs."""


class KindRunner(Protocol):
    """Runs the work that kinds of conversation want."""

    def prepare(self, effect: KindEffect, post: Callable[[Signal], None]) -> KindTask:
        """The run of a node, to be begun later or never; it posts signals about its steps while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A run's prompt as it will be sent: recorded with the run, so that a restart sends the same bytes."""

    system: str
    entries: tuple[StartEntry, ...]


class Prompter(Protocol):
    """Renders prompts. Synchronous."""

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """The prompt of an agent at the start of its run."""

    def route(self, conversation: Conversation) -> ModelRequest:
        """The question the router is asked now."""


class Journal(Protocol):
    """One conversation's facts, in order, with one writer at a time.

    A store of one machine has a lock for that, one of several a lease with a token that each append checks.
    """

    @property
    def next_seq(self) -> int:
        """The seq the next record must have, and the one that an append expects the store to be at."""

    @property
    def may_start(self) -> bool:
        """Whether effects may start: no other process can become the writer of this conversation for a while yet."""

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make the records durable, each decision whole or not at all, in order.

        Raises:
            AppendConflict: another writer has appended since; nothing was stored. Open the journal again.
            HeldElsewhere: another worker has taken the conversation over, with what was stored until then.
            AppendFailed: nothing may be assumed about what is stored; open the journal again.
        """

    async def close(self) -> None:
        """Close the journal; a second call does nothing."""


class Journals(Protocol):
    """All conversations of a store."""

    async def open(self, conversation: ConversationId) -> tuple[Journal, Sequence[Record]]:
        """The journal, made if missing, and what is to be folded: its records, or a snapshot and those after it.

        Raises:
            StoreDamaged: it holds what we did not write; it is quarantined, and the sentence names the place.
            HeldElsewhere: another worker writes it now.
            AppendFailed: the store cannot be used now.
        """

    async def show(self, conversation: Conversation) -> None:
        """Write the readable view (`conversation.json`), atomically, and put away what the journal need not read again.

        Called with a state that is wholly durable, at a moment when no one waits.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Why a user's message has no answer: everything the notice to them is built from."""

    conversation: ConversationId
    author: PublicKey
    """Who is notified."""
    failure: str
    written: int
    """Seconds: when the unanswered message, or the last one after it, was written."""
    address: Mapping[str, Any]
    origin: Mapping[str, Any]

    @property
    def key(self) -> tuple[ConversationId, PublicKey, str]:
        """Identifies a notice, which is sent once."""
        return self.conversation, self.author, self.failure


class Notices(Protocol):
    """Persists which users were notified of failures that a conversation's own journal cannot record."""

    def open_notices(self) -> Iterable[Notice]:
        """The notices of every failure that is not cleared."""

    async def add_notice(self, notice: Notice) -> None:
        """Persist a notice before it is sent.

        Raises:
            AppendFailed: the disk did not take it.
            StoreDamaged: the persisted notices cannot be read.
        """

    async def clear_notices(self, conversation: ConversationId) -> None:
        """Forget the notices of a conversation that works again. Raises as `add_notice` does."""


class Directory(Protocol):
    """Which conversation an event belongs to, across restarts."""

    def conversation_of(self, event_id: str) -> ConversationId | None:
        """The conversation that received or sent this event here; None if none is known."""

    def exists(self, conversation: ConversationId) -> bool:
        """Whether there is such a conversation on disk."""

    def imported(self, id_: str) -> ConversationId | None:
        """The imported conversation that has this id, or was imported with the event of this id; None if there is none.

        Any file may name any id, so this counts only where nothing else here has the id.
        """

    def room_of(self, conversation: ConversationId) -> str:
        """The people of a conversation in direct messages (`InboundMessage.room`); "" for any other."""

    def chat_of(self, conversation: ConversationId) -> str:
        """The chat that a conversation was begun in (`trust.chat_of`); "" for any other."""

    def newest_in(self, room: str) -> tuple[ConversationId, str] | None:
        """The conversation with these people, or of this chat, that began last, and its title; None for none."""


class Quotations(Protocol):
    """Finds the words of events that messages reply to or quote."""

    async def find(
        self, events: Sequence[EventId], message: InboundMessage, here: ConversationId
    ) -> tuple[Quotation, ...]:
        """What may be shown of these events, which a message of the conversation `here` names. Never raises."""

    async def thread(
        self, message: InboundMessage, here: ConversationId, *, asks_hinted: bool
    ) -> tuple[Quotation, ...]:
        """What others wrote before a message in its thread, the oldest first; bounded, and never raises.

        `asks_hinted` is whether relays that the message names are asked too, at public addresses only.
        """


class Files(Protocol):
    """Loads the files that messages name."""

    async def load(self, files: Sequence[NamedFile], conversation: ConversationId) -> tuple[ReceivedFile, ...]:
        """Have these files ready for the agents of a conversation, in bounded time; what became of each. Never raises.

        A link that turns out to lead to a page of the web is no file, and left out.
        """


class Observer(Protocol):
    """Is called with the records of each append, in order; must not block or raise."""

    def on_records(self, conversation: "Conversation", records: "Sequence[Record]") -> None:
        """Handle the records of one append, which are durable.

        `conversation` is the state after them; it does not change and may be kept.
        """
