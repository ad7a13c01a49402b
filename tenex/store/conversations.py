"""What a store of conversations offers, whether it is a folder of files or a database.

Beside the records a store has a folder, `root`: readable views and the index are files in it, in either case.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, EventId
from tenex.core.ports import Journal
from tenex.core.records import Record

from .contents import Contents, Remains
from .daemon_journal import DaemonRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A daemon of a shared store."""

    name: str
    """Of its machine and folder."""
    version: str
    seconds: int
    """Since it started."""
    unseen: int
    """Seconds since it has last reported itself."""
    is_silent: bool
    """It has not for so long that others take its conversations."""
    drains: bool
    """It is to take nothing more."""
    is_drained: bool
    """It has seen that, and writes nothing any more."""
    conversations: int
    """That it writes."""
    is_own: bool
    """It is that of our folder."""
    has_workspace: bool
    """Agents use files there, and at no other one."""


class Tail(Protocol):
    """Follows a journal that another process writes."""

    async def read(self) -> list[Record]:
        """The records of the decisions that have been completed since the last call; no snapshots.

        Raises:
            StoreError: the journal cannot be read.
            OSError: the same, and looking again may help.
        """


class Conversations(Protocol):
    """All conversations of a store; `ConversationFolder` says what each method does."""

    root: Path

    @property
    def place(self) -> str:
        """Where the records are, in words for a user."""

    def path(self, conversation: str) -> Path:
        """The folder of a conversation's readable files, whether it exists or not."""

    async def open(self, conversation: ConversationId) -> tuple[Journal, list[Record]]:
        """A conversation's journal, to be written to, and the records to fold."""

    async def read(self, conversation: ConversationId, since: int = 0) -> list[Record]:
        """The records of a conversation, or those that hold every record after `since`."""

    async def read_left(self, conversation: ConversationId, since: int = 0) -> tuple[list[Record], str]:
        """The same where a part of its past is lost, and the sentence that names it."""

    async def read_file(self, conversation: ConversationId, holding: int) -> list[Record]:
        """The records of the file that holds a record, or would; a snapshot is first, unless it is the first file."""

    async def is_past_sound(self, conversation: ConversationId) -> bool:
        """Whether what is before the newest snapshot is all there, by checksums and numbers."""

    def tail(self, conversation: ConversationId, seq: int) -> Tail:
        """Follows a journal after the record `seq`."""

    async def rotate(self, conversation: Conversation) -> bool:
        """Have a long journal go on after a snapshot."""

    def length(self, conversation: ConversationId) -> int:
        """Durable bytes of a journal that is open here; 0 where it is not."""

    async def lengths(self) -> dict[ConversationId, int]:
        """Every conversation with the bytes of its journal."""

    async def behind(self) -> list[ConversationId]:
        """The conversations whose readable view in `root` is older than their journal."""

    async def quarantined(self) -> dict[ConversationId, str]:
        """The conversations that could not be read when they were last opened, each with the sentence why."""

    async def last_written(self) -> int | None:
        """The second in which a journal was last written; None where there is none."""

    async def size(self, conversation: ConversationId) -> int:
        """Bytes of a journal, also of one that another process writes; 0 where there is none."""

    async def workers(self) -> Sequence[Worker]:
        """The daemons that use the store, by name; none where only one may."""

    async def contents(self, conversation: ConversationId) -> Contents:
        """The journal byte for byte, as its files hold it or would; nothing where there is none."""

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """Continue a journal that is not open from what is there to what is wanted."""

    async def remains(self, conversation: ConversationId) -> Remains:
        """What there is of a journal, whatever its state; nothing where there is none."""

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """Store a conversation that is not here yet, whole or not at all; its view is not written."""

    async def renew(self, conversation: ConversationId, there: Remains, decisions: Sequence[Sequence[Record]]) -> Path:
        """Put another journal, and its view, in the place of what there is; returns the folder where that is kept."""

    def daemon_records(self) -> DaemonRecords:
        """What belongs to no conversation: lessons, profiles, notices of failures."""

    async def close(self) -> None:
        """Close every journal that is open here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A conversation that another worker may have changed."""

    id: ConversationId
    bytes: int
    is_free: bool
    """No other worker has its lease, or was given it just now."""
    is_wanted: bool = False
    """This worker has it, and another one has a message for it."""


class SharedConversations(Conversations, Protocol):
    """A store that several workers may use at the same time: a conversation is written by who has its lease."""

    lost: Callable[[ConversationId], None]
    """Called when a lease of this worker has run out, or was taken over."""
    renewed: Callable[[ConversationId], None]
    """Called when a lease is sure again after a time in which nothing might start."""
    happened: Callable[[Literal["lease_lost", "append_conflict", "takeover"], float], None]
    """Called with what happens to leases and appends; of a takeover with the seconds since the last renewal."""

    workspace_lost: Callable[[], None]
    """Called when agents may no longer use files here, though this worker did not give that up."""

    @property
    def has_workspace(self) -> bool:
        """Whether agents may use files here: one worker at a time has the workspace of the project."""

    @property
    def drains(self) -> bool:
        """Whether this worker is to take nothing more."""

    @property
    def fault(self) -> str:
        """Why the store could not be used some seconds ago; empty where it could."""

    @property
    def daemons(self) -> int:
        """How many workers run, this one among them, as far as is known."""

    async def drain(self, worker: str, *, is_wanted: bool = True) -> None:
        """Have a worker take nothing more, or take conversations again; it learns that within some seconds.

        Raises:
            StoreError: the store cannot be used now.
        """

    async def claim(self, project: str) -> None:
        """Make the store that of a project.

        Raises:
            ConfigurationError: it is another one's, or would lose what is written to it.
        """

    async def faults(self) -> tuple[list[str], list[str]]:
        """Why the store would lose what is written to it, and what else deserves attention."""

    async def join(self) -> None:
        """Be listed as a worker, and have the workspace where no other one has it.

        Raises:
            StoreError: the store cannot be used now.
        """

    async def keep_leases(self) -> None:
        """Renew the leases of open journals until cancelled."""

    async def take_event(self, event_id: EventId, conversation: ConversationId) -> ConversationId:
        """Take a message for a conversation; returns the one that has it, which a worker may have chosen before us.

        Raises:
            AppendFailed: the store cannot be used now.
        """

    async def take_direct_message(self, event_id: EventId) -> bool:
        """Take a direct message, to answer it; False where another worker has. Raises as `take_event` does."""

    async def want(self, conversations: Collection[ConversationId]) -> Sequence[ConversationId]:
        """Ask the workers that have these to hand them over; returns those that were asked for now.

        Raises:
            StoreError: the store cannot be used now.
        """

    async def changes(self, *, is_full: bool = False) -> Sequence[Change]:
        """What has changed since the last call, with what has become free; or every conversation."""
