"""What came in: the only inputs of `decide`.

A signal is not stored. Those that end a task carry its key; if the key is no longer wanted they say nothing new.
`Incoming` is the step before: a message as its form read it, not yet admitted to a conversation.

Never: an outcome the core decides; that is a record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .effects import Key
from .ids import ConversationId, EventId, PublicKey, Slug
from .ports import PublishOutcome, ToolResult
from .roster import Role
from .steps import NO_USAGE, ModelStep, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A person's message as its form read it off the wire; everything a conversation needs to know of it.

    `references` are the ids it names, the most telling first (the message it replies to, then the root, then the
    rest); the first that a conversation knows decides where it belongs. If none is known and `starts` is true, it
    opens the conversation `conversation`, which will live at `address`. `origin` is what the form needs to answer
    this very message. Both are JSON objects only that form understands.
    """

    event_id: EventId
    author: PublicKey
    text: str
    created_at: int
    """Seconds, as the author's clock says."""
    conversation: ConversationId
    starts: bool
    references: tuple[EventId, ...] = ()
    reply_to: EventId | None = None
    mentions: tuple[PublicKey, ...] = ()
    """Keys of ours named in the text itself; p tags alone are no mention."""
    title: str = ""
    by_machine: bool = False
    """The event says of itself that no person wrote it (NIP-32)."""
    address: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A process has opened this conversation: always its first signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSpoke:
    """Somebody who may talk here wrote a message."""

    message: Incoming
    role: Role
    name: str
    addressed: tuple[Slug, ...] = ()
    """The agents the text itself mentions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAnswered:
    """The router answered; `text` is read by `routing.parse`."""

    key: Key
    step: ModelStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswered:
    """A run's model answered."""

    key: Key
    step: ModelStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A model call, of a run or of the router, ended without an answer."""

    key: Key
    message: str
    retryable: bool
    retry_after: int | None = None
    """ms, where the server asked for it."""
    usage: Usage = NO_USAGE
    """What it cost all the same."""
    model: str = ""
    """Which one it was, where that is known."""
    queued: int = 0
    """ms it waited for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool call ended."""

    key: Key
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer is due. It is the truth: it is not compared with any clock."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A relay has answered for good about one event."""

    key: Key
    outcome: PublishOutcome


Signal = Opened | PersonSpoke | RouteAnswered | ModelAnswered | ModelFailed | ToolReturned | TimerFired | Published
