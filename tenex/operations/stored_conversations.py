"""Conversations that are not in memory, as a report reads them from disk; and a disk that does not answer."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import TenexError
from tenex.core.ids import ConversationId
from tenex.store.journal_reader import VIEW
from tenex.store.repository import NEWEST, ConversationFolder

T = TypeVar("T")

PATIENCE: Final = 1.5
"""Seconds a disk has for one look; a caller of `status` waits ten, and that takes four looks."""
IMPATIENCE: Final = 0.1
"""Seconds, once it has not answered the look before."""


class LastRead:
    """Looks at a disk that may hang: what it does not answer in time is reported as it was read last."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[asyncio.Task[Any], float]] = {}
        self._known: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        """What cannot be read, each with the reason."""

    @property
    def fault(self) -> str:
        """Why the report may be old; empty while all is well."""
        late = self.late
        if not late and not self._failed:
            return ""
        failed = next(iter(self._failed.values()), "")
        why = f"it has not answered for {late:.0f} s" if late else f"it cannot be read ({failed})"
        return f"{why}; stored conversations are shown as they were read last"

    @property
    def late(self) -> float:
        """Seconds by which the disk is late with an answer; 0 while all is well."""
        now = asyncio.get_running_loop().time()
        waited = max((now - began for task, began in self._under_way.values() if not task.done()), default=0.0)
        return waited if waited >= PATIENCE else 0.0

    async def look(self, name: str, read: Callable[[], Coroutine[Any, Any, T]], otherwise: T) -> T:
        """What `read` gives; or what it gave last, else `otherwise`. One that is under way is not begun again."""
        loop = asyncio.get_running_loop()
        patience = IMPATIENCE if self.late else PATIENCE
        before = self._under_way.get(name)
        if before is not None and before[0].done():
            self._take(name, before[0])  # it may have come after the caller had gone
        if before is None or before[0].done():
            self._under_way[name] = (asyncio.create_task(read(), name=f"status {name}"), loop.time())
        task, began = self._under_way[name]
        await asyncio.wait([task], timeout=max(IMPATIENCE, began + patience - loop.time()))
        if task.done():
            self._take(name, task)
        last: T = self._known.get(name, otherwise)
        return last

    def _take(self, name: str, task: asyncio.Task[Any]) -> None:
        self._failed.pop(name, None)
        try:
            self._known[name] = task.result()
        except OSError as fault:
            self._failed[name] = fault.strerror or str(fault)


class StoredConversations:
    """Reads conversations that are not in memory and yet unfinished: parked ones, mostly; each once while it rests."""

    def __init__(self, folder: ConversationFolder) -> None:
        self._folder = folder
        self._known: dict[ConversationId, tuple[int, Conversation]] = {}

    async def read(self, lengths: Mapping[ConversationId, int]) -> list[Conversation]:
        """Their states; what cannot be read is left out: opening it reports why."""
        self._known = {name: known for name, known in self._known.items() if known[0] == lengths.get(name)}
        for name, length in lengths.items():
            if name not in self._known:
                try:
                    self._known[name] = (length, fold(name, await self._folder.read(name, NEWEST)))
                except (TenexError, ValueError, LookupError):
                    continue
        return [conversation for _, conversation in self._known.values()]


def resting(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The conversations in which nothing is open, by their views; blocks."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            view = json.loads((path / VIEW).read_bytes())
            is_open = view["undelivered"] or view["running"]  # one that is parked waits too, for an answer
            if view["status"] in ("waiting", "ended") and not is_open and view["id"] == path.name:
                keys = ("id", "status", "title", "updatedAt", "waitingFor")
                found[path.name] = {key: str(view.get(key) or "") for key in keys}
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
    return found
