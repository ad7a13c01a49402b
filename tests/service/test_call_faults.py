"""One system call of the real daemon fails, and the next ones do not: it logs that, holds, and goes on by itself."""

import os
import signal
from itertools import count
from pathlib import Path

import pytest

from .injected import WAY, Point, Talk, children, injected
from .kit import Folder, ordered
from .oracle import check

JOURNAL = "<id>/journal.jsonl"
WAL = "conversations/index.sqlite-wal"
EIO = ("error=EIO", "Input/output error")
ENOSPC = ("error=ENOSPC", "No space left on device")

QUICK = [Point("fdatasync", 9, JOURNAL, EIO[0])]
"""A write that fails is what a full disk is (`test_disk`)."""

SWEEP = [
    ("fdatasync", JOURNAL, EIO, 1),
    ("write", JOURNAL, ENOSPC, 1),
    ("write", JOURNAL, EIO, 5),
    ("fsync", "<id>", EIO, 1),
    ("rename", "", ENOSPC, 1),
    ("mkdir", "<id>", ENOSPC, 1),
    ("fdatasync", WAL, EIO, 1),
    ("pwrite64", WAL, ENOSPC, 9),
]
"""Calls, where, the words of their reason, and every how many-th."""


async def fail_and_go_on(folder: Folder, point: Point) -> bool:
    """The talk comes to its end in the same process, and nothing is done twice, for no process has died.

    Returns:
        Whether the daemon came to that call.
    """
    talk = await Talk.begin(folder)
    async with injected(folder, point, talk.name) as tracer:
        assert await talk.finish_or(tracer), tracer.stderr
        (pid,) = children(tracer.pid)
        os.kill(pid, signal.SIGTERM)
        assert await tracer.ended() == 0, tracer.stderr
        was_met = "(INJECTED)" in (folder.marks / "trace").read_text()
        suspended = [log["reason"] for log in tracer.logs if log["event"] == "conversation.suspended"]
        assert "Traceback" not in tracer.stderr, tracer.stderr
    if point.where == JOURNAL:
        word = dict((EIO, ENOSPC))[point.fault]
        assert len(suspended) == was_met, tracer.stderr
        assert all(word in reason for reason in suspended)
    elif was_met:  # a view or an index that the disk did not take in the end is made at the next start
        async with ordered(folder) as again:
            assert await again.stop() == 0
    await check(folder, talk.name, way=WAY, messages=talk.sent, quarrels=1)
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'
    return was_met


@pytest.mark.parametrize("point", QUICK, ids=str)
async def test_a_call_that_fails_once_is_logged_and_outlived(folder: Folder, point: Point) -> None:
    assert await fail_and_go_on(folder, point), "it never came to that call"


@pytest.mark.soak
@pytest.mark.parametrize(("call", "where", "fault", "step"), SWEEP)
async def test_any_call_that_fails_once_is_outlived(
    tmp_path: Path, relay: str, call: str, where: str, fault: tuple[str, str], step: int
) -> None:
    for at in count(1, step):
        if not await fail_and_go_on(Folder(tmp_path / f"data-{at}", relay), Point(call, at, where, fault[0])):
            assert at > 1, f"it never calls {call} on {where}"
            return
