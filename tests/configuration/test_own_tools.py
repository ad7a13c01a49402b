"""A tool, a command and a skill of the operator's own, in a daemon: used, reloaded, removed, and left out if faulty."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import ConfigurationError
from tenex.core.ids import ConversationId
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing
from tenex.operations.configuration_check import check_configuration
from tenex.operations.doctor import configuration as doctor
from tenex.operations.doctor.findings import Level
from tenex.operations.grants import grants_of
from tenex.operations.prompt_preview import preview
from tenex.settings import Settings, load
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.fakes.python_agents import Answer, ScriptedModel, calls, results, script
from tests.operations.doctor_kit import case_of
from tests.service import person

COUNT = '''
from tenex.plugins import ToolContext, tool

@tool(access="read")
def word_count(context: ToolContext, path: str) -> int:
    """Count the words of a file.

    Args:
        path: in the workspace.
    """
    return len((context.workspace / path).read_text().split())
'''
SETTINGS = """
[conversations]
agent = "executor"
[tools]
add = ["word_count"]
[tools.shell]
sandbox = "none"
[tools.agents.executor]
add = ["lines"]
[tools.commands.lines]
run = ["python3", "-c", "import sys; print(len(open(sys.argv[1]).readlines()), 'lines')", "{path}"]
description = "Counts the lines of a file."
access = "run"
approve = "never"
"""
SKILL = "---\nname: poems\ndescription: Use it for poems.\n---\nCount words and lines of a poem.\n"
POEM = "Roses are red,\nviolets are blue.\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a tool, a command and a skill."""
    folder = tmp_path / "data"
    prepare(folder, None, ["ws://127.0.0.1:1"])
    for name in ("tools", "skills/poems"):
        (folder / name).mkdir(parents=True)
    (folder / "tools" / "word_count.py").write_text(COUNT)
    (folder / "skills" / "poems" / "SKILL.md").write_text(SKILL)
    (folder / "workspace").mkdir(exist_ok=True)
    (folder / "workspace" / "poem.txt").write_text(POEM)
    file = folder / "tenex.toml"
    file.write_text(file.read_text() + SETTINGS)
    return folder


def settings_of(data: Path, url: str = "ws://127.0.0.1:1") -> Settings:
    return load(None, data, env={}, overrides={"relays": {"urls": [url]}})


@asynccontextmanager
async def serving(data: Path, answer: Answer, url: str) -> AsyncIterator[tuple[Application, ScriptedModel]]:
    """A daemon on the folder in this process, whose agent answers so."""
    model = ScriptedModel(answer)
    async with open_application(settings_of(data, url), model=model) as app, app.serving():
        await app.pool.listening("addressed", 10)
        yield app, model


async def write(data: Path, url: str, text: str, to: str = "") -> str:
    ring = KeyRing(data / "keys")
    tags = [["e", to, url, "root"]] if to else []
    note = person.note(ring.get("owner"), text, *tags, ["p", ring.get("project").public])
    await person.publish(url, note)
    return str(note["id"])


def stored(data: Path, name: str) -> list[r.Record]:
    journal = data / "conversations" / name / "journal.jsonl"
    return peek(journal, CONVERSATION) if journal.exists() else []


def at_rest(data: Path, name: str, turns: int) -> Conversation | None:
    """The conversation once so many turns are closed, nothing runs and all is sent."""
    state = fold(ConversationId(name), stored(data, name))
    is_done = len(state.cycle.turns) >= turns and state.work.turn is None and not state.delivery.outbox
    return state if is_done else None


USES_ALL = script(
    calls("read_skill", name="poems"),
    calls("word_count", path="poem.txt"),
    calls("lines", path="poem.txt"),
    "Six words in two lines.",
)


