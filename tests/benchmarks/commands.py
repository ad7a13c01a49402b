"""What commands take that read a conversation, of a short one and of a long one: their processor time, start included.

`list`, `show`, `status` and `doctor` read the newest file of a journal, so they must not take longer for a long one.
`stats` and `show --all` read all of it: their time is given for each message.
"""

import asyncio
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.cli.journals import renamed
from tests.store.kit import StillClock

from .pages import lived, write
from .rig import Row

SHORT: Final = 600
LONG: Final = 1_500
"""Turns, each with a message of a user and an answer. The newest files of both journals have about 3 MB: what such a
file costs depends on how full it is."""
RUNS: Final = 2
NAME: Final = ConversationId("c" * 64)
OF_THE_END: Final = ("conversations list", "conversations show", "conversations show --json", "status", "doctor")
OF_ALL: Final = ("conversations show --all", "conversations stats")


async def measure(place: Path) -> list[Row]:
    """Write both conversations and read them."""
    short = place / "short"
    long = place / "long"
    await _write(short, SHORT)
    await _write(long, LONG)
    rows: list[Row] = []
    for words in (*OF_THE_END, *OF_ALL):
        few = await asyncio.to_thread(_seconds, short, words)
        many = await asyncio.to_thread(_seconds, long, words)
        what = f"`tenex {words}`"
        rows.append(Row(f"{what} of {2 * LONG:,} messages: processor time", many, "s"))
        if words in OF_ALL:
            each = (many - few) / (2 * (LONG - SHORT)) * 1000
            rows.append(Row(f"{what}: for each message", each, "ms", budget=0.5))
        else:
            against = f"{2 * LONG:,} messages against {2 * SHORT:,}"
            rows.append(Row(f"{what}: {against}", many / few, "x", budget=1.3, grows=True))
    return rows


async def _write(data: Path, turns: int) -> None:
    """A data folder with one conversation, as a daemon leaves it."""
    root = data / "conversations"
    root.mkdir(parents=True)
    disk = Disk()
    folder = ConversationFolder(root, disk, StillClock())
    decisions = renamed(NAME, lived(turns).journal)
    journal = await write(folder, NAME, decisions)
    await journal.close()
    await Views(folder, disk).show(fold(NAME, [record for decision in decisions for record in decision]))
    index = Index(root / "index.sqlite")
    await index.catch_up(folder)
    await index.close()
    disk.close()


def _seconds(data: Path, words: str) -> float:
    """Seconds of a processor that a command takes, in the least disturbed of some runs."""
    command = [sys.executable, "-m", "tenex", *words.split(), "--data", str(data)]
    times: list[float] = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert done.stdout, f"{words} printed nothing"  # the exit code of the doctor is that of the machine's faults
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)
