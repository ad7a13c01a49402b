"""What the chat knows of the data folder beside it: its conversations, its agents, and what was typed before."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, whose commands are completed
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.inbox.commands import slash_commands
from tenex.core.text.foreign import printable
from tenex.operations.listing import list_rows, row_json, search_conversations
from tenex.operations.short_ids import conversation_of
from tenex.runtime.clock import SystemClock
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.index_reader import open_catalogue
from tenex.store.opening import open_conversations
from tenex.store.search import Filter

from .read_marks import ReadMarks

Named = tuple[str, str]
"""What can be typed, and what is shown beside it."""

LISTED: Final = 10
"""Conversations of a list: what is seen above the input line."""
OWN: Final = (
    ("conversations", "list conversations, or search them: /conversations WORDS"),
    ("open", "go on with one of them: its number or its id"),
    ("quit", "leave the chat"),
)
"""Commands of the chat itself; all others are sent to the project."""
_TITLE: Final = 50
"""Characters of a title in a list."""
_ID: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class ChatPlaces:
    """The data folder of the project that is talked to; nothing is known of one elsewhere."""

    conversations: Path | None = None
    store: str = ""
    """The address of the database that holds them; empty for files."""
    history: Path | None = None
    """The file of what was typed."""
    agents: Sequence[str] = ()
    """The slugs of the agents."""
    listed: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the last list."""
    marks: ReadMarks = field(default_factory=ReadMarks)
    """When its conversations were last seen."""

    async def find(self, words: str) -> list[str]:
        """The lines of a list: the newest conversations, or those that match words."""
        if self.conversations is None:
            return ["Conversations are listed where the project's data folder is; this one is elsewhere."]
        async with self._opened(self.conversations) as folder:
            if words:
                found = await search_conversations(folder, words, Filter(), LISTED, notice=_ignore)
                self.listed = [row_json(match.row) for match in found]
            else:
                self.listed = await list_rows(folder, Filter(), LISTED, notice=_ignore)
        if not self.listed:
            return ["No conversation matches." if words else "There are no conversations yet."]
        return [
            *(_row(number, row, is_new=self.marks.is_new(row)) for number, row in enumerate(self.listed, 1)),
            "/open NUMBER goes on with one of them; * has something new.",
        ]

    async def count_new(self, here: str) -> int:
        """How many of the newest conversations have something new, beside the one that is seen."""
        self.marks.begin()
        if self.conversations is None or not self.conversations.is_dir():
            return 0
        await self.find("")
        return sum(self.marks.is_new(row) for row in self.listed if row["id"] != here)

    async def named(self, text: str) -> str:
        """The id of a conversation, by its number in the last list or the beginning of its id.

        Raises:
            UsageError: there is none, or several.
        """
        if not text:
            raise UsageError("Name a conversation: /open NUMBER, of the list of /conversations, or /open ID.")
        if text.isdecimal() and 0 < int(text) <= len(self.listed):
            return str(self.listed[int(text) - 1]["id"])
        name = text.lower()
        return name if _ID.fullmatch(name) else conversation_of(name, await self.names())

    async def names(self) -> list[str]:
        """The ids of all conversations."""
        if not self.store or self.conversations is None:
            return [path.name for path in self._folders()]
        async with self._opened(self.conversations) as folder:
            return list(await folder.lengths())

    async def refuse_private(self, conversation: str) -> None:
        """Refuse a conversation in direct messages: what a chat asks and publishes names its id in the open.

        Raises:
            UsageError: it is one.
        """
        if self.conversations is None:
            return
        async with self._opened(self.conversations) as folder, open_catalogue(folder) as catalogue:
            room = await catalogue.room_of(ConversationId(conversation))
        if room:
            raise UsageError(
                f"{conversation[:12]} is held in direct messages. Go on with it in the client in which it began."
            )

    def commands(self) -> list[Named]:
        """Every command with what it does."""
        return sorted([*OWN, *((command.name, command.help) for command in slash_commands().values())])

    def arguments(self, command: str) -> list[Named]:
        """What may follow a command of the chat: the newest conversations, with the titles that are known."""
        if command != "open":
            return []
        if self.store:  # the folder has those alone that the daemon here has written
            return [(str(row["id"])[:12], _title(row)) for row in self.listed]
        titles = {str(row["id"]): _title(row) for row in self.listed}
        newest = sorted(self._folders(), key=lambda path: path.stat().st_mtime, reverse=True)
        return [(path.name[:12], titles.get(path.name, "")) for path in newest[: 2 * LISTED]]

    @asynccontextmanager
    async def _opened(self, root: Path) -> AsyncIterator[Conversations]:
        disk = Disk()
        try:
            async with open_conversations(self.store, root, disk, SystemClock()) as folder:
                yield folder
        finally:
            disk.close()

    def _folders(self) -> list[Path]:
        here = self.conversations
        return [path for path in here.iterdir() if _ID.fullmatch(path.name)] if here and here.is_dir() else []


def _row(number: int, row: dict[str, Any], *, is_new: bool) -> str:
    updated = str(row["updated"])[:16].replace("T", " ")
    mark = "*" if is_new else " "
    return f"{number:>3}{mark} {str(row['id'])[:12]}  {row['status']:8}  {updated}  {_title(row)}"


def _title(row: dict[str, Any]) -> str:
    title = " ".join(printable(str(row.get("title") or "")).split())
    return title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"


def _ignore(_: str) -> None:
    """A list in the chat leaves out what `tenex conversations list` says beside it."""
