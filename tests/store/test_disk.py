"""The store's threads and the number of files it keeps open."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from tenex.core.errors import InternalError
from tenex.store.disk import THREADS, Disk, OpenFiles

from .kit import fails, names


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def test_a_cancelled_caller_waits_until_the_work_has_ended() -> None:
    """Also where it had not begun."""
    disk, may_end, done = Disk(threads=1), threading.Event(), list[str]()

    def work() -> None:
        may_end.wait(10)
        raise OSError(5, "no listener")

    first, second = asyncio.create_task(disk.run(work)), asyncio.create_task(disk.run(done.append, "written"))
    for _ in range(2):
        await asyncio.wait({first, second}, timeout=0.01)
        first.cancel()
        second.cancel()
    assert not first.done()
    assert not second.done()
    may_end.set()
    for task in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert done == ["written"]
    disk.close()


async def test_as_much_work_as_there_are_threads_is_done_at_once(disk: Disk) -> None:
    all_there = threading.Barrier(THREADS)
    for _ in range(2):
        assert len(await asyncio.gather(*(disk.run(all_there.wait, 10) for _ in range(THREADS)))) == THREADS


def test_the_file_longest_unused_is_closed_first_unless_it_is_taken() -> None:
    files = OpenFiles(most=2)
    numbers = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
    for owner in (0, 1, 0, 2):
        files.put(owner, numbers[owner])
    assert list(map(is_open, numbers)) == [True, False, True, True]
    assert (files.take(1), files.take(0), len(files)) == (None, numbers[0], 2)
    files.put(3, numbers[3])
    assert list(map(is_open, numbers)) == [True, False, False, True]
    for _ in range(2):
        files.drop(3)
    assert list(map(is_open, numbers)) == [True, False, False, False]
    files.close()
    assert not any(map(is_open, numbers))


async def test_closing_waits_for_work_under_way_and_work_after_it_is_refused(disk: Disk) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        done.append("written")

    task = asyncio.create_task(disk.run(work))
    await asyncio.to_thread(begun.wait, 10)
    closing = asyncio.create_task(asyncio.to_thread(disk.close))
    await asyncio.wait({closing}, timeout=0.01)
    assert not closing.done()
    may_end.set()
    await closing
    assert done == ["written"]
    await task
    with pytest.raises(InternalError, match="closed"):
        await disk.run(done.append, "too late")


async def test_a_probe_names_the_error_and_leaves_nothing(tmp_path: Path, disk: Disk) -> None:
    assert await disk.probe(tmp_path) == ""
    disk.write = fails(errno.ENOSPC)
    assert await disk.probe(tmp_path) == (
        f"{tmp_path} cannot be written to: No space left on device. Free some space or repair the disk."
    )
    assert names(tmp_path) == []
    assert "No such file or directory" in await disk.probe(tmp_path / "gone")
