"""Records of what users write: messages, commands, and what they take back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenex.core.config import Role
from tenex.core.ids import EventId, PublicKey, Slug
from tenex.core.inbox.received_files import ReceivedFile
from tenex.core.record import Record


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
    by_machine: bool = False
    """An agent wrote it, of another daemon or elsewhere, and not a person."""
    by_program: bool = False
    """A program wrote it for its author: it is text alone, and decides nothing."""
    files: tuple[ReceivedFile, ...] = ()
    """What became of the files that it names."""
    edits: EventId | None = None
    """The message of theirs whose words these replace."""
    is_correction: bool = False
    """Whether work on that message had begun: agents read the new words once, and they ask for nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWithdrawn(Record):
    """The author of the message `message` (a seq) deleted it (NIP-09)."""

    message: int
    was_read: bool = False
    """Work on it had begun: who has read it goes on, and nothing else shows it any more."""
    was_title: bool = False
    """The conversation's title is its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturesUnseen(Record):
    """A message had pictures that no model is shown, or voice notes that nothing transcribes.

    Its author is informed of either once in a conversation.
    """

    what: Literal["pictures", "voice notes"] = "pictures"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerUncounted(Record):
    """Somebody answered a question that others decide, and is informed of that: once for each question.

    `question` is the event that they answered, `event_id` their reply or reaction.
    """

    question: EventId
    author: PublicKey
    name: str
    event_id: EventId


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
