"""A daemon killed at any moment of its work with views leaves whole files, and nothing but a folder to remove."""

import asyncio
import random
import re
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tenex.tools.sandbox import RunPolicy
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import HALF_WRITTEN, Workspace
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import CHORES, every_tool, put

pytestmark = [needs_bubblewrap, needs_git]

LINES = 20_000
PERMITTED = ("README.md", "mine.py", "docs/a.md", "docs/new/b.md")
"""What the commands of chores change as a whole, each to the number of its turn."""

DAEMON = f"""
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tests.tools.conftest import CHORES, VERIFICATION, Bench

VERIFY = '''
for f in *; do echo x >> $f; done 2> /tmp/errors
rm -rf src .env; mkdir -m 0 shut; for i in $(seq 300); do echo $i > new-$i; done
'''
TIDY = '''
for f in {" ".join(PERMITTED)}; do mkdir -p $(dirname $f); yes "$f NUMBER" | head -n {LINES} > $f; done
rm -f docs/old.md; echo x >> app.py; mv .env env; mkdir -p pkg; echo x > pkg/x.py
'''

async def main():
    root, store, checkpoints = map(Path, sys.argv[1:])
    workspace = Workspace(root)
    views = TurnViews(store, workspace)
    programs = Programs(workspace, ShellRules(policy=RunPolicy.SANDBOXED), views=views)
    tools = Bench([shell_tool(programs)], Transactions(workspace, Checkpoints(checkpoints, root), views=views))
    print("ready", flush=True)
    for number in range(1, 3):
        for command, context in ((VERIFY, VERIFICATION), (TIDY.replace("NUMBER", str(number)), CHORES)):
            result = await tools.run(command, replace(context, turn=f"{{context.phase}}-{{number}}"))
            assert result.ok, result.content
            views.end(context.conversation_id)
        await views.settled()
    print("done", flush=True)

asyncio.run(main())
"""


async def seconds_until_killed(place: Path, moment: float) -> float:
    """Run the daemon, kill it so many seconds after it has begun, and return when it was gone."""
    line = [sys.executable, "-c", DAEMON, *(str(place / name) for name in ("workspace", "views", "checkpoints"))]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE)
    assert daemon.stdout is not None
    assert await daemon.stdout.readline() == b"ready\n"
    began = time.monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(moment):
            await daemon.wait()
    if daemon.returncode is None:
        daemon.kill()
        await daemon.wait()
    else:
        assert daemon.returncode == 0
    return time.monotonic() - began


def filled(place: Path) -> dict[str, str]:
    """A workspace as it was before a daemon worked in it."""
    root = place / "workspace"
    root.mkdir(parents=True)
    kit.fill(root)
    put(root, {"docs/old.md": "old\n", "docs/a.md": "a\n", ".env": "secret\n"})
    return kit.contents(root)


def is_over(place: Path) -> bool:
    """Whether every program of the daemon is gone, with its mounts."""
    return not kit.using(place / "views") and not kit.processes_in(place / "workspace")


def check_files(root: Path, was: dict[str, str]) -> None:
    """Each permitted file is one of the whole ones, and nothing else has changed."""
    found = {path: text for path, text in kit.contents(root).items() if HALF_WRITTEN not in path}
    assert found.pop("docs/old.md", "old\n") == "old\n"
    for path in PERMITTED:
        text = found.pop(path, None)
        if text != was.get(path):
            assert text is not None
            assert re.fullmatch(rf"{re.escape(path)} [12]\n", text[: len(path) + 3]), path
            assert text == text[: len(path) + 3] * LINES, path
    others = {path: text for path, text in was.items() if path not in (*PERMITTED, "docs/old.md")}
    assert found == others


@pytest.mark.parametrize("moments", [6, pytest.param(40, marks=pytest.mark.soak)])
async def test_a_daemon_killed_at_any_moment_leaves_whole_files_and_a_folder_to_remove(
    tmp_path: Path, moments: int
) -> None:
    filled(tmp_path / "whole")
    whole = await seconds_until_killed(tmp_path / "whole", 120)
    drawn = random.Random(moments)
    for number in range(moments):
        # one at a random moment of each part of the whole time
        moment = whole * (number + drawn.random()) / moments
        place = tmp_path / str(number)
        was = filled(place)
        root = place / "workspace"
        await seconds_until_killed(place, moment)
        await kit.until(partial(is_over, place), "every program is gone, with its mounts")
        check_files(root, was)

        workspace = Workspace(root)
        await asyncio.to_thread(TurnViews(place / "views", workspace).clear)
        assert not (place / "views").exists()
        tools = every_tool(workspace, place / "checkpoints", RunPolicy.SANDBOXED)
        result = await tools.run("cat app.py; echo x >> app.py; echo again > mine.py", CHORES)
        assert result.touched == ("mine.py",), (moment, result.content)
        assert "print(1)" in result.content
        assert (root / "mine.py").read_text() == "again\n"
