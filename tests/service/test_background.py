"""Background commands of a real daemon: listed while they run, gone with the run, and named after a restart."""

from pathlib import Path

import pytest

from tenex.core import records as r
from tests.programs import needs_git
from tests.tools.conftest import processes_in

from . import person
from .kit import Folder, of_kind, ordered

pytestmark = needs_git

SETTINGS = 'shell.sandbox = "none"\n[[approve]]\ntool = "shell_start"\ndecision = "allow"\n'
"""Where the tests run there may be no sandbox; that it is used where there is one is tested in `tests/tools`."""


@pytest.fixture
def watching(tmp_path: Path, relay: str) -> Folder:
    """A data folder whose executor starts commands in the background."""
    return Folder(tmp_path / "data", relay, SETTINGS)


def results(folder: Folder, name: str) -> dict[str, r.ToolCallCompleted]:
    return {record.tool: record for record in of_kind(folder.records(name), r.ToolCallCompleted)}


async def test_a_command_is_listed_while_it_runs_and_gone_when_its_run_has_ended(watching: Folder) -> None:
    async with ordered(watching, "tool", tool="shell_read", hold=True, model="watcher"):
        name = await watching.write("Watch the files")
        await watching.held()
        started = results(watching, name)["shell_start"]
        (command,) = (await watching.facts("status"))["background"]
        assert (command["agent"], command["command"], command["conversation"]) == ("executor", WATCH, name)
        assert dict(started.background or {}) == {command["id"]: WATCH}
        assert started.has_outside_effect
        await watching.write("/status", to=name)
        await person.until(lambda: any("in the background: bg-" in one.text for one in sent(watching, name)))
        assert processes_in(watching.workspace)

        watching.let_go()
        await watching.until(name, "waiting")
        await person.until(lambda: not processes_in(watching.workspace))
        assert (await watching.facts("status"))["background"] == []
        assert "is running" in results(watching, name)["shell_read"].content
        phases = watching.state(name).unmet_gates
        assert phases, "what it may have changed has to be verified"


async def test_after_a_restart_a_lost_command_is_named_as_such(watching: Folder) -> None:
    async with ordered(watching, "tool", tool="shell_read", hold=True, model="watcher") as process:
        name = await watching.write("Watch the files")
        await watching.held()
        await process.die()
    await person.until(lambda: not processes_in(watching.workspace))
    async with ordered(watching, model="watcher"):
        await watching.until(name, "waiting")
        lost = results(watching, name)["shell_read"]
        assert not lost.ok
        assert "when the daemon restarts; then start it again" in lost.content


def sent(folder: Folder, name: str) -> list[r.MessageSent]:
    return of_kind(folder.records(name), r.MessageSent)


WATCH = "echo watching; exec sleep 600"
