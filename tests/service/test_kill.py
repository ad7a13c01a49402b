"""`kill -9` of the real process, at every kind of moment: the conversation finishes, and nothing happens twice."""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tenex.core import records as r
from tenex.core.records import Record
from tenex.core.work.runs import UNKNOWN
from tenex.workflows.phases import records as p
from tests.fakes.faultrelay import FaultRelay
from tests.programs import needs_bubblewrap, needs_git
from tests.tools.conftest import processes_in, using

from . import person
from .kit import Folder, Process, daemon, deaths, of_kind, ordered
from .moments import APPENDS, CHECKS, Moment
from .oracle import check, survey

REQUEST = "Create hello.py that prints hello"
AGENT = """---
name: {name}
role: takes part in the work
kind: worker
use_when: something is to be built
phases: [[asking, building, stage >= 1], [building, built, stage >= 2]]
state: {{stage: {{type: integer, default: 0}}}}
tools: [read_file, check, {{write_file: {{phases: [building]}}}}]
{more}---
You take part. You are in your phase {{{{ phase }}}}.
"""


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
        assert not second.errors, second.stderr
    await check(folder, name, [death])
    return name


@pytest.mark.parametrize(
    ("moment", "at"),
    deaths(
        # the first message, in and between the steps of an agent, between phases, at a publish
        [("torn append", 2), ("model", 2), ("tool", 2), ("tool done", 2), ("publish", 1), ("published", 1)],
        (APPENDS, 19),
        (["model"], 11),
        (["route"], 1),
        (["tool", "tool done"], 6),
        (["publish", "published"], 2),
    ),
)
async def test_a_killed_daemon_goes_on_where_it_was(folder: Folder, moment: Moment, at: int) -> None:
    await kill_and_go_on(folder, moment, at)
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'


@pytest.mark.parametrize(
    ("moment", "at"),
    deaths(
        [("tool done", 1), ("torn append", 7)],  # in the work of the called agent, and where its end is handed back
        (APPENDS, 17),
        (["model"], 11),
        (["tool", "tool done"], 2),
    ),
)
async def test_agents_with_phases_resume_their_work_and_that_of_a_called_one(
    folder: Folder, moment: Moment, at: int
) -> None:
    agents = folder.data / "agents"
    (agents / "executor.md").write_text(AGENT.format(name="Executor", more="agents: [planner]\n"))
    (agents / "planner.md").write_text(AGENT.format(name="Planner", more=""))
    name = await kill_and_go_on(folder, moment, at, "Build it", "household")
    records = folder.records(name)
    moved = Counter((rec.agent, rec.source, rec.target) for rec in of_kind(records, r.AgentPhaseChanged))
    steps = [("executor", "asking", "building"), ("executor", "building", "built"), ("planner", "asking", "building")]
    assert moved == Counter(steps), "each step is taken once"
    called = of_kind(records, r.RunStarted, lambda record: record.parent is not None)
    assert [record.agent for record in called] == ["planner"]
    answers = of_kind(records, r.ToolCallCompleted, lambda record: record.tool == "ask_planner")
    assert [(record.ok, record.content) for record in answers] == [(True, "planner is done")]
    states = folder.state(name).memory.agent_states
    assert {agent: agent_state.phase for agent, agent_state in states.items()} == {"executor": "built"}
    for agent in ("executor", "planner"):
        assert (folder.workspace / f"{agent}.txt").read_text() == "as it was agreed\n"


@needs_bubblewrap
@needs_git
@pytest.mark.parametrize(
    ("moment", "at"),
    deaths(
        [("inspected", 1), ("check runs", 1), ("checked", 2)],
        (APPENDS, 22),
        (CHECKS[:2], 1),
        (CHECKS[2:], 2),
    ),
)
async def test_a_check_that_was_cut_off_is_run_again_and_one_that_has_ended_is_not(
    folder: Folder, moment: Moment, at: int
) -> None:
    """It fails as before, so it is run on the files as they are and on those of the beginning."""
    folder.edit("", '[checks.exit]\nrun = "sleep 0.4; exit 3"\n')
    name = await kill_and_go_on(folder, moment, at)
    results = [record.result for record in of_kind(folder.records(name), p.CheckEnded)]
    assert [(result.outcome, result.status) for result in results] == [("failed", 3)] * 2
    assert len({result.tree for result in results}) == 2
    (inspected,) = of_kind(folder.records(name), p.WorkInspected)
    assert [result.tree for result in results] == [inspected.inspection.tree, inspected.inspection.base]
    said = [record.text for record in of_kind(folder.records(name), r.MessageSent)]
    assert [text.partition("\n")[0] for text in said].count("Done.") == 1
    assert (using(folder.data / "views"), processes_in(folder.workspace)) == ([], [])
    assert not (folder.data / "views").exists() or not [*(folder.data / "views").iterdir()]


async def test_a_daemon_that_dies_again_and_again_still_arrives(folder: Folder) -> None:
    survived: list[Record] = []
    died_there, lives = folder.marks / "died", 0
    name = await folder.write(REQUEST)
    while folder.state(name).cycle.status != "ended":
        async with ordered(folder, "appended", 7) as process:
            await person.until(lambda: died_there.exists() or folder.state(name).cycle.status == "ended")
            if died_there.exists():
                await died(process)
            else:  # its last appends come while it stops
                assert await process.stop() in (0, -signal.SIGKILL)
        died_there.unlink(missing_ok=True)
        lives += 1
        assert lives < 20, "it does not get on"
        records = folder.records(name)
        assert records[: len(survived)] == survived
        survived = records
    assert lives >= 3
    async with daemon(folder):
        await folder.delivered(name)
    sent = {event.id for record in of_kind(folder.records(name), r.MessageSent) for event in record.events}
    assert {event["id"] for event in await folder.sent()} == sent


MESSAGES = 4
MOST_LIVES = 40
"""It takes about as many as there are messages where the machine is idle."""
MOST_COPIES = 5
"""Of one event: a kill may always come between the relay's OK and the record of it."""


async def test_lives_shorter_than_a_second_journal_what_relays_have_taken_and_read_what_people_write(
    tmp_path: Path,
) -> None:
    dice = Random(3)
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        names: list[str] = []
        lives = 0

        def is_over(name: str) -> bool:
            state = folder.state(name)
            return state.cycle.status in ("waiting", "ended") and not state.delivery.outbox

        while len(names) < MESSAGES or not all(map(is_over, names)):
            lives += 1
            assert lives <= MOST_LIVES, "it does not get on"
            if len(names) < MESSAGES:
                names.append(await folder.write("Hello"))
            async with daemon(folder) as process:
                await asyncio.sleep(dice.uniform(0.0, 0.6))
                await process.die()
        sent = Counter(event["id"] for event in relay.events() if event["pubkey"] != folder.owner.public)
    assert max(sent.values()) <= MOST_COPIES


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
    assert content.strip() in state.memory.recent[-1].text
