"""No room where agents work, or where what they change is kept: that is reported, and the daemon goes on.

Where nothing may be mounted, the daemon is refused the folder instead, without root's power to ignore permissions.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .kit import Folder, tenex_here
from .test_disk import Mounted, bound_by_modes, whole

SIZE = 2**20


@contextmanager
def no_room(path: Path) -> Iterator[bool]:
    """A small disk at that place, with what was there, and no byte left; whether it could be mounted."""
    held = path.with_name(f"{path.name}-before")
    shutil.copytree(path, held)
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "none", str(path)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        path.chmod(0o500)
        try:
            yield False
        finally:
            path.chmod(0o700)
        return
    try:
        shutil.copytree(held, path, dirs_exist_ok=True)
        room = Mounted(path)
        room.fill(0)
        yield True
        room.free(0)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


async def warnings(folder: Folder) -> dict[str, str]:
    """What the doctor warns of, by its place."""
    _, out, _ = await tenex_here("doctor", "--data", folder.data, "--json")
    return {one["location"]: one["message"] for one in json.loads(out)["findings"] if one["level"] != "ok"}


@pytest.mark.soak
async def test_no_room_for_checkpoints_is_reported_to_the_operator_and_work_goes_on(folder: Folder) -> None:
    async with bound_by_modes(folder) as process:
        first = await folder.write("Create one.py that prints one")
        await folder.until(first, "ended")
        with no_room(folder.data / "checkpoints") as is_mounted:
            name = await folder.write("Create two.py that prints two")
            await folder.until(name, "ended")
            found = await warnings(folder)
            assert is_mounted == (found.get(str(folder.data / "checkpoints")) == "only 0 bytes are free"), found
        logs = [log for log in process.logs if log["event"] == "checkpoint.failed"]
        reason = "No space left" if is_mounted else "Permission denied"
        assert logs
        assert all(reason in log["error"] for log in logs), logs
        third = await folder.write("Create three.py that prints three")
        await folder.until(third, "ended")
        assert len([log for log in process.logs if log["event"] == "checkpoint.failed"]) == len(logs), "there is room"
        assert await process.stop() == 0
    assert "Traceback" not in process.stderr
    await whole(folder, name, 1)
    assert {path.name for path in folder.workspace.glob("*.py")} == {"one.py", "two.py", "three.py"}
