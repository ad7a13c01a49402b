"""A disk that is full, read-only or out of descriptors, under the real daemon: reported and recovered from.

Where nothing may be mounted, the limit on the size of files replaces the full disk: every write that grows a file
fails, too.
"""

import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from tests.kits.full_disk import complaints, notices, until_notified, whole

from .kit import Folder, daemon

SIZE = 6 * 2**20
"""Bytes of the small disk: a conversation and the index take one."""


class Room(Protocol):
    """A disk that can be filled up under a daemon."""

    def fill(self, pid: int) -> None: ...

    def free(self, pid: int) -> None: ...


class Mounted:
    """A tmpfs and a file that takes what is left of it."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self, _: int) -> None:
        with self._filler.open("wb", buffering=0) as filler:
            for size in (65_536, 4_096, 512, 1):
                with suppress(OSError):
                    while True:
                        filler.write(b"x" * size)

    def free(self, _: int) -> None:
        self._filler.unlink()


class Limited:
    """A limit on the length of the files a process writes."""

    def fill(self, pid: int) -> None:
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))

    def free(self, pid: int) -> None:
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture
def room(folder: Folder) -> Iterator[Room]:
    """The disk the conversations lie on, before a daemon is started."""
    path = folder.data / "conversations"
    words: list[str | Path] = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "none", path]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        yield Limited()
        return
    try:
        yield Mounted(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


async def test_a_full_disk_is_reported_to_users_and_operator_and_recovered_without_a_restart(
    folder: Folder, room: Room
) -> None:
    async with daemon(folder) as process:
        old = await folder.write("Create one.py that prints one")
        await folder.until(old, "ended")
        room.fill(process.pid)
        again = await folder.write("Create two.py that prints two", to=old)
        new = await folder.write("Create three.py that prints three")
        await until_notified(folder, again, new)
        report = await folder.facts("status")
        assert {one["id"] for one in report["conversations"]["suspended"]} == {old, new}
        whys = [one["why"] for one in report["conversations"]["suspended"]]
        assert all("No space left" in why or "File too large" in why for why in whys), whys
        found = await complaints(folder)
        assert all(f"conversation {name}: suspended since" in found for name in (old, new))
        room.free(process.pid)
        await folder.until(old, "ended", cycle=2)
        await folder.until(new, "ended")
        assert (await folder.facts("status"))["conversations"]["suspended"] == []
    await whole(folder, old, 2)
    await whole(folder, new, 1)
    assert len(await notices(folder)) == 2
    assert (folder.workspace / "two.py").exists()
    assert "Traceback" not in process.stderr


@pytest.mark.soak
async def test_without_free_descriptors_the_daemon_waits_and_then_goes_on(folder: Folder) -> None:
    async with daemon(folder) as process:
        old = await folder.write("Create one.py that prints one")
        await folder.until(old, "ended")
        many, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, most))
        new = await folder.write("Create three.py that prints three")
        await until_notified(folder, new)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (many, most))
        await folder.until(new, "ended")
        await folder.write("Create two.py that prints two", to=old)
        await folder.until(old, "ended", cycle=2)
        assert (await folder.facts("status"))["conversations"]["suspended"] == []
    await whole(folder, old, 2)
    await whole(folder, new, 1)
