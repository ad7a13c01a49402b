"""The store's threads and the number of files it keeps open."""

import asyncio
import errno
import gc
import os
import threading
import weakref
from pathlib import Path

import pytest

from tenex.core.errors import InternalError
from tenex.store.disk import THREADS, Disk, OpenFiles

from .kit import fails


def descriptor() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def test_a_cancelled_caller_waits_until_the_work_has_ended(disk: Disk) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()
        raise OSError(5, "no listener")

    task = asyncio.create_task(disk.run(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.wait({task}, timeout=0.01)
    task.cancel()
    await asyncio.wait({task}, timeout=0.01)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_that_had_not_begun_is_done_for_a_cancelled_caller_too() -> None:
    disk, may_end, done = Disk(threads=1), threading.Event(), list[str]()
    before = asyncio.create_task(disk.run(may_end.wait, 10))
    waiting = asyncio.create_task(disk.run(done.append, "written"))
    await asyncio.wait({before, waiting}, timeout=0.01)
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=0.01)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == ["written"]
    assert await before
    disk.close()


async def test_as_much_work_as_there_are_threads_is_done_at_once(disk: Disk) -> None:
    all_there = threading.Barrier(THREADS)
    for _ in range(2):
        assert len(await asyncio.gather(*(disk.run(all_there.wait, 10) for _ in range(THREADS)))) == THREADS


async def test_what_failed_is_released_when_the_thread_takes_other_work() -> None:
    disk = Disk(threads=1)  # a second thread could take the work that follows before the first has released its own

    class Data:
        def fail(self) -> None:
            raise OSError(5, "no")

    data = Data()
    gone = weakref.ref(data)
    gc.disable()
    try:
        with pytest.raises(OSError, match="no"):
            await disk.run(data.fail)
        del data
        await disk.run(int)
        assert gone() is None
    finally:
        gc.enable()
        disk.close()


def test_the_file_longest_unused_is_closed_first() -> None:
    files = OpenFiles(most=2)
    numbers = [descriptor() for _ in range(3)]
    files.put(1, numbers[0])
    files.put(2, numbers[1])
    files.put(1, numbers[0])
    files.put(3, numbers[2])
    assert [is_open(number) for number in numbers] == [True, False, True]
    assert (files.take(2), files.take(1), len(files)) == (None, numbers[0], 2)
    files.close()
    assert not any(map(is_open, numbers))


def test_a_file_that_is_taken_is_not_closed_under_its_owner() -> None:
    files = OpenFiles(most=1)
    numbers = [descriptor() for _ in range(3)]
    files.put(1, numbers[0])
    assert files.take(1) == numbers[0]
    files.put(2, numbers[1])
    assert [is_open(number) for number in numbers[:2]] == [True, False]
    files.put(1, numbers[0])
    files.put(3, numbers[2])
    assert [is_open(number) for number in numbers] == [False, False, True]
    files.drop(3)
    files.drop(3)
    assert not is_open(numbers[2])


async def test_closing_waits_for_work_under_way_and_work_after_it_is_refused() -> None:
    disk, begun, may_end, done = Disk(), threading.Event(), threading.Event(), list[str]()

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


async def test_a_probe_names_the_error_and_leaves_nothing(tmp_path: Path) -> None:
    disk = Disk()
    assert await disk.probe(tmp_path) == ""
    disk.write = fails(errno.ENOSPC)
    assert await disk.probe(tmp_path) == (
        f"{tmp_path} cannot be written to: No space left on device. Free some space or repair the disk."
    )
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    assert "No such file or directory" in await disk.probe(tmp_path / "gone")
    disk.close()
    disk.close()
