"""The port of a store: journals as files of lines, whether a folder or a database holds them.

`store.conversations` has everything above it once. A driver keeps what depends on its medium: how a line becomes
durable, what a write that was cut short leaves behind, and who may write.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tenex.core.ids import ConversationId
from tenex.core.records import Record

from .contents import Contents, Remains
from .daemon_journal import DaemonRecords
from .journal import Writer


class Head(NamedTuple):
    """What a journal looks like from outside, without being read."""

    bytes: int
    """Of all its files."""
    written: float
    """When something was last appended to it, in seconds since 1970; 0 where that is not known."""


class Tail(Protocol):
    """Follows a journal that another process writes."""

    async def read(self) -> list[Record]:
        """The records of the decisions that have been completed since the last call; no snapshots.

        Raises:
            StoreError: the journal cannot be read.
            OSError: the same, and looking again may help.
        """


class RecordLog(Protocol):
    """All journals of a store."""

    is_in_files: bool
    """The journals are files beside the readable ones: a write may be cut short, and a readable file without its
    journal is a loss. In a database neither is so."""
    remedy: str
    """What to do about a damaged journal, for the id of a conversation in the place of `ID`."""

    @property
    def place(self) -> str:
        """Where the journals are, in words for a user."""

    def place_of(self, conversation: ConversationId, file: int) -> str:
        """Where a file of a journal is."""

    def lost_past(self, conversation: ConversationId, numbers: Sequence[int], seq: int) -> str:
        """The sentences about a journal whose files with these numbers are left, and whose past ends at a record."""

    async def open(self, conversation: ConversationId) -> tuple[Writer, list[Record]]:
        """The right to append, and the records of the newest file, which are durable.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed but its mark.
            HeldElsewhere: another worker writes it.
            AppendFailed: the store cannot be used now.
        """

    async def files(self, conversation: ConversationId, since: int, until: int) -> Remains:
        """The files of a journal that hold the records after `since` up to `until`, one at least; none where none is.

        Raises:
            StoreError: the store cannot be used now.
        """

    def tail(self, conversation: ConversationId, seq: int) -> Tail:
        """Follows a journal after the record `seq`."""

    async def heads(self) -> Mapping[ConversationId, Head]:
        """Every conversation that has a journal, or had one.

        Raises:
            StoreError: the store cannot be used now; so the next three.
        """

    async def size(self, conversation: ConversationId) -> int:
        """Bytes of a journal; 0 where there is none."""

    async def behind(self) -> list[ConversationId]:
        """The conversations whose readable file is missing or older than their journal: a process ended between."""

    async def marks(self) -> dict[ConversationId, str]:
        """The conversations that are marked as damaged, each with the sentence why."""

    async def mark(self, conversation: ConversationId, why: str) -> None:
        """Mark a conversation as damaged; where that cannot be done nothing happens."""

    async def settle(self, conversation: ConversationId) -> None:
        """Put back what a `renew` that was cut short has moved.

        Raises:
            StoreError: it cannot be put back now.
        """

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """Continue a journal that is not open from what is there to what is wanted.

        Raises:
            StoreError: the store did not take it, or what is there has changed; a second call goes on.
        """

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """Store a journal that is not here yet, whole or not at all.

        Raises:
            StoreError: something is there already, or the store did not take it; nothing was changed.
        """

    async def renew(self, conversation: ConversationId, there: Remains, decisions: Sequence[Sequence[Record]]) -> Path:
        """Put another journal, and its readable file, in the place of what there is; returns where that is kept.

        Raises:
            StoreError: the store did not take it, or what is there has changed; everything is where it was.
        """

    def daemon_records(self) -> DaemonRecords:
        """What belongs to no conversation: lessons, profiles, notices of failures."""
