"""All conversations of a store: which there are, how long they are, and their journals, whatever holds the records.

Beside the records a store has a folder, `root`: readable views and the index are files in it, in either case.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from tenex.core.conversation import Conversation
from tenex.core.errors import StoreDamaged, StoreOtherVersion, TenexError, UsageError
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.core.rollback.whole import ConversationForked
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import State
from tenex.log import get_logger

from .contents import Contents, Remains, whole_decisions
from .daemon_journal import DaemonRecords
from .disk import Disk
from .format import CONVERSATION
from .journal import FILE_BYTES, StoredJournal
from .journal_reader import NEWEST, VIEW
from .reading import is_past_sound, records_of
from .record_log import Head, RecordLog, Tail

WORKING: Final = 4
"""A journal may grow to so many times its bound while agents work: their transcripts would be most of a snapshot."""

RENAME: Final = "Move the folder out of here, or give it its name back."
"""What to do about a folder that bears the name of another conversation."""

_ID: Final = re.compile(r"[0-9a-f]{64}")

log = get_logger(__name__)


def is_id(name: str) -> bool:
    """Whether a name is a conversation's id."""
    return _ID.fullmatch(name) is not None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A conversation that another worker may have changed."""

    id: ConversationId
    bytes: int
    is_free: bool
    """No other worker has its lease, or was given it just now."""
    is_wanted: bool = False
    """This worker has it, and another one has a message for it."""


class Conversations:
    """The conversations of a store; needs the right to write for `open` and what changes something."""

    def __init__(self, records: RecordLog, root: Path, disk: Disk) -> None:
        """Use a store.

        Args:
            records: holds the journals.
            root: the folder of readable files and the index.
            disk: has the threads that encode and decode.
        """
        self.root = root
        self._log = records
        self._disk = disk
        self._journals: dict[str, StoredJournal] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def place(self) -> str:
        """Where the records are, in words for a user."""
        return self._log.place

    @property
    def is_in_files(self) -> bool:
        """Whether the journals are in `root`."""
        return self._log.is_in_files

    def path(self, conversation: str) -> Path:
        """The folder of a conversation's readable files, whether it exists or not.

        Raises:
            UsageError: that is not a conversation's id.
        """
        if not is_id(conversation):
            raise UsageError(
                f"{conversation[:80]!r} is not a conversation's id: it must be 64 lower-case hex digits. "
                "`tenex conversations list` shows them."
            )
        return self.root / conversation

    async def open(self, conversation: ConversationId) -> tuple[StoredJournal, list[Record]]:
        """A conversation's journal, to be written to, and the records to fold; they may begin with a snapshot.

        An older journal of it in this process is closed first.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed, and it is marked.
            HeldElsewhere: another worker writes it, or is to.
            AppendFailed: the store does not let us read or repair it now.
            UsageError: that is not a conversation's id.
        """
        self.path(conversation)
        turn = self._opening.setdefault(conversation, asyncio.Lock())
        async with turn:  # two writers would fork it
            earlier = self._journals.get(conversation)
            if earlier is not None:
                await earlier.close()
            writer, records = await self._log.open(conversation)
            what = _misnamed(conversation, records)
            if what:
                damaged = self._damaged(conversation, what, RENAME)
                await self._log.mark(conversation, str(damaged))
                await writer.close()
                raise damaged
            journal = StoredJournal(writer, CONVERSATION, self._disk, partial(self._closed, conversation))
            self._journals[conversation] = journal
        return journal, records

    async def read(self, conversation: ConversationId, since: int = 0) -> list[Record]:
        """The records of a conversation, all of them, without the right to write and without repairing anything.

        With `since` only the newest files, as many as hold every record after it; they may begin with a snapshot.
        `NEWEST` gives the least that can be folded.

        Raises:
            StoreDamaged: it holds what we did not write.
            UsageError: there is no such conversation.
            StoreError: the store cannot be used now.
        """
        records, loss = await self.read_left(conversation, since)
        if loss:
            raise StoreDamaged(f"{loss} Nothing was changed.")
        return records

    async def read_left(self, conversation: ConversationId, since: int = 0) -> tuple[list[Record], str]:
        """The same, also where an earlier file is missing: its past is lost, and nothing else.

        Returns:
            The records, which then begin with a snapshot, and the sentence that names it; else an empty one.

        Raises:
            StoreDamaged: it holds what we did not write.
            UsageError: there is no such conversation.
            StoreError: the store cannot be used now.
        """
        return await self._read(conversation, since, NEWEST)

    async def read_file(self, conversation: ConversationId, holding: int) -> list[Record]:
        """The records of the file of a journal that holds the record `holding`; `NEWEST` is in the newest.

        They begin with a snapshot unless it is the first file. Raises as `read` does.
        """
        records, _ = await self._read(conversation, holding - 1, holding)
        return records

    async def is_past_sound(self, conversation: ConversationId) -> bool:
        """Whether what is before the newest snapshot is all there, by checksums and numbers; no record is decoded.

        Raises:
            StoreError: the store cannot be used now.
        """
        files = await self._files(conversation, 0, NEWEST)
        return await self._disk.run(is_past_sound, files)

    def tail(self, conversation: ConversationId, seq: int) -> Tail:
        """Follows a journal after the record `seq`."""
        return self._log.tail(conversation, seq)

    async def rotate(self, conversation: Conversation) -> bool:
        """Have a journal that is open here, and long, go on in a new file; else do nothing.

        The state is read before the first await. Nothing is done where it is ahead of the store, and a failure only
        means that the present file is used on.

        Returns:
            Whether the journal goes on in a new file, and still ends with the last record of that state.
        """
        journal = self._journals.get(conversation.id)
        seq = conversation.next_seq
        if journal is None or not journal.is_long or journal.next_seq != seq:
            return False
        if conversation.work.runs and journal.file_length < WORKING * FILE_BYTES:
            return False
        try:
            return await journal.rotate(StateSnapshot.of(conversation)) and journal.next_seq == seq
        except (OSError, TenexError) as fault:
            log.error("journal.not_rotated", conversation=conversation.id, reason=str(fault))
            return False

    def length(self, conversation: ConversationId) -> int:
        """Durable bytes of a journal that is open here, for the index; 0 where it is not."""
        journal = self._journals.get(conversation)
        return journal.length if journal is not None else 0

    async def lengths(self) -> dict[ConversationId, int]:
        """Every conversation with the bytes of all files of its journal, 0 where that is missing.

        Raises:
            StoreError: the store cannot be used now; so the next four.
        """
        return {name: head.bytes for name, head in (await self.heads()).items()}

    async def heads(self) -> Mapping[ConversationId, Head]:
        """The same with the time of the last append, which also differs where a journal was changed in its place."""
        return await self._log.heads()

    async def size(self, conversation: ConversationId) -> int:
        """Bytes of a journal, also of one that another process writes; 0 where there is none."""
        self.path(conversation)
        return await self._log.size(conversation)

    async def behind(self) -> list[ConversationId]:
        """The conversations whose readable view is missing or older than their journal: a process ended between."""
        return await self._log.behind()

    async def quarantined(self) -> dict[ConversationId, str]:
        """The conversations that could not be read when they were last opened, each with the sentence why."""
        return await self._log.marks()

    async def last_written(self) -> int | None:
        """The second in which a journal was last written; None where there is none."""
        heads = await self.heads()
        return int(max((head.written for head in heads.values()), default=0)) or None

    async def workers(self) -> Sequence[Worker]:
        """The daemons that use the store, by name; none where only one may."""
        return ()

    async def contents(self, conversation: ConversationId) -> Contents:
        """The journal byte for byte, as its files hold it or would; nothing where there is none.

        Raises:
            StoreDamaged: it is not whole.
            StoreError: the store cannot be used now.
        """
        files = await self._log.files(conversation, 0, NEWEST)
        if not files:
            self.path(conversation)
            return []
        _, loss = await self._decoded(conversation, files, 0)
        if loss:
            raise StoreDamaged(loss)
        return await self._disk.run(whole_decisions, files)

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """Continue a journal that is not open from what is there to what is wanted.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: the store did not take it, or what is there has changed; a second call goes on.
        """
        self.path(conversation)
        await self._log.put(conversation, there, wanted)

    async def remains(self, conversation: ConversationId) -> Remains:
        """What there is of a journal, whatever its state, after a `renew` that was cut short: what was before it.

        Raises:
            StoreError: what was before cannot be put back now, or the store cannot be used.
        """
        self.path(conversation)
        await self._log.settle(conversation)
        return await self._log.files(conversation, 0, NEWEST)

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """Store a conversation that is not here yet, whole or not at all; its view is not written.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: something is there already, or the store did not take it; nothing was changed.
        """
        self.path(conversation)
        await self._log.create(conversation, decisions)

    async def renew(self, conversation: ConversationId, there: Remains, decisions: Sequence[Sequence[Record]]) -> Path:
        """Put another journal, and its view, in the place of what there is; returns the folder where that is kept.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: the store did not take it, or what is there has changed; everything is where it was.
        """
        self.path(conversation)
        return await self._log.renew(conversation, there, decisions)

    def daemon_records(self) -> DaemonRecords:
        """What belongs to no conversation: lessons, profiles, notices of failures."""
        return self._log.daemon_records()

    async def close(self) -> None:
        """Close every journal that is open here."""
        await asyncio.gather(*(journal.close() for journal in list(self._journals.values())))

    def _closed(self, conversation: ConversationId, journal: StoredJournal) -> None:
        if self._journals.get(conversation) is journal:
            del self._journals[conversation]

    async def _read(self, conversation: ConversationId, since: int, until: int) -> tuple[list[Record], str]:
        """The records of the files that hold those after `since` up to `until`, and what is lost."""
        view = self.path(conversation) / VIEW
        files = await self._files(conversation, since, until)
        records, loss = await self._decoded(conversation, files, since)
        if not records and self.is_in_files and await self._disk.run(view.exists):
            # again: another process may have begun the journal, and written the view, since we looked
            files = await self._files(conversation, since, until)
            records, loss = await self._decoded(conversation, files, since)
            if not records:
                what = "it holds no whole decision" if files else "it is missing"
                raise self._damaged(conversation, f"{what}, though {VIEW} is beside it")
        if not files:
            raise UsageError(f"There is no conversation {conversation} in {self.place}.")
        what = _misnamed(conversation, records)
        if what:
            raise self._damaged(conversation, what, RENAME)
        return records, loss

    async def _files(self, conversation: ConversationId, since: int, until: int) -> Remains:
        try:
            return await self._log.files(conversation, since, until)
        except StoreDamaged as fault:
            raise self._explained(conversation, fault) from fault

    async def _decoded(self, conversation: ConversationId, files: Remains, since: int) -> tuple[list[Record], str]:
        try:
            return await self._disk.run(
                records_of,
                files,
                since,
                CONVERSATION,
                partial(self._log.place_of, conversation),
                partial(self._log.lost_past, conversation),
                may_be_torn=self.is_in_files,
            )
        except StoreOtherVersion:
            raise
        except StoreDamaged as fault:
            raise self._explained(conversation, fault) from fault

    def _explained(self, conversation: ConversationId, fault: StoreDamaged) -> StoreDamaged:
        """The error with what can be done about it."""
        return StoreDamaged(f"{fault} {self._log.remedy.replace('ID', conversation[:12])}")

    def _damaged(self, conversation: ConversationId, what: str, remedy: str = "") -> StoreDamaged:
        fault = StoreDamaged(f"{self._log.place_of(conversation, 1)}: {what}. Nothing was changed.")
        if remedy and self.is_in_files:
            return StoreDamaged(f"{fault} {remedy}")
        return self._explained(conversation, fault)


def _misnamed(conversation: ConversationId, records: Sequence[Record]) -> str:
    """What is wrong with a copied or renamed folder: two that continue one thread would publish everything twice."""
    match next(iter(records), None):
        case ConversationStarted(id=named) | ConversationForked(id=named) | StateSnapshot(state=State(id=named)) if (
            named != conversation
        ):
            return f"this is the journal of the conversation {named[:64]}, in the folder of another one"
    return ""