async def test_an_agent_uses_a_tool_a_command_and_a_skill_and_their_journal_replays_without_them(data: Path) -> None:
    async with embedded_relay() as url:
        async with serving(data, USES_ALL, url) as (app, model):
            name = await write(data, url, "Count the poem")
            await person.until(partial(at_rest, data, name, 1))
            shown = results(model.asked[-1])
            assert [(one.tool, one.ok) for one in shown] == [
                ("read_skill", True),
                ("word_count", True),
                ("lines", True),
            ]
            assert "Count words and lines of a poem." in shown[0].content
            assert shown[1].content == "6"
            assert "2 lines" in shown[2].content
            first = model.asked[0]
            assert "- `poems`: Use it for poems." in first.system
            (count,) = [tool for tool in first.tools if tool.name == "word_count"]
            assert count.parameters["properties"]["path"]["description"] == "in the workspace."
            roster = app.policy.roster
            assert {slug for slug, agent in roster.items() if "lines" in agent.tools} == {"executor"}
            assert all("word_count" in agent.tools for agent in roster.values())
            before = fold(ConversationId(name), stored(data, name))
        for path in ("tools/word_count.py", "skills/poems/SKILL.md"):
            (data / path).unlink()
        file = data / "tenex.toml"
        file.write_text(file.read_text().partition("[tools.agents.executor]")[0])
        assert fold(ConversationId(name), stored(data, name)) == before
        async with serving(data, script(calls("word_count", path="poem.txt"), "It is gone."), url) as (app, model):
            (left,) = app.current.now.own_tools.report()
            assert left["source"] == "tools.add"
            assert "there is no tool 'word_count'" in left["faults"][0]
            await write(data, url, "Again", to=name)
            await person.until(partial(at_rest, data, name, 2))
            assert "There is no tool word_count." in results(model.asked[-1])[-1].content
            assert "# Skills" not in model.asked[0].system
            assert "read_skill" not in {tool.name for tool in model.asked[0].tools}
    faults, _ = check_configuration(settings_of(data))
    assert [fault for fault in faults if fault.startswith("tools.add: there is no tool 'word_count'")]


async def test_a_run_that_waits_while_its_tool_is_removed_gets_a_refusal(data: Path) -> None:
    answer = script(calls("ask", question="Which file?"), calls("word_count", path="poem.txt"), "I cannot count.")
    async with embedded_relay() as url, serving(data, answer, url) as (app, model):
        name = await write(data, url, "Count a file")
        await person.until(lambda: fold(ConversationId(name), stored(data, name)).work.asks)
        (data / "tools" / "word_count.py").unlink()
        await app.reload()
        await write(data, url, "poem.txt", to=name)
        await person.until(partial(at_rest, data, name, 1))
        last = results(model.asked[-1])[-1]
        assert (last.tool, last.ok) == ("word_count", False)
        assert "There is no tool word_count." in last.content


async def test_a_reload_reads_a_tool_again_and_a_call_ends_with_what_it_began(data: Path) -> None:
    async with (
        embedded_relay() as url,
        serving(data, script(calls("word_count", path="poem.txt"), "Counted."), url) as (
            app,
            model,
        ),
    ):
        for text, counted in ((COUNT, "6"), (COUNT.replace("return len(", "return 100 + len("), "106")):
            (data / "tools" / "word_count.py").write_text(text)
            assert await app.reload() == []
            name = await write(data, url, "Count the poem")
            await person.until(partial(at_rest, data, name, 1))
            assert results(model.asked[-1])[-1].content == counted


