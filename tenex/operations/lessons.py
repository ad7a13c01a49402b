"""Lessons that are read beside a running daemon, or without one."""

from pathlib import Path

from tenex.core.errors import InternalError
from tenex.core.record import Record
from tenex.runtime.clock import SystemClock
from tenex.store.conversations import Conversations
from tenex.store.daemon_journal import DaemonJournal, DaemonLines, DaemonRecords
from tenex.store.disk import Disk
from tenex.store.opening import open_conversations


class _ReadOnly:
    """The records of a store, of which only reading is possible (`store.daemon_journal.DaemonRecords`)."""

    def __init__(self, records: DaemonRecords) -> None:
        self.peek = records.peek

    async def open(self) -> tuple[DaemonLines, list[Record]]:
        """Refuse it.

        Raises:
            InternalError: always.
        """
        raise InternalError("these lessons are read beside a daemon, and cannot be changed")


async def read_lessons(store: str, root: Path) -> DaemonJournal:
    """The lessons of the setting `store`, or of the folder of conversations; changing one raises `InternalError`.

    Raises:
        StoreError: they cannot be read.
    """
    disk = Disk()
    try:
        async with open_conversations(store, root, disk, SystemClock()) as conversations:
            return await lessons_of(conversations)
    finally:
        disk.close()


async def lessons_of(conversations: Conversations) -> DaemonJournal:
    """The same of a store that is open.

    Raises:
        StoreError: they cannot be read.
    """
    book = DaemonJournal(_ReadOnly(conversations.daemon_records()), SystemClock())
    await book.load()
    return book
