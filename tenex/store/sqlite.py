"""The index file: one connection that reads on the loop, one that writes in a thread; rebuilt after damage."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from tenex.core.errors import FolderMoved
from tenex.log import get_logger

from . import schema
from .lock import anywhere

log = get_logger(__name__)

RENEW_EVERY: Final = 10.0
"""Seconds between two tries to make a new file where none can be made: each writes some pages and flushes them."""

LOG_EVERY: Final = 60.0
"""Seconds between equal logs: else each update of each conversation logs while nothing can be written.
"""

P = ParamSpec("P")
T = TypeVar("T")

_PASSING: Final = ("locked", "busy", "full", "readonly", "disk i/o", "unable to open")
"""Parts of SQLite's messages about transient faults of the system, not about a damaged file."""


class Tables:
    """The file `index.sqlite`, open."""

    def __init__(
        self,
        path: Path,
        on_lost: Callable[[], None],
        on_renewed: Callable[[], None],
        check: Callable[[], None] = anywhere,
    ) -> None:
        """Open the file, or make a new one where there is none or it is damaged.

        Where none can be made now, as on a full disk, nothing is found and every write fails until one can.

        Args:
            path: the file; its folder is made if missing.
            on_lost: called before any other work when an empty file is going to replace a damaged one.
            on_renewed: called on the loop when it has.
            check: `FolderLock.check` of the folder: while that has been moved no file is made in its place.
        """
        self.path = path
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._check = check
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenex-index")
        self._renewal: asyncio.Task[None] | None = None
        self._fresh: sqlite3.Connection | None = None
        """The next reader, made in the thread."""
        self._closed = False
        self._is_absent = False
        """No file could be opened so far; the one that is there may be whole."""
        self._failed_at = -RENEW_EVERY
        self._logged: dict[tuple[str, str], float] = {}
        try:
            self._reader, self._writer = self._connect()
        except (OSError, sqlite3.Error) as fault:
            log.error("index.absent", path=str(path), why=str(fault))
            self._is_absent, self._failed_at = True, time.monotonic()
            self._reader = self._writer = sqlite3.connect(":memory:", check_same_thread=False)
            self._writer.close()  # every query raises, as with a file that was lost
        self._identity = _identity(path)

    def ask(self, query: str, key: str) -> object:
        """The first column of the first row; None if there is none, or it cannot be read."""
        if self._closed:
            return None
        try:
            row = self._reader.execute(query, (key,)).fetchone()
        except sqlite3.Error as fault:
            self.report(fault)
            return None
        return row[0] if row else None

    async def run(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Do work with the writing connection, in its thread, after the work before it.

        Raises:
            sqlite3.Error: as the work does; pass it to `report`.
        """
        loop = asyncio.get_running_loop()

        def do() -> T:
            self._check_place()
            if _identity(self.path) != self._identity:
                raise sqlite3.DatabaseError("the file was removed, or another one took its place")
            return work(self._writer, *arguments, **keywords)

        return await loop.run_in_executor(self._thread, do)

    def report(self, fault: sqlite3.Error) -> None:
        """Log an error; where the file is damaged it is deleted, and an empty one takes its place.

        Where that cannot be done now it is tried again every `RENEW_EVERY` seconds, even without a write.
        """
        self._log("index.failed", fault)
        if not _is_passing(fault) and self._renewal is None and not self._closed:
            self._renewal = asyncio.get_running_loop().create_task(self._renew(), name="index.renewal")

    def close(self) -> None:
        """Close the file, after the work under way; a second call does nothing."""
        self._thread.shutdown()
        self._closed = True
        if self._renewal is not None:
            self._renewal.cancel()
        for connection in (self._reader, self._writer, self._fresh):
            if connection is not None:
                connection.close()

    def _log(self, event: str, fault: OSError | sqlite3.Error) -> None:
        now = time.monotonic()
        what = (event, str(fault))
        if now - self._logged.get(what, -LOG_EVERY) >= LOG_EVERY:
            self._logged = {event: at for event, at in self._logged.items() if now - at < LOG_EVERY} | {what: now}
            log.warning(event, path=str(self.path), why=what[1])

    async def _renew(self) -> None:
        while self._fresh is None:
            wait = self._failed_at + RENEW_EVERY - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self._on_lost()
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._make)
            except (OSError, sqlite3.Error) as fault:
                self._log("index.not_renewed", fault)
                self._failed_at = time.monotonic()
        with suppress(sqlite3.Error):
            self._reader.close()
        self._reader = self._fresh
        self._fresh = None
        self._renewal = None
        log.info("index.renewed", path=str(self.path))
        self._on_renewed()

    def _check_place(self) -> None:
        try:
            self._check()
        except FolderMoved as fault:
            raise sqlite3.OperationalError(f"unable to open: {fault}") from fault  # which may pass

    def _make(self) -> None:
        self._check_place()
        with suppress(sqlite3.Error):
            self._writer.close()
        if not self._is_absent:
            schema.remove(self.path)
        self._fresh, self._writer = self._connect()
        self._is_absent = False
        self._identity = _identity(self.path)

    def _connect(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        """Two connections to the file, which is deleted first where it is damaged."""
        try:
            return schema.connect(self.path), schema.connect(self.path)
        except sqlite3.DatabaseError as fault:
            if _is_passing(fault):
                raise
            log.warning("index.damaged", path=str(self.path), why=str(fault))
            schema.remove(self.path)
            return schema.connect(self.path), schema.connect(self.path)


def _is_passing(fault: sqlite3.Error) -> bool:
    message = str(fault).lower()
    return isinstance(fault, sqlite3.OperationalError) and any(word in message for word in _PASSING)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
