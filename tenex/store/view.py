"""`conversation.json`: a conversation as a user wants to read it.

A view: an edit to it is ignored and replaced. It holds the newest turns and transitions whole; older ones are beside
it in numbered files of `SEGMENT` that are written once and listed in it, so that writing it costs the same however long
the conversation is. A missing file that the state no longer covers is made from the whole journal.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.log import get_logger

from . import atomic
from .conversations import Conversations
from .disk import Disk
from .journal_reader import VIEW
from .view_json import SEGMENT, Rendered, everything, file_name, file_of, render

__all__ = ["SEGMENT", "Page", "Views", "render"]

REMEMBERED: Final = 200
"""Conversations whose rendered turns are kept: as many as there are open journals."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A view as it is to be written, with the files beside it."""

    folder: Path
    text: str
    parts: dict[str, list[str] | None]
    """By the name of the file, its texts; None: it must be there, or be made from the journal."""
    rendered: Rendered
    files: dict[str, int]


class Views:
    """Writes the views of a folder's conversations."""

    def __init__(self, folder: Conversations, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._rendered: OrderedDict[str, Rendered] = OrderedDict()

    async def show(self, conversation: Conversation) -> None:
        """Replace the view; the conversation is read before the first await.

        Raises:
            OSError: the old view, if any, is still there.
        """
        await self.write(self.page(conversation))

    def page(self, conversation: Conversation) -> Page:
        """The view of a conversation's current state."""
        rendered = self._rendered.pop(conversation.id, None) or Rendered()
        self._rendered[conversation.id] = rendered
        if len(self._rendered) > REMEMBERED:
            self._rendered.popitem(last=False)
        return _page(self._folder.path(conversation.id), conversation, rendered)

    def forget(self, conversation: ConversationId) -> None:
        """Drop what was rendered of a conversation."""
        self._rendered.pop(conversation, None)

    async def write(self, page: Page) -> None:
        """Put a page in the place of the view.

        Raises:
            OSError: the old view, if any, is still there.
        """
        lost = await self._disk.change(_write, page)
        if lost:
            await self._disk.change(_write_with, page, lost, await self._records(page, lost))
        for name, files in page.files.items():
            page.rendered.lists[name].written(files)

    async def _records(self, page: Page, lost: Sequence[str]) -> Sequence[Record]:
        """The records from which lost files are made; none where they cannot be read, which costs only those files."""
        try:
            return await self._folder.read(ConversationId(page.folder.name))
        except (StoreError, UsageError) as fault:
            log.warning("view.files_lost", path=str(page.folder), files=list(lost), reason=str(fault))
            return ()


def write_view(folder: Path, conversation: Conversation, records: Sequence[Record]) -> None:
    """Write the view of a conversation that no process has open, by its state and all its records; blocks.

    Raises:
        OSError: the disk did not take it.
    """
    page = _page(folder, conversation, Rendered())
    lost = _write(page)
    if lost:
        _write_with(page, lost, records)


def _page(folder: Path, conversation: Conversation, rendered: Rendered) -> Page:
    text = render(conversation, rendered)
    parts = {
        file_name(name, number): known.file(number)
        for name, known in rendered.lists.items()
        for number in range(known.files, known.whole)
    }
    files = {name: known.whole for name, known in rendered.lists.items()}
    return Page(folder, text, parts, rendered, files)


def _write(page: Page) -> list[str]:
    """Write the view and the files beside it; where files are lost they are returned, and the view is not written."""
    lost: list[str] = []
    for name, texts in page.parts.items():
        path = page.folder / name
        if path.exists():  # a file never changes
            continue
        if texts is None:
            lost.append(name)
        else:
            atomic.replace(path, file_of(texts))
    if not lost:
        atomic.replace(page.folder / VIEW, page.text.encode())
    return lost


def _write_with(page: Page, names: Sequence[str], records: Sequence[Record]) -> None:
    """Write files again that were removed, or never written, and the view; the cost grows with the history."""
    folder = page.folder
    whole = everything(ConversationId(folder.name), records) if records else {}
    for name in names if whole else ():
        kind, number = name.removesuffix(".json").rsplit("-", 1)
        start = (int(number) - 1) * SEGMENT
        known = [text for text in whole[kind][start : start + SEGMENT] if text]  # less where only a snapshot is left
        atomic.replace(folder / name, file_of(known))
    atomic.replace(folder / VIEW, page.text.encode())
