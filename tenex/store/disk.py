"""The store's own threads, its system calls as values a test may replace, and the number of files it keeps open."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, ParamSpec, TypeVar

from tenex.core.errors import FolderMoved, InternalError

from .lock import anywhere

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 2
"""A disk takes one flush at a time; the second thread reads and encodes beside it."""

OPEN_FILES: Final = 200
"""systemd starts a service with 1,024 descriptors; relays, tools' pipes and the index need most of them."""

PROBE: Final = ".probe"
"""The file that shows whether a folder can be written to; it is there for a moment."""

FLUSHED: Final = 10_000
"""Journals whose durable end is remembered, about 2 MB; one that was forgotten is copied when it is opened again."""

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


class FsyncTracker:
    """How far this process has itself seen journals become durable; used in any thread.

    What a file holds is no proof of what the disk holds: after a flush that failed the system may show bytes as written
    that never were, to this process and to the next.
    """

    __slots__ = ("_known", "_lock", "_most")

    def __init__(self, most: int = FLUSHED) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def note(self, path: Path, file: os.stat_result) -> None:
        """All of that file has been flushed, and the flush succeeded."""
        key = os.fspath(path)
        with self._lock:
            self._known[key] = (file.st_ino, file.st_size)
            self._known.move_to_end(key)
            if len(self._known) > self._most:
                self._known.popitem(last=False)

    def doubt(self, path: Path) -> None:
        """A flush of it failed: nothing is known of what the disk holds."""
        with self._lock:
            self._known.pop(os.fspath(path), None)

    def proves(self, path: Path, file: os.stat_result) -> bool:
        """Whether the file is the one that was flushed, and no longer than it was then."""
        with self._lock:
            return self._known.get(os.fspath(path)) == (file.st_ino, file.st_size)


def _close(descriptor: int) -> None:
    with suppress(OSError):  # what matters was flushed before
        os.close(descriptor)


class _Job(Generic[T]):
    """Work for a thread, and what came of it for the loop that waits; half the cost of an executor's future."""

    __slots__ = ("_fault", "_loop", "_result", "_waiter", "_work", "has_ended")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._result: T | None = None
        self._fault: BaseException | None = None
        self.has_ended = False

    def do(self) -> None:
        """Work, in a thread, and wake the loop."""
        try:
            self._result = self._work()
        except BaseException as fault:  # noqa: BLE001  (it is raised where the work was asked for)
            self._fault = fault
        with suppress(RuntimeError):  # the loop was closed: no caller waits
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.has_ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Return when the work has ended; may be cancelled and called again."""
        if not self.has_ended:
            self._waiter = self._loop.create_future()
            await self._waiter

    def result(self) -> T:
        """What the work gave, or its error; once."""
        if self._fault is None:
            return self._result  # type: ignore[return-value]  # what `_work` gave, also where that is None
        try:
            raise self._fault
        finally:
            self._fault = None  # else the error would hold the job, and the job the error


def _serve(jobs: "SimpleQueue[_Job[Any] | None]") -> None:
    """Do jobs in turn, in a thread, until there is None."""
    while (job := jobs.get()) is not None:
        job.do()
        del job  # while there is nothing to do nothing is held


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
            timed: gets how long journals waited for the disk: `append`, and the `flush` within it.
        """
        self.files = OpenFiles(open_files)
        self.flushed = FsyncTracker()
        self.write = write
        self.sync = sync
        self.timed = timed
        self.check: Callable[[], None] = anywhere
        """Called in a thread before a change; raises `FolderMoved` where the folder is not where it was locked."""
        self._most = threads
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._is_closed = False

    async def run(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Do blocking work in one of the threads.

        A cancelled caller still waits until the work has ended: a write that continues by itself could not be
        distinguished from one that never began.
        """
        if self._is_closed:
            raise InternalError("the disk was closed; work was asked for afterwards")
        job = _Job(partial(work, *arguments, **keywords))
        if len(self._threads) < self._most:  # one more, also where one is idle: it costs little
            name = f"tenex-store-{len(self._threads)}"
            # daemon: a process that ends without closing must not wait for the work
            self._threads.append(Thread(target=_serve, args=(self._jobs,), name=name, daemon=True))
            self._threads[-1].start()
        self._jobs.put(job)
        try:
            await job.wait()
        except asyncio.CancelledError:
            while not job.has_ended:
                with suppress(asyncio.CancelledError):
                    await job.wait()
            raise
        return job.result()

    async def change(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Like `run`, for work that may write: where the folder has been moved it is not begun.

        Raises:
            FolderMoved: nothing was done; at its old place a second folder would come into being.
        """

        def checked() -> T:
            self.check()
            return work(*arguments, **keywords)

        return await self.run(checked)

    async def probe(self, folder: Path) -> str:
        """Write a byte into a folder, make it durable and take it away; why that failed, or an empty text."""
        try:
            return await self.change(self._probe, folder / PROBE)
        except FolderMoved as fault:
            return str(fault)

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
            return f"{path.parent} cannot be written to: {fault.strerror or fault}. Free some space or repair the disk."
        return ""

    def close(self) -> None:
        """Close all files and end the threads, after the work they have; a second call does nothing."""
        self._is_closed = True
        for _ in self._threads:
            self._jobs.put(None)
        while self._threads:
            self._threads.pop().join()
        self.files.close()
