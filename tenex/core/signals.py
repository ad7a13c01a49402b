"""What came in: the only inputs of `decide`.

A signal is not stored. Those that end a task carry its key; if the key is no longer wanted they change nothing.
`InboundMessage` is the step before: a message as its form read it, not yet admitted to a conversation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Role
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Key
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.functions.verdicts import Verdict
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, RunId, Slug
from tenex.core.inbox.received_files import NamedFile, ReceivedFile
from tenex.core.messages import NO_USAGE, ModelStep, Usage
from tenex.core.port_values import PublishOutcome, Quotation, ShowOutcome, ToolResult, UndoOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """A user's message as its form read it off the wire; everything a conversation needs to know of it.

    `references` are the ids it names, the most specific first (the message it replies to, then the root, then the
    rest); the first that a conversation knows decides where it belongs. If none is known and `starts` is true, it
    opens the conversation `conversation`, which will live at `address`. `origin` is what the form needs to answer
    this very message. Both are JSON objects only that form understands.
    """

    event_id: EventId
    author: PublicKey
    text: str
    created_at: int
    """Seconds, by the author's clock."""
    conversation: ConversationId
    starts: bool
    references: tuple[EventId, ...] = ()
    reply_to: EventId | None = None
    mentions: tuple[PublicKey, ...] = ()
    """Keys of ours named in the text itself; p tags alone are no mention."""
    tagged: tuple[PublicKey, ...] = ()
    """Keys of ours in p tags, which clients copy from the message that is answered."""
    quotes: tuple[EventId, ...] = ()
    """Events that it quotes without answering them."""
    title: str = ""
    about: str = ""
    """What it comments on beyond events: an address or a page of the web."""
    files: tuple[NamedFile, ...] = ()
    """The files that it names, the first few, as long as they are not looked up."""
    files_left_out: int = 0
    """How many more it names."""
    edits: EventId | None = None
    """The message of the same author whose words it replaces."""
    is_reaction: bool = False
    """Whether it is a reaction (NIP-25): its text is a picture. It is to the event that it replies to; where it
    replies to none, to the work under way."""
    shown_in: EventId | None = None
    """The event in which its author saw the question that it answers, where that is not the question's own."""
    shown_as: str = ""
    """The text of that event, which somebody else wrote."""
    room: str = ""
    """The people of a direct message, its author among them, as a hash: all its conversation can be in. "" in public.
    It continues their newest conversation, or `conversation` where its author wants another one."""
    is_direct: bool = False
    """Whether it was written in a group for direct messages (`t` of its 39000 is `dm`), whose newest conversation it
    continues in the same way."""
    by_machine: bool = False
    """The event is labelled as not written by a user (NIP-32)."""
    by_program: bool = False
    """It is labelled as written by a program for its signer: it is text alone, and decides nothing."""
    expires_at: int | None = None
    """Seconds: from then on it must not be carried out (NIP-40)."""
    address: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    def has_expired(self, now: Millis) -> bool:
        """Whether its author wants it ignored by now."""
        return self.expires_at is not None and self.expires_at * 1000 <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A process has opened this conversation: always its first signal."""

    away: int | None = None
    """ms without a process, where the signal was decided later than it came; None: since the last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped:
    """The wall clock was set while the process lives: it goes on `by` ms later than it would have, or earlier."""

    by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """Someone who may talk here wrote a message."""

    message: InboundMessage
    role: Role
    name: str
    addressed: tuple[Slug, ...] = ()
    """The agents the text itself mentions."""
    quotations: tuple[Quotation, ...] | None = None
    """What is known of the events it replies to or quotes beyond its conversation; None before that was looked up."""
    thread: tuple[Quotation, ...] = ()
    """What was written before it in a thread that it calls us into, the oldest first."""
    files: tuple[ReceivedFile, ...] = ()
    """What became of the files that it names."""
    is_plain: bool = False
    """Whether it is text even if it looks like a command or a mention: a program wrote it. Then it decides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDeleted:
    """The author of a message deleted its event (NIP-09), or the moderation of its room did (NIP-29)."""

    event_id: EventId
    author: PublicKey
    is_moderated: bool = False
    """Whether its author moderates the room, so that others may have written what is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLeft:
    """A user began another conversation with the same people, in a client that shows both as one."""

    author: PublicKey
    role: Role
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAnswered:
    """The router answered; `text` is read by `routing.parse`."""

    key: Key
    step: ModelStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswered:
    """A run's model answered; `run` is whose cost it is where the run does not wait for it any more."""

    key: Key
    step: ModelStep
    run: RunId | None = None
    files: tuple[Mapping[str, str], ...] = ()
    """The files of the workspace that each of its calls names, with their digests, where a person may be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A model call, of a run or of the router, ended without an answer; `run` as in `ModelAnswered`."""

    key: Key
    message: str
    retryable: bool
    run: RunId | None = None
    retry_after: int | None = None
    """ms, where the server asked for it."""
    usage: Usage = NO_USAGE
    """What it cost all the same."""
    model: str = ""
    """Which one it was, where that is known."""
    queued: int = 0
    """ms it waited for its turn."""
    needs_operator: bool = False
    """No try succeeds before somebody has acted, as with a wrong key."""

    @classmethod
    def of(cls, key: Key, error: ModelUnavailable | ModelRefused, run: RunId | None = None) -> "ModelFailed":
        """The signal of a model's error."""
        after = error.retry_after if isinstance(error, ModelUnavailable) else None
        return cls(
            key=key,
            run=run,
            message=str(error),
            retryable=error.retryable,
            usage=error.usage,
            model=error.model,
            retry_after=None if after is None else int(after * 1000),
            queued=int(error.queued * 1000),
            needs_operator=isinstance(error, ModelUnavailable) and error.needs_operator,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallInterrupted:
    """The answer of a model call is not wanted any more; this is what the call cost until it was cancelled or ended."""

    run: RunId | None
    """None: of the router."""
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayLimitReached:
    """A model call, of a run or of the router, or work of a kind may not begin before the day is over."""

    key: Key
    limit: str
    """The setting's name, in `[limits]`."""
    sentence: str
    until: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool call ended."""

    key: Key
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged:
    """A tool call has not begun: the files that it names are not those that a person has allowed it for."""

    key: Key
    files: Mapping[str, str]
    """With their digests now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer is due. It is the truth: it is not compared with any clock."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The functions of operators that a decision waits for have answered, in the order in which they were asked."""

    key: Key
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReturned:
    """Files were listed or put back, as a user had asked."""

    key: Key
    outcome: UndoOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowReturned:
    """A file was looked up for a user."""

    key: Key
    outcome: ShowOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What the workspace holds after a turn was compared with the beginning of its cycle."""

    key: Key
    inspection: Inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A check of the project has ended."""

    key: Key
    result: CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A relay has answered for good about one event."""

    key: Key
    outcome: PublishOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """The operator wants the conversation to go on from an earlier record; `then` is the state after that one.

    Where the workspace was restored, `tree` and `was` are the trees after and before, and `files` describes it.
    """

    to: int
    then: Any
    """A `State`; its module imports this one, since it holds undecided signals."""
    by: str
    reason: str = ""
    files: str = ""
    tree: str = ""
    was: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStateProvided:
    """User code outside a daemon changed an agent's state or phase between two of its runs."""

    agent: Slug
    agent_state: AgentPhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """The operator, at the machine, has answered the request of the record `request`; `by` is shown to users."""

    request: int
    is_yes: bool
    by: str
    reason: str = ""
    call: int = 0
    """The number of the call that it is about; 0 for all that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSignal:
    """A signal that only one kind of conversation knows."""

    def if_late(self, state: Any) -> "KindSignal | None":
        """The signal of its cost, where it is not wanted any more; None for any other."""
        del state
        return None

    def without_result(self, why: str) -> "KindSignal | None":
        """The same end without a result that cannot be recorded; None where there is none."""
        del why
        return None


Signal = (
    Opened
    | ClockJumped
    | MessageReceived
    | MessageDeleted
    | ConversationLeft
    | RouteAnswered
    | ModelAnswered
    | ModelFailed
    | ModelCallInterrupted
    | DayLimitReached
    | ToolReturned
    | FilesChanged
    | TimerFired
    | Evaluated
    | UndoReturned
    | ShowReturned
    | Inspected
    | Checked
    | Published
    | RollBack
    | AgentStateProvided
    | ApprovalDecided
    | KindSignal
)


def without_result(signal: Signal, why: str) -> Signal | None:
    """The signal in place of a task's result that cannot be recorded: it ended without a result.

    Returns:
        The same end without its result; None where that is what it was, or where nothing has ended.
    """
    match signal:
        case RouteAnswered(key=key, step=step) | ModelAnswered(key=key, step=step):
            run = signal.run if isinstance(signal, ModelAnswered) else None
            return ModelFailed(key=key, run=run, message=why, retryable=False, usage=step.usage, model=step.model)
        case ToolReturned(key=key, result=result):
            lost = ToolResult(ok=False, content=f"The result is lost: {why}. Check what it did before repeating it.")
            return ToolReturned(key=key, result=lost) if result != lost else None
        case KindSignal():
            return signal.without_result(why)
    return None
