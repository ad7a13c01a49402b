"""Reads from a disk that is slow, hangs or fails: the last value is used, and no result is dropped."""

import asyncio
import errno
import os

from tenex.operations.stored_conversations import READ_TIMEOUT, LastRead
from tests.fakes.virtual import run


def test_a_result_after_the_timeout_is_used_the_next_time() -> None:
    """Else a disk that is slower than each timeout would never give a value."""

    async def main() -> None:
        disk, reads = LastRead(), 0
        nothing: list[int] = []

        async def read() -> list[int]:
            nonlocal reads
            reads += 1
            await asyncio.sleep(2 * READ_TIMEOUT)
            return [reads]

        assert await disk.read("marks", read, nothing) == []
        assert "has not answered" in disk.fault
        await asyncio.sleep(3 * READ_TIMEOUT)
        assert disk.fault == ""
        assert await disk.read("marks", read, nothing) == [1]
        await asyncio.sleep(3 * READ_TIMEOUT)
        assert await disk.read("marks", read, nothing) == [2]

    run(main)


def test_a_failed_read_gives_the_last_value_and_a_reason() -> None:
    async def main() -> None:
        disk, faults = LastRead(), [0, errno.EMFILE, 0]

        async def read() -> str:
            fault = faults.pop(0)
            if fault:
                raise OSError(fault, os.strerror(fault))
            return f"{len(faults)} to come"

        assert await disk.read("marks", read, "") == "2 to come"
        assert await disk.read("marks", read, "") == "2 to come"
        assert "(Too many open files); stored conversations are shown as they were read last" in disk.fault
        assert await disk.read("marks", read, "") == "0 to come"
        assert disk.fault == ""

    run(main)
