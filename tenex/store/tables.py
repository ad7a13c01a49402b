"""The index's file: one connection that reads on the loop, one that writes in a thread, and a new start after damage.

Never: use the writing connection outside its thread, or wait on the loop for a write.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import structlog

from tenex.core.errors import StoreError

from . import schema

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_PASSING: Final = ("locked", "busy", "full", "readonly", "disk i/o", "unable to open")
"""What SQLite says, within its message, of a world that may mend by itself rather than of a damaged file."""


class Tables:
    """The file `index.sqlite`, open."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make a new one where there is none or it is damaged.

        Raises:
            StoreError: it cannot be made.
        """
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenex-index")
        self._renewal: Future[sqlite3.Connection] | None = None
        self._closed = False
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
            raise StoreError(f"{path} cannot be opened: {fault}. It is a cache: you may delete it.") from fault

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
            sqlite3.Error: as the work does; tell `report`.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(self._writer, *arguments, **keywords))

    def report(self, fault: sqlite3.Error) -> None:
        """Hear of an error: where the file is damaged it is deleted, and an empty one takes its place."""
        log.warning("index.failed", path=str(self.path), why=str(fault))
        self._take_renewed()
        if not self._closed and self._renewal is None and not _is_passing(fault):
            self._renewal = self._thread.submit(self._renew)

    def close(self) -> None:
        """Let go of the file, after the work under way; a second call does nothing."""
        self._thread.shutdown()
        self._take_renewed()
        self._closed = True
        self._reader.close()
        self._writer.close()

    def _renew(self) -> sqlite3.Connection:
        with suppress(sqlite3.Error):
            self._writer.close()
        schema.remove(self.path)
        self._writer = schema.connect(self.path)
        return schema.connect(self.path)

    def _take_renewed(self) -> None:
        if self._renewal is None or not self._renewal.done():
            return
        renewal, self._renewal = self._renewal, None
        try:
            fresh = renewal.result()
        except (OSError, sqlite3.Error) as fault:
            # the closed writer makes the next write fail, and that one tries to renew again
            log.warning("index.not_renewed", path=str(self.path), why=str(fault))
            return
        with suppress(sqlite3.Error):
            self._reader.close()
        self._reader = fresh


def _is_passing(fault: sqlite3.Error) -> bool:
    said = str(fault).lower()
    return isinstance(fault, sqlite3.OperationalError) and any(word in said for word in _PASSING)
