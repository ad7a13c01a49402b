"""A folder of missions for a script without a daemon: the daemon's own journals, lock and readable views.

async with mission_folder(Path("missions")) as journal:
    result = await graph.run(Discovery(), state=state, deps=deps, journal=journal)
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId
from tenex.core.ports import Journal, Journals
from tenex.core.records import Record
from tenex.runtime.clock import SystemClock
from tenex.settings.paths import path_of
from tenex.store.disk import Disk
from tenex.store.lock import FolderLock
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views


class FolderJournals:
    """The journals of a folder, with their readable views."""

    def __init__(self, folder: ConversationFolder, views: Views) -> None:
        self._folder = folder
        self._views = views

    async def open(self, conversation: ConversationId) -> tuple[Journal, Sequence[Record]]:
        """The journal, made if missing."""
        return await self._folder.open(conversation)

    async def show(self, conversation: Conversation) -> None:
        """Write its readable view."""
        page = self._views.page(conversation)  # both read the conversation before the first await
        await self._folder.rotate(conversation)
        await self._views.write(page)


@asynccontextmanager
async def mission_folder(path: Path | str) -> AsyncIterator[Journals]:
    """The journals of a folder, created if missing, and locked meanwhile.

    Raises:
        UsageError: it is no path.
        StoreLocked: another process holds it.
    """
    root = path_of(path, "the folder of missions")
    disk = Disk()
    with FolderLock(root):
        folder = ConversationFolder(root, disk, SystemClock())
        try:
            yield FolderJournals(folder, Views(folder, disk))
        finally:
            await folder.close()
            disk.close()
