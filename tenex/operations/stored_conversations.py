"""Reads conversations that are not in memory for a report, from a disk that may hang."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic_core import from_json

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import StoreError, TenexError
from tenex.core.ids import ConversationId
from tenex.store.conversations import Conversations
from tenex.store.journal_reader import VIEW
from tenex.store.repository import NEWEST

T = TypeVar("T")

READ_TIMEOUT: Final = 1.5
"""Seconds for one read; a caller of `status` waits ten, and needs four reads."""
LATE_TIMEOUT: Final = 0.1
"""Seconds, while an earlier read has not ended."""


class LastRead:
    """Values from a disk that may hang: after a timeout the value that was read last is used."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[asyncio.Task[Any], float]] = {}
        self._known: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        """The reason by the name of what cannot be read."""

    @property
    def fault(self) -> str:
        """Why values may be old; empty if they are not."""
        late = self.late
        if not late and not self._failed:
            return ""
        failed = next(iter(self._failed.values()), "")
        reason = f"it has not answered for {late:.0f} s" if late else f"it cannot be read ({failed})"
        return f"{reason}; stored conversations are shown as they were read last"

    @property
    def late(self) -> float:
        """Seconds for which a read has not ended; 0 below the timeout."""
        now = asyncio.get_running_loop().time()
        waited = max((now - began for task, began in self._running.values() if not task.done()), default=0.0)
        return waited if waited >= READ_TIMEOUT else 0.0

    async def read(self, name: str, function: Callable[[], Coroutine[Any, Any, T]], default: T) -> T:
        """The result of `function`, or its last one, or `default`; while one call runs, no other is started."""
        loop = asyncio.get_running_loop()
        timeout = LATE_TIMEOUT if self.late else READ_TIMEOUT
        before = self._running.get(name)
        if before is not None and before[0].done():
            self._take(name, before[0])  # it may have ended after its caller's timeout
        if before is None or before[0].done():
            self._running[name] = (asyncio.create_task(function(), name=f"status {name}"), loop.time())
        task, began = self._running[name]
        await asyncio.wait([task], timeout=max(LATE_TIMEOUT, began + timeout - loop.time()))
        if task.done():
            self._take(name, task)
        last: T = self._known.get(name, default)
        return last

    def _take(self, name: str, task: asyncio.Task[Any]) -> None:
        self._failed.pop(name, None)
        try:
            self._known[name] = task.result()
        except OSError as fault:
            self._failed[name] = fault.strerror or str(fault)
        except StoreError as fault:  # a database that is away
            self._failed[name] = str(fault)


class StoredConversations:
    """Reads unfinished conversations that are not in memory, mostly parked ones; each once while it does not change."""

    def __init__(self, folder: Conversations) -> None:
        self._folder = folder
        self._known: dict[ConversationId, tuple[int, Conversation]] = {}

    async def read(self, lengths: Mapping[ConversationId, int]) -> list[Conversation]:
        """Their states; one that cannot be read is left out, because opening it reports the reason."""
        self._known = {name: known for name, known in self._known.items() if known[0] == lengths.get(name)}
        for name, length in lengths.items():
            if name not in self._known:
                try:
                    self._known[name] = (length, fold(name, await self._folder.read(name, NEWEST)))
                except (TenexError, ValueError, LookupError):
                    continue
        return [conversation for _, conversation in self._known.values()]


def settled_views(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The conversations with nothing open according to their views; blocks."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            view = from_json((path / VIEW).read_bytes())  # `json` takes twice as long
            is_open = view["undelivered"] or view["running"]  # one that is parked waits too, for an answer
            if view["status"] in ("waiting", "ended") and not is_open and view["id"] == path.name:
                keys = ("id", "status", "title", "updatedAt", "waitingFor")
                found[path.name] = {key: str(view.get(key) or "") for key in keys}
                if view.get("imported"):
                    found[path.name]["imported"] = True
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
    return found