async def test_what_is_faulty_is_left_out_and_named_by_check_and_doctor(data: Path) -> None:
    tools, file = data / "tools", data / "tenex.toml"
    (tools / "broken.py").write_text(COUNT.replace("word_count", "broken") + "\n1 / 0\n")
    (tools / "unused.py").write_text(COUNT.replace("word_count", "unused"))
    (tools / "read_file.py").write_text(COUNT.replace("word_count", "read_file"))
    (tools / "other.py").write_text(COUNT.replace("word_count", "twice"))
    (data / "skills" / "bad").mkdir()
    (data / "skills" / "bad" / "SKILL.md").write_text("no front matter")
    more = '[tools.agents.unknown]\nadd = ["nothing"]\n'
    more += '[tools.commands.twice]\nrun = ["a"]\ndescription = "d"\naccess = "run"\n'
    more += '[tools.commands.shell]\nrun = ["a", "{what}"]\ndescription = "d"\naccess = "run"\n'
    more += '[plugins]\nallow = ["no-such-package"]\n'
    file.write_text(file.read_text().replace('add = ["word_count"]', 'add = ["word_count", "broken"]') + more)
    settings = settings_of(data)
    faults, remarks = check_configuration(settings)
    text = "\n".join(faults)
    for wanted in (
        f"{tools / 'broken.py'}: it failed while it was loaded: line 13: ZeroDivisionError",
        f"{tools / 'read_file.py'}: the tool read_file has the name of a tool of the daemon's.",
        f"{tools / 'other.py'}: the tool twice has the name of the command tools.commands.twice.",
        "tools.commands.twice: a plugin claims this name too, and neither is used.",
        "tools.commands.shell: this is the name of a tool of the daemon's; choose another.",
        "tools.commands.shell: {what} has no type; write {what:word}",
        "plugins.allow no-such-package: no package of this name is installed here.",
        "tools.agents.unknown.add: there is no tool 'nothing'",
        "tools.agents.unknown: there is no such agent",
    ):
        assert wanted in text
    noted = "\n".join(remarks)
    assert f"{data / 'skills/bad/SKILL.md'}: there is no front matter" in noted
    assert f"{tools / 'unused.py'}: no agent has the tool unused; add it to `tools.add`" in noted
    findings = [*doctor.configuration(case_of(data))]
    assert any(one.level is Level.FAULT and "ZeroDivisionError" in one.message for one in findings)
    brings = [one for one in findings if one.level is Level.OK and "all rights of the daemon" in one.message]
    assert {Path(one.location).name for one in brings} == {"broken.py", "unused.py", "word_count.py"}
    async with embedded_relay() as url, serving(data, USES_ALL, url) as (app, _):
        report = {one["source"]: one for one in app.current.now.own_tools.report()}
        assert report[str(tools / "word_count.py")] == {
            "source": str(tools / "word_count.py"),
            "tools": ["word_count"],
            "faults": [],
        }
        assert "ZeroDivisionError" in report[str(tools / "broken.py")]["faults"][0]
        assert report[str(tools / "broken.py")]["tools"] == []
        name = await write(data, url, "Count the poem")
        await person.until(partial(at_rest, data, name, 1))


async def test_a_prompt_without_own_tools_is_as_before_and_a_preview_shows_what_is_added(
    data: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    (bare / "workspace").mkdir(parents=True)
    before = await preview(load(None, bare, env={}), "planner")
    (bare / "skills").mkdir()
    (bare / "tools").mkdir()
    (bare / "tools" / "word_count.py").write_text(COUNT)
    same = await preview(load(None, bare, env={}), "planner")
    assert same.request.system == before.request.system
    assert same.request.tools == before.request.tools
    shown = await preview(settings_of(data), "planner")
    added = {tool.name for tool in shown.request.tools} - {tool.name for tool in before.request.tools}
    assert {"word_count", "read_skill"} <= added
    assert "lines" not in added


def test_agents_of_files_may_name_own_tools_and_no_method_may_take_their_name(data: Path) -> None:
    (data / "agents").mkdir(exist_ok=True)
    helper = "---\nname: H\nrole: helps\nkind: worker\nuse_when: always\ntools: [word_count, lines]\n---\nYou help.\n"
    (data / "agents" / "helper.md").write_text(helper)
    python = "from tenex import BaseAgent, tool\n\nclass Spy(BaseAgent):\n    'Spies.'\n"
    python += "    __system_message__ = 'You spy.'\n    @tool('Counts')\n    def word_count(self) -> str: ...\n"
    (data / "agents" / "spy.py").write_text(python)
    faults, _ = check_configuration(settings_of(data))
    (fault,) = faults
    assert "word_count is a tool of the daemon's. Call the method by another name." in fault


def test_a_folder_that_is_not_trusted_lists_its_tools_and_packages(data: Path) -> None:
    file = data / "tenex.toml"
    file.write_text(file.read_text() + '[plugins]\nallow = ["word-count"]\n')
    code = grants_of(settings_of(data))["agents and code"]
    assert {"tools/word_count.py", "skills/poems/SKILL.md", "package word-count (plugins.allow)"} <= set(code)


def test_the_folder_of_tools_is_not_in_the_workspace(data: Path) -> None:
    settings = load(None, data, env={}, overrides={"paths": {"tools": "workspace/tools"}})
    faults, _ = check_configuration(settings)
    assert any("contains the tools folder" in fault for fault in faults)
    with pytest.raises(ConfigurationError):
        load(None, data, env={}, overrides={"tools": {"commands": {"a": {"run": ["b"], "description": "c"}}}})
