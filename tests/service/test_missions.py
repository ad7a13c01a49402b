"""A mission over a relay: a mention begins it, it reports with its own key where it is, and it survives kills."""

import json
import re
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.workflows.agents.definition import blueprint
from tenex.workflows.agents.loading import agents_of
from tenex.workflows.missions import records as m
from tenex.workflows.missions.state import Mission, mission_of
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server
from tests.workflows.mission_kit import competition

from . import person
from .kit import ROOT, Folder, daemon, deaths, of_kind, ordered, tags, tenex, tenex_here
from .loopback import MODEL, folder_with_model, serving, settled
from .moments import APPENDS, Moment

WORKFLOWS = ROOT / "config" / "workflows"
TALLY = '''"""Writes lines, one a step, each when it is let."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tenex.workflows.missions import BaseNode, Dependency, End, Graph, GraphRunContext


class Tally(BaseModel):
    words: str
    lines: int = 3
    waits: bool = False
    written: int = 0


@dataclass
class Write(BaseNode[Tally, None, int]):
    workspace: Dependency[Path]

    async def run(self, ctx: GraphRunContext[Tally, Path]) -> "Rest":
        for number in range(ctx.state.lines):
            ctx.state.written += 1
            await ctx.step("write", self.write, ctx.state, number, replay="idempotent")
        return Rest()

    async def write(self, state: Tally, number: int, idempotency_key: str) -> None:
        """One line for each key, whatever happens; `runs` has a line for each try."""
        with (self.workspace / "runs").open("a") as runs:
            runs.write(f"{idempotency_key}\\n")
        while state.waits and not (self.workspace / f"go-{number}").exists():
            await asyncio.sleep(0.01)
        done = self.workspace / "done"
        known = done.read_text() if done.exists() else ""
        if idempotency_key not in known:
            done.write_text(f"{known}{number} {state.words} {idempotency_key}\\n")


@dataclass
class Rest(BaseNode[Tally, None, int]):
    async def run(self, ctx: GraphRunContext[Tally, Path]) -> End[int]:
        return End(ctx.state.written)


@dataclass
class Given:
    workspace: Path


graph = Graph(nodes=(Write, Rest), state_type=Tally)


def deps(workspace: Path) -> Given:
    return Given(workspace)
'''


@pytest.fixture
def folder(tmp_path: Path, relay: str) -> Folder:
    """A data folder with a mission that writes lines."""
    made = Folder(tmp_path / "data", relay)
    made.put("tally.py", TALLY)
    return made


def lines(folder: Folder) -> list[str]:
    """What the mission's effects have left: a number and the words, for each key once."""
    done = (folder.workspace / "done").read_text().splitlines()
    assert max(Counter(line.rpartition(" ")[2] for line in done).values()) == 1
    return [line.rpartition(" ")[0] for line in done]


async def test_1_4_a_mention_begins_a_mission_that_reports_phases_and_result(folder: Folder) -> None:
    shutil.copy(WORKFLOWS / "mission.py", folder.data / "config" / "workflows")
    shutil.copy(WORKFLOWS / "draft-and-review.toml", folder.data / "config" / "workflows")
    competition(folder.workspace)
    async with daemon(folder):
        beside = await folder.write("@draft-and-review finish the workflow")
        name = await folder.begin("curve", "mission")
        other = await folder.write("@tally two words")
        wrong = await folder.write('@tally {"words": "a", "lines": "many"}')
        for one in (name, other, wrong, beside):
            await folder.until(one, "ended")
        await folder.write("And now?", to=name)
        await person.until(lambda: len(of_kind(folder.records(name), r.Ended)) == 2)
        events = await folder.replies(name)
        profiles = await person.stored(folder.url, kinds=[0], authors=[folder.key_of("mission")])
    assert {event["pubkey"] for event in events} == {folder.key_of("mission")}
    assert all(tags(event)["workflow"] == "mission" and "phase" not in tags(event) for event in events)
    sent = [event["content"] for event in events]
    assert sent[:2] == ["Now in discovery", "Now in research: competitions found"]
    assert sent[5].startswith("The mission has ended. Its result:\n- success: yes\n- mission id: ")
    assert [tags(event).get("close-reason") for event in events] == [*[None] * 5, "finished", None]
    assert "mention @mission in a new note" in sent[6]
    assert json.loads(profiles[0]["content"])["about"].endswith("hand it in. It is a program, not a person.")
    assert len(list((folder.workspace / "submissions").iterdir())) == 1
    assert lines(folder) == ["0 two words", "1 two words", "2 two words"]
    assert "`lines`: input should be a valid integer" in (await folder.replies(wrong))[0]["content"]
    assert folder.view(beside)["workflow"]["closeReason"] == "asked"
    # what each command shows of the mission
    out: dict[str, Any] = {}
    for words in (["verify"], ["stats", name], ["show", name], ["replay", name], ["search", "success"]):
        out[words[0]] = await folder.facts("conversations", *words)
    assert out["stats"]["missions"] == {"nodes": 5, "steps": 10, "stepFailures": 0}
    assert (out["show"]["mission"]["outcome"], out["show"]["mission"]["node"]) == ("finished", "SubmissionNode")
    assert (out["replay"]["mission"]["state"], out["replay"]["pending"]) == ("finished", [])
    assert [one["id"] for one in out["search"]] == [name]
    _, text, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
    assert "mission · ResearchNode" in text
    assert "EvolutionNode · vary#2" in text


