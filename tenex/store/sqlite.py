"""The index file: one connection that reads on the loop, one that writes in a thread; rebuilt after damage."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import structlog

from . import schema

log = structlog.get_logger(__name__)

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

    def __init__(self, path: Path, on_lost: Callable[[], None], on_renewed: Callable[[], None]) -> None:
        """Open the file, or make a new one where there is none or it is damaged.

        Where none can be made now, as on a full disk, nothing is found and every write fails until one can.

        Args:
            path: the file; its folder is made if missing.
            on_lost: called before any other work when an empty file is going to replace a damaged one.
            on_renewed: called on the loop when it has.
        """
        self.path = path
        self._on_lost, self._on_renewed = on_lost, on_renewed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenex-index")
        self._renewal: Future[sqlite3.Connection] | None = None
        self._closed = False
        self._is_absent = False
        """No file could be opened so far; the one that is there may be whole."""
        self._failed_at = -RENEW_EVERY
        self._again: asyncio.TimerHandle | None = None
        self._logged: dict[tuple[str, str], float] = {}
        try:
            try:
                self._reader, self._writer = schema.connect(path), schema.connect(path)
            except sqlite3.DatabaseError as fault:
                if _is_passing(fault):
                    raise
                log.warning("index.damaged", path=str(path), why=str(fault))
                schema.remove(path)
                self._reader, self._writer = schema.connect(path), schema.connect(path)
        except (OSError, sqlite3.Error) as fault:
            log.error("index.absent", path=str(path), why=str(fault))
            self._is_absent, self._failed_at = True, time.monotonic()
            self._reader = self._writer = _closed()
        self._identity = _identity(path)

    def ask(self, query: str, key: str) -> object:
        """The first column of the first row; None if there is none, or the file is just being renewed."""
        self._take_renewed()
        if self._closed or self._renewal is not None:
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
            if _identity(self.path) != self._identity:
                raise sqlite3.DatabaseError("the file was removed, or another one took its place")
            return work(self._writer, *arguments, **keywords)

        return await loop.run_in_executor(self._thread, do)

    def report(self, fault: sqlite3.Error) -> None:
        """Log an error; where the file is damaged it is deleted, and an empty one takes its place.

        Where that cannot be done now it is tried again every `RENEW_EVERY` seconds, even without a write.
        """
        self._log("index.failed", fault)
        self._take_renewed()
        if not _is_passing(fault):
            self._begin_renewal()

    def _log(self, event: str, fault: OSError | sqlite3.Error) -> None:
        now, what = time.monotonic(), (event, str(fault))
        if now - self._logged.get(what, -LOG_EVERY) >= LOG_EVERY:
            self._logged = {event: at for event, at in self._logged.items() if now - at < LOG_EVERY} | {what: now}
            log.warning(event, path=str(self.path), why=what[1])

    def _begin_renewal(self) -> None:
        if self._closed or self._renewal is not None or self._again is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._failed_at + RENEW_EVERY - time.monotonic()
        if wait > 0:
            self._again = loop.call_later(wait, self._renew_again)
            return

        def wake(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended, and `close` takes what was renewed
                loop.call_soon_threadsafe(self._take_renewed)

        self._on_lost()
        self._renewal = self._thread.submit(self._renew)
        self._renewal.add_done_callback(wake)

    def _renew_again(self) -> None:
        self._again = None
        self._begin_renewal()

    def close(self) -> None:
        """Close the file, after the work under way; a second call does nothing."""
        self._thread.shutdown()
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        self._take_renewed()
        self._reader.close()
        self._writer.close()

    def _renew(self) -> sqlite3.Connection:
        with suppress(sqlite3.Error):
            self._writer.close()
        if not self._is_absent:
            schema.remove(self.path)
        try:
            self._writer = schema.connect(self.path)
        except sqlite3.DatabaseError as fault:
            if _is_passing(fault):
                raise
            schema.remove(self.path)
            self._writer = schema.connect(self.path)
        reader = schema.connect(self.path)
        self._is_absent = False
        self._identity = _identity(self.path)
        return reader

    def _take_renewed(self) -> None:
        if self._renewal is None or not self._renewal.done():
            return
        renewal, self._renewal = self._renewal, None
        try:
            fresh = renewal.result()
        except (OSError, sqlite3.Error) as fault:
            self._log("index.not_renewed", fault)
            self._failed_at = time.monotonic()
            self._begin_renewal()
            return
        with suppress(sqlite3.Error):
            self._reader.close()
        self._reader = fresh
        log.info("index.renewed", path=str(self.path))
        self._on_renewed()


def _closed() -> sqlite3.Connection:
    """A closed connection: every query raises, as with a file that was lost."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.close()
    return connection


def _is_passing(fault: sqlite3.Error) -> bool:
    message = str(fault).lower()
    return isinstance(fault, sqlite3.OperationalError) and any(word in message for word in _PASSING)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
