"""All conversations of a data folder: which there are, how long they are, and their journals.

Never: make a path of a name that is not 64 lower-case hex digits.
"""

import os
import re
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from tenex.core.errors import StoreDamaged, UsageError
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record

from .disk import Disk
from .format import CONVERSATION
from .journal import FileJournal
from .loading import JOURNAL, VIEW, mark_of, peek

_ID: Final = re.compile(r"[0-9a-f]{64}")


class ConversationFolder:
    """The folder `conversations/`; needs its lock to be held by us for `open`."""

    def __init__(self, root: Path, disk: Disk, clock: Clock) -> None:
        self.root = root
        self._disk = disk
        self._clock = clock
        self._journals: WeakValueDictionary[str, FileJournal] = WeakValueDictionary()

    def path(self, conversation: str) -> Path:
        """A conversation's own folder, whether it exists or not.

        Raises:
            UsageError: that is no conversation's id.
        """
        if not _ID.fullmatch(conversation):
            raise UsageError(
                f"{conversation[:80]!r} is no conversation's id: it must be 64 lower-case hex digits. "
                "`tenex conversations list` shows them."
            )
        return self.root / conversation

    async def open(self, conversation: ConversationId) -> tuple[FileJournal, list[Record]]:
        """A conversation's journal and every record in it; an older journal of it in this process is closed first.

        Raises:
            StoreDamaged: the file holds what we did not write; nothing was changed, and the folder bears a mark.
            AppendFailed: the disk does not let us read or mend it now.
            UsageError: that is no conversation's id.
        """
        path = self.path(conversation) / JOURNAL
        remedy = "Move the folder away to begin anew; its conversation.json still tells what was said."
        await self._close(conversation)
        journal, records = await FileJournal.open(path, CONVERSATION, self._disk, self._clock, remedy)
        await self._close(conversation)  # somebody may have opened it while we read; two writers would fork it
        self._journals[conversation] = journal
        return journal, records

    async def read(self, conversation: ConversationId) -> list[Record]:
        """The records of a conversation, without the lock and without mending anything.

        Raises:
            StoreDamaged: the file holds what we did not write.
            UsageError: there is no such conversation.
        """
        path = self.path(conversation) / JOURNAL
        try:
            return await self._disk.run(peek, path, CONVERSATION)
        except FileNotFoundError as fault:
            raise UsageError(f"There is no conversation {conversation} in {self.root}.") from fault
        except OSError as fault:
            raise StoreDamaged(f"{path} cannot be read: {fault.strerror}. Look who owns it and what it is.") from fault

    def length(self, conversation: ConversationId) -> int:
        """Durable bytes of a journal that is open here, for the index; 0 where it is not."""
        journal = self._journals.get(conversation)
        return journal.length if journal is not None else 0

    async def lengths(self) -> dict[ConversationId, int]:
        """Every conversation on disk with the length of its journal in bytes, 0 where that is missing."""
        return await self._disk.run(_lengths, self.root)

    async def behind(self) -> list[ConversationId]:
        """The conversations whose readable view is missing or older than their journal: a process ended between."""
        return await self._disk.run(_behind, self.root)

    async def quarantined(self) -> dict[ConversationId, str]:
        """The conversations that could not be read when they were last opened, each with the sentence why."""
        return await self._disk.run(_marks, self.root)

    async def close(self) -> None:
        """Close every journal that is open here."""
        for conversation in list(self._journals):
            await self._close(conversation)

    async def _close(self, conversation: str) -> None:
        journal = self._journals.pop(conversation, None)
        if journal is not None:
            await journal.close()


def _ids(root: Path) -> list[ConversationId]:
    try:
        names = os.listdir(root)  # noqa: PTH208 - ten thousand names, of which no path is needed
    except FileNotFoundError:
        return []
    return sorted(ConversationId(name) for name in names if _ID.fullmatch(name))


def _lengths(root: Path) -> dict[ConversationId, int]:
    found: dict[ConversationId, int] = {}
    base = os.fspath(root)
    for name in _ids(root):
        try:
            found[name] = os.stat(f"{base}/{name}/{JOURNAL}").st_size  # noqa: PTH116 - half of a start is this line
        except FileNotFoundError:
            if (root / name / VIEW).exists():  # it had a journal once: opening it says so
                found[name] = 0
        except OSError:
            found[name] = 0
    return found


def _behind(root: Path) -> list[ConversationId]:
    base = os.fspath(root)
    return [name for name in _ids(root) if _written(f"{base}/{name}/{VIEW}") < _written(f"{base}/{name}/{JOURNAL}")]


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - as above
    except OSError:
        return 0


def _marks(root: Path) -> dict[ConversationId, str]:
    marks = ((name, mark_of(root / name)) for name in _ids(root))
    return {name: mark for name, mark in marks if mark is not None}