@pytest.mark.parametrize(("moment", "at"), deaths([("torn append", 4)], (APPENDS, 9), (["publish", "published"], 3)))
async def test_a_killed_daemon_goes_on_with_the_node_and_repeats_nothing(
    folder: Folder, moment: Moment, at: int
) -> None:
    async with ordered(folder, moment, at) as first:
        name = await folder.begin("x", "tally")
        assert await first.ended() == -signal.SIGKILL, first.stderr
    durable = {step.step for step in of_kind(folder.records(name), m.StepCompleted)}
    ran = runs(folder)
    async with ordered(folder):
        ended = of(await folder.until(name, "ended"))
        sent = [event["content"] for event in await folder.replies(name)]
    assert lines(folder) == ["0 x", "1 x", "2 x"]
    assert len(runs(folder)) - len(ran) == 3 - len(durable), "what had returned did not run again"
    assert (ended.outcome, ended.result, ended.state["written"]) == ("finished", 3, 3)
    assert sent == ["Now in write", "Now in rest", "The mission tally has ended. Its result: 3"]


def runs(folder: Folder) -> list[str]:
    """The key of each time an effect was begun."""
    file = folder.workspace / "runs"
    return file.read_text().splitlines() if file.exists() else []


async def test_it_is_paused_stopped_reloaded_gone_back_in_and_branched_off(folder: Folder) -> None:
    async with daemon(folder) as process:
        name = await folder.begin('{"words": "slow", "waits": true}', "tally")
        await person.until(lambda: len(runs(folder)) == 1)
        await folder.write("how far are you?", to=name)
        await folder.write("/pause", to=name)
        await person.until(lambda: of_kind(folder.records(name), m.MissionPauseRequested))
        (folder.workspace / "go-0").touch()
        assert returned(await folder.until(name, "waiting")) == 1
        # a broken file is refused whole; then the node is gone, which holds the mission and drops nothing
        folder.put("tally.py", TALLY.replace("def deps", "def no_deps"))
        process.signal(signal.SIGHUP)
        refused = await process.until("configuration.refused")
        assert "tally.py: its nodes need workspace, and nothing makes them" in json.dumps(refused)
        folder.put("tally.py", TALLY.replace("class Write(", "class Other(").replace("(Write,", "(Other,"))
        await process.reload()
        await folder.write("/continue", to=name)
        await person.until(lambda: "has no node Write any more" in of(folder.state(name)).paused)
        folder.put("tally.py", TALLY)
        await process.reload()
        await folder.write("/continue", to=name)
        await person.until(lambda: len(runs(folder)) == 2)
        await folder.write("/stop", to=name)
        await folder.until(name, "waiting")
        for number in (1, 2):
            (folder.workspace / f"go-{number}").touch()
        await folder.write("/continue", to=name)
        ended = of(await folder.until(name, "ended"))
        assert (ended.outcome, ended.result) == ("finished", 3)
        assert lines(folder) == ["0 slow", "1 slow", "2 slow"]
        sent = " ".join(event["content"] for event in await folder.replies(name))
        for part in ("It does not read what is written here", "It pauses as soon as", "Once the operator has fixed"):
            assert part in sent
        first = of_kind(folder.records(name), m.StepCompleted)[0].seq
        for word, more in (("rollback", ["--yes"]), ("fork", [])):
            there = (await folder.facts("conversations", word, name, "--to", str(first), *more))["id"]
            assert returned(await folder.until(there, "waiting")) == 1
            await folder.write("/continue", to=there)
            assert of(await folder.until(there, "ended")).result == 3
    await folder.facts("conversations", "verify")


def of(state: Conversation) -> Mission:
    mission = mission_of(state)
    assert mission is not None
    return mission


def returned(state: Conversation) -> int:
    """How many steps of the paused mission have returned."""
    assert of(state).is_paused
    return sum(step.ok for step in of(state).steps.values())


