"""The store's own threads, its system calls as values a test may replace, and the number of files it keeps open.

Never: touch a file on the event loop, save closing one.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 2
"""A disk takes one flush at a time; the second thread reads and encodes beside it."""

OPEN_FILES: Final = 200
"""systemd starts a service with 1,024 descriptors; relays, tools' pipes and the index need most of them."""

PROBE: Final = ".probe"
"""The file that shows whether a folder can be written to; it is there for a moment."""

Timed = Callable[[str, float], None]
"""Takes a kind of work and the seconds it took; called from any thread, and must not block."""


class OpenFiles:
    """The descriptors of journals lately written to, at most so many; used on the event loop only."""

    __slots__ = ("_busy", "_files", "_most")

    def __init__(self, most: int = OPEN_FILES) -> None:
        self._most = most
        self._files: OrderedDict[int, int] = OrderedDict()
        self._busy: set[int] = set()

    def __len__(self) -> int:
        return len(self._files)

    def take(self, owner: int) -> int | None:
        """The owner's descriptor, if it is still open; it stays so until `put` or `drop`."""
        self._busy.add(owner)
        return self._files.get(owner)

    def put(self, owner: int, descriptor: int) -> None:
        """Keep a descriptor for later; the one longest unused and not taken is closed if there are too many."""
        self._busy.discard(owner)
        self._files[owner] = descriptor
        self._files.move_to_end(owner)
        while len(self._files) > self._most:
            idle = next((known for known in self._files if known not in self._busy), None)
            if idle is None:
                return
            _close(self._files.pop(idle))

    def drop(self, owner: int) -> None:
        """Close the owner's descriptor, if there is one."""
        self._busy.discard(owner)
        descriptor = self._files.pop(owner, None)
        if descriptor is not None:
            _close(descriptor)

    def close(self) -> None:
        """Close all of them."""
        for owner in list(self._files):
            self.drop(owner)


def _close(descriptor: int) -> None:
    with suppress(OSError):  # what matters was flushed before; close has nothing more to say
        os.close(descriptor)


class Disk:
    """Runs blocking file work. Share one among all journals of a process."""

    def __init__(
        self,
        *,
        threads: int = THREADS,
        open_files: int = OPEN_FILES,
        write: Callable[[int, memoryview], int] = os.write,
        sync: Callable[[int], None] = os.fdatasync,
        timed: Timed | None = None,
    ) -> None:
        """Start with no thread; they come with the first work.

        Args:
            threads: how many calls may block at the same time.
            open_files: how many journals stay open between appends.
            write: takes bytes like `os.write`, perhaps fewer than it was given.
            sync: makes a file's bytes durable.
            timed: hears how long journals waited for the disk: `append`, and the `flush` within it.
        """
        self.files = OpenFiles(open_files)
        self.write = write
        self.sync = sync
        self.timed = timed
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tenex-store")

    async def run(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Do blocking work in one of the threads.

        A cancelled caller still waits until the work has ended: a write that goes on by itself could not be told from
        one that never began.
        """
        future = asyncio.wrap_future(self._threads.submit(work, *arguments, **keywords))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
            if not future.cancelled():
                future.exception()  # heard, so that nothing complains of an error nobody fetched
            raise

    async def probe(self, folder: Path) -> str:
        """Write a byte into a folder, make it durable and take it away; why that failed, or an empty text."""
        return await self.run(self._probe, folder / PROBE)

    def _probe(self, path: Path) -> str:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                self.write(descriptor, memoryview(b"\n"))
                self.sync(descriptor)
            finally:
                _close(descriptor)
                path.unlink(missing_ok=True)
        except OSError as fault:
            return f"{path.parent} cannot be written to: {fault.strerror or fault}. Make room or mend the disk."
        return ""

    def close(self) -> None:
        """Close all files and end the threads, after the work they have; a second call does nothing."""
        self._threads.shutdown()
        self.files.close()
