"""`kill -9` at every system call that changes the disk or speaks to a relay, in all seven phases."""

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from .injected import WAY, Point, Talk, children, injected
from .kit import Folder, ordered
from .oracle import Survived, check, survey

JOURNAL = "<id>/journal.jsonl"
DAEMON = "conversations/_daemon/journal.jsonl"
INDEX = "conversations/index.sqlite"
WAL = "conversations/index.sqlite-wal"

QUICK = [Point("fdatasync", 21, JOURNAL), Point("rename", 3, rotates=True)]
"""What no moment of `test_kill` is: within the flush of a line, and within the naming of another file."""

SWEEP = [
    ("write", JOURNAL, 1),
    ("fdatasync", JOURNAL, 1),
    ("write", DAEMON, 1),
    ("fdatasync", DAEMON, 1),
    ("fdatasync", INDEX, 1),
    ("pwrite64", WAL, 9),
    ("fdatasync", WAL, 1),
    ("mkdir", "", 1),
    ("fsync", "", 1),
    ("rename", "", 1),
    ("unlink", "", 1),
    ("ftruncate", "", 1),
    ("write", "", 1),
    ("sendto", "", 2),
    *((call, "rotating", 1) for call in ("write", "fsync", "fdatasync", "rename")),
]
"""Calls, where, and every how many-th: what files are made of is met each time,
pages of SQLite's and frames in steps.
"""


async def kill_and_go_on(folder: Folder, point: Point) -> bool:
    """Die there, start again, finish the talk and check; False if the daemon never made that call."""
    talk = await Talk.begin(folder)
    deaths: list[Survived] = []
    async with injected(folder, point, talk.name) as tracer:
        if await talk.finish_or(tracer):
            for pid in children(tracer.pid):  # none where its last record was there, but not yet flushed
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)  # it may still meet its point while it stops
        code = await tracer.ended()
        assert code in (0, -signal.SIGKILL), tracer.stderr
        if code:
            deaths.append(survey(folder, talk.name))
    if deaths:
        async with ordered(folder) as second:
            await talk.finish()
            assert await second.stop() == 0
            assert not [log for log in second.logs if log["level"] == "error"], second.stderr
    await check(folder, talk.name, deaths, way=WAY, messages=talk.sent)
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'
    return bool(deaths)


@pytest.mark.parametrize("point", QUICK, ids=str)
async def test_a_daemon_killed_at_a_system_call_goes_on(folder: Folder, point: Point) -> None:
    assert await kill_and_go_on(folder, point), "it never came to that call"


@pytest.mark.soak
@pytest.mark.parametrize(("call", "where", "step"), SWEEP)
async def test_a_daemon_killed_at_any_system_call_goes_on(
    tmp_path: Path, relay: str, call: str, where: str, step: int
) -> None:
    for at in count(1, step):
        rotates = where == "rotating"
        point = Point(call, at, "" if rotates else where, rotates=rotates)
        if not await kill_and_go_on(Folder(tmp_path / f"data-{at}", relay), point):
            assert at > 1, f"it never calls {call} on {where}"
            return
