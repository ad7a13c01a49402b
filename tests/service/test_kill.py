"""`kill -9` of the real process, at every kind of moment: the conversation finishes, and nothing happens twice."""

import signal
import time

import pytest

from tenex.core import records as r
from tenex.core.decide.runs import UNKNOWN
from tenex.core.records import Record

from . import person
from .kit import Folder, Process, daemon, of_kind, ordered
from .moments import Moment
from .oracle import check, survey

REQUEST = "Create hello.py that prints hello"

QUICK: list[tuple[Moment, int]] = [
    ("torn append", 2),
    ("model", 2),
    ("tool", 2),
    ("tool done", 2),
    ("publish", 1),
    ("published", 1),
]
"""A spread over a cycle: the first message, in and between the steps of an agent, between phases, at a publish."""

SWEEP: list[tuple[Moment, int]] = [
    *((moment, at) for moment in ("append", "torn append", "appended") for at in range(1, 21)),
    *(("model", at) for at in range(1, 13)),
    ("route", 1),
    *((moment, at) for moment in ("tool", "tool done") for at in range(1, 8)),
    *((moment, at) for moment in ("publish", "published") for at in range(1, 6)),
]


async def died(process: Process) -> None:
    assert await process.ended() == -signal.SIGKILL, process.stderr


async def kill_and_go_on(
    folder: Folder, moment: Moment, at: int, request: str = REQUEST, model: str = "offline"
) -> str:
    """Let a daemon die at a moment, start another, check what came of it; returns the conversation."""
    async with ordered(folder, moment, at, model=model) as first:
        name = await folder.write(request)
        await died(first)
    death = survey(folder, name)
    async with ordered(folder, model=model) as second:
        await folder.until(name, "ended")
        assert await second.stop() == 0
        assert not [log for log in second.logs if log["level"] == "error"], second.stderr
    await check(folder, name, [death])
    return name


@pytest.mark.parametrize(("moment", "at"), QUICK)
async def test_a_killed_daemon_goes_on_where_it_was(folder: Folder, moment: Moment, at: int) -> None:
    await kill_and_go_on(folder, moment, at)
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'


@pytest.mark.soak
@pytest.mark.parametrize(("moment", "at"), SWEEP)
async def test_a_killed_daemon_goes_on_wherever_it_was(folder: Folder, moment: Moment, at: int) -> None:
    await kill_and_go_on(folder, moment, at)
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'


async def test_a_daemon_that_dies_again_and_again_still_arrives(folder: Folder) -> None:
    name, lives = "", 0
    survived: list[Record] = []
    died_there = folder.marks / "died"

    def is_over() -> bool:
        return died_there.exists() or folder.state(name).status == "ended"

    while not name or folder.state(name).status != "ended":
        async with ordered(folder, "appended", 7) as process:
            name = name or await folder.write(REQUEST)
            await person.until(is_over)
            if died_there.exists():
                await died(process)
                died_there.unlink()
        lives += 1
        assert lives < 20, "it does not get on"
        records = folder.records(name)
        assert records[: len(survived)] == survived
        survived = records
    assert lives >= 3
    async with daemon(folder):
        await person.until(lambda: not folder.state(name).outbox)
    sent = {event.id for record in of_kind(folder.records(name), r.MessageSent) for event in record.events}
    stored = await person.stored(folder.url, kinds=[1], authors=sorted(folder.public_keys))
    assert {event["id"] for event in stored} == sent


@pytest.mark.parametrize(("moment", "content"), [("tool", "The cat is here.\n"), ("tool done", "The dog is here.\n")])
async def test_an_edit_that_was_cut_off_is_reported_as_unknown_and_not_repeated(
    folder: Folder, moment: Moment, content: str
) -> None:
    pets = folder.workspace / "pets.txt"
    pets.write_text("The cat is here.\n")
    async with ordered(folder, moment, tool="edit_file", model="editor") as first:
        name = await folder.write("Change cat to dog in pets.txt")
        await died(first)
    assert [tool for _, tool, _ in folder.executions()] == ["read_file", "edit_file"]
    async with ordered(folder, model="editor"):
        state = await folder.until(name, "waiting")
    records = folder.records(name)
    cut_off = of_kind(records, r.ToolCallStarted, lambda record: record.tool == "edit_file")[0]
    result = next(x for x in of_kind(records, r.ToolCallCompleted) if (x.run, x.call) == (cut_off.run, cut_off.call))
    assert (result.ok, result.content) == (False, UNKNOWN)
    assert [tool for _, tool, _ in folder.executions()] == ["read_file", "edit_file", "read_file"]
    assert pets.read_text() == content
    assert content.strip() in state.recent[-1].text


async def test_what_was_written_while_no_daemon_ran_is_answered(folder: Folder) -> None:
    async with daemon(folder) as first:
        await first.until("relay.connected")
        first.signal(signal.SIGKILL)
        await died(first)
    name = await folder.write(REQUEST)
    async with daemon(folder):
        await folder.until(name, "ended")
    for file in (folder.data / "conversations").glob("index.sqlite*"):
        file.unlink()
    old = int(time.time()) - 3600  # longer ago than any allowance for clocks
    late = person.note(folder.owner, "Create bye.py that prints bye", ["p", folder.project.public], at=old)
    await person.publish(folder.url, late)
    async with daemon(folder):
        await folder.until(str(late["id"]), "ended")
    assert folder.view(name)["cycle"] == 1
    assert (folder.workspace / "bye.py").exists()