async def test_a_mission_is_run_from_a_terminal_and_its_failure_is_an_exit_code(tmp_path: Path) -> None:
    mission = tmp_path / "workflows" / "fails.py"
    mission.parent.mkdir()
    mission.write_text(TALLY.replace("return End(ctx.state.written)", "raise KeyError('x')"))
    words = ("graph", "run", str(mission), "--port", "0", "--data", tmp_path / "data", "--message")
    code, out, error = await tenex(*words, '{"colour": 5}')
    assert (code, "The mission fails cannot begin:" in " ".join(out.split())) == (1, True), error
    code, out, error = await tenex(*words, "y")
    assert code == 1, error
    assert "has failed: Rest: there is no key x. The author of its code" in " ".join(out.split())
    (logged,) = [line for line in (tmp_path / "data" / "tenex.log").read_text().splitlines() if "node.failed" in line]
    assert "KeyError" in json.loads(logged)["exception"]


def example(begins: str) -> str:
    """The code of the documents with that docstring."""
    text = (ROOT / "docs" / "workflows.md").read_text()
    (code,) = re.findall(rf'```python\n("""{re.escape(begins)}.*?)```', text, re.DOTALL)
    return str(code)


def replies(request: Json) -> Answer:
    """The planner plans, the expert approves, the executor writes a file and reports it."""
    asked = Asked(request)
    match asked.agent:
        case "planner":
            return Answer(text="The plan: hello.py prints hello")
        case "security-expert" if not asked.steps:
            return calls(("set_context", {"key": "approved", "value": True}))
        case "security-expert":
            return Answer(text="Approved.")
        case _ if not asked.steps:
            return calls(("write_file", {"path": "hello.py", "content": "print('hello')\n"}))
        case _:
            return Answer(text="It is built.")


async def test_a_node_asks_an_agent_and_a_workflow_by_name(tmp_path: Path, relay: str) -> None:
    """Over a relay and with models over HTTP."""
    async with model_server(replies) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        folder.put("built.py", example("Has an agent plan"))
        shutil.copy(WORKFLOWS / "draft-and-review.toml", folder.data / "config" / "workflows")
        async with serving(folder, server):
            name = await folder.write("@built hello.py")
            await settled(folder, name)
            sent = [event["content"] for event in await folder.replies(name)]
        delivered = server.delivered()
    assert sent[-1].endswith("Its result: It is built. (built)")
    assert (folder.workspace / "hello.py").read_text() == "print('hello')\n"
    agents = [Asked(exchange.request).agent for exchange in delivered]
    assert agents == ["planner", "planner", "security-expert", "security-expert", "executor", "executor"]
    assert "Plan this: hello.py" in Asked(delivered[0].request).words
    spent = of_kind(folder.records(name), m.MissionUsageRecorded)
    assert sum(one.usage.input_tokens for one in spent) == sum(exchange.input_tokens for exchange in delivered)
    assert len([*(folder.data / "conversations").glob("*/journal.jsonl")]) == 2, "the mission's, and the daemon's own"


@pytest.mark.parametrize("by", ["continue", "reload"])
async def test_a_mission_whose_key_is_refused_is_held_and_goes_on_once_the_right_one_was_read(
    tmp_path: Path, relay: str, by: str
) -> None:
    async with model_server(replies) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        folder.put("built.py", example("Has an agent plan"))
        shutil.copy(WORKFLOWS / "draft-and-review.toml", folder.data / "config" / "workflows")
        key = folder.data / "keys" / "local.api-key"
        key.touch(0o600)
        key.write_text("sk-a-wrong-one")
        async with daemon(folder, TENEX_MODELS__DEFAULT=MODEL) as process:
            name = await folder.write("@built hello.py")
            await person.until(lambda: of_kind(folder.records(name), m.NodeRetryScheduled))
            (held,) = [one for one in (await folder.facts("status"))["conversations"]["open"] if one["id"] == name]
            assert (held["kind"], held["mission"]["state"]) == ("held", "held")
            key.write_text(server.key)
            if by == "reload":
                await process.reload()
            else:
                await folder.write("/continue", to=name)
            await settled(folder, name)
            sent = [event["content"] for event in await folder.replies(name)]
    (notice,) = [text for text in sent if "cannot go on" in text]
    assert f"(401, invalid_api_key): it is in {key}; correct it there." in notice
    assert sent[-1].endswith("Its result: It is built. (built)")


def test_the_agent_of_the_documents_is_read_with_its_tools(tmp_path: Path) -> None:
    path = tmp_path / "triage.py"
    path.write_text(example("Sorts tickets"))
    faults: list[str] = []
    (triage,) = agents_of(path, faults, code_refusal="")
    assert not faults
    assert set(blueprint(type(triage.agent)).methods) == {"classify", "dispatch", "close"}
