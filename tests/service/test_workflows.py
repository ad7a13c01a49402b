"""A workflow over a relay: a mention begins it, its participants follow its rules, its end has the reason."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing
from tenex.workflows.speakers import records as w

from . import person
from .kit import ROOT, Folder, daemon, deaths, of_kind, ordered, tags, tenex, tenex_here
from .moments import APPENDS, Moment

SHIPPED = ROOT / "config" / "workflows"
LINE = """
initial_speaker = "planner"
default_target = { name = "terminate", args = { reason = "done" } }
max_turns = 6

[[transitions]]
when = { name = "from_speaker", args = { agent_id = "planner" } }
then = { name = "agent", args = { agent_id = "executor" } }

[[transitions]]
when = { name = "from_speaker", args = { agent_id = "executor" } }
then = { name = "agent", args = { agent_id = "security-expert" } }

[workflow]
name = "Line"
participants = ["planner", "executor", "security-expert"]
"""
REQUEST = "Create hello.py that prints hello"


@pytest.fixture
def folder(tmp_path: Path, relay: str) -> Folder:
    """A data folder with the workflow `line` of three offline agents."""
    made = Folder(tmp_path / "data", relay)
    made.put("line.toml", LINE)
    return made


def speakers(folder: Folder, name: str) -> list[str]:
    return [record.speaker for record in of_kind(folder.records(name), w.RoundClosed)]


async def test_a_mention_begins_it_and_every_message_and_the_end_are_delivered(folder: Folder) -> None:
    async with daemon(folder):
        name = await folder.begin(REQUEST, "line")
        await folder.until(name, "ended")
        events = await folder.replies(name)
        profiles = await person.stored(folder.url, kinds=[0], authors=[folder.key_of("line")])
    ring = KeyRing(folder.data / "keys")
    slugs = ("planner", "executor", "security-expert", "line")
    assert [event["pubkey"] for event in events] == [ring.get(slug).public for slug in slugs]
    assert all(tags(event)["workflow"] == "line" and "phase" not in tags(event) for event in events)
    assert [tags(event).get("close-reason") for event in events] == [None, None, None, "done"]
    assert json.loads(profiles[0]["content"])["name"] == "Line"
    assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'
    view = folder.view(name)["workflow"]
    assert (view["name"], view["next"], view["turnCount"], view["closeReason"]) == ("line", None, 3, "done")
    for words in (["verify"], ["stats"], ["show", name], ["replay", name]):
        assert await folder.facts("conversations", *words)
    code, out, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
    assert code == 0
    assert "turn-2 · line" in out
    code, out, _ = await tenex_here("conversations", "replay", name, "--data", folder.data)
    assert (code, "  Line: ended, done\n" in out) == (0, True), out


@pytest.mark.parametrize(
    ("moment", "at"),
    deaths([("tool done", 2)], (APPENDS, 8), (["model"], 5), (["tool", "tool done", "publish", "published"], 2)),
)
async def test_a_killed_daemon_goes_on_with_the_round_and_repeats_nothing(
    folder: Folder, moment: Moment, at: int
) -> None:
    async with ordered(folder, moment, at) as first:
        name = await folder.begin(REQUEST, "line")
        assert await first.ended() == -signal.SIGKILL, first.stderr
    async with ordered(folder):
        await folder.until(name, "ended")
        events = await folder.replies(name)
    assert speakers(folder, name) == ["planner", "executor", "security-expert"]
    assert len(events) == len({(event["pubkey"], event["content"]) for event in events}) == 4
    assert len(of_kind(folder.records(name), w.WorkflowClosed)) == 1
    changes = [key for key, tool, _ in folder.executions() if tool == "write_file"]
    assert len(set(changes)) == 1, "the round went on: its call was not made again"


async def test_a_workflow_with_a_fault_is_disabled_and_the_others_go_on(folder: Folder) -> None:
    folder.put("broken.toml", LINE.replace("executor", "ghost"))
    folder.put("twice.toml", LINE.replace("[workflow]", '[[transitions]]\nwhen = { name = "always" }\n[workflow]'))
    async with daemon(folder) as process:
        disabled = await process.until("workflow.disabled")
        assert disabled["workflow"] == "broken"
        refused = await folder.begin(REQUEST, "broken")
        also = await folder.write("@twice please begin")
        used = await folder.begin(REQUEST, "line")
        for name in (refused, also, used):
            await folder.until(name, "ended")
        (sent,) = await folder.replies(refused)
        assert sent["content"].startswith("The workflow broken is disabled: ")
        assert "broken.toml: ghost takes part, and is no agent here." in sent["content"]
        assert str(folder.data) not in sent["content"], "paths are for the operator only"
        assert tags(sent)["error"] == "workflow"
        (sent,) = await folder.replies(also)
        assert "twice.toml: transitions[2].then must be a target" in sent["content"]
        assert speakers(folder, used) == ["planner", "executor", "security-expert"]
        code, out, _ = await tenex_here("status", "--data", folder.data)
        assert "the workflow broken is disabled" in out
        code, out, _ = await tenex_here("graph", "check", "--data", folder.data)
        assert code == 3
        assert out.startswith("line  planner, executor, security-expert")
        code, out, _ = await tenex_here("doctor", "--data", folder.data)
        assert (code, "the workflow broken is disabled: ghost takes part" in " ".join(out.split())) == (3, True), out
        folder.put("line.toml", LINE.replace("executor", "ghost"))
        process.signal(signal.SIGHUP)
        refusal = await process.until("configuration.refused")
        assert "line.toml: ghost takes part" in json.dumps(refusal)
        folder.put("line.toml", LINE)
        folder.put("broken.toml", LINE)
        shutil.copy(SHIPPED / "draft-and-review.toml", folder.data / "config" / "workflows")
        await process.reload()
        name = await folder.begin(REQUEST, "broken")
        await folder.until(name, "ended")
        assert speakers(folder, name) == ["planner", "executor", "security-expert"]
        text = "@draft-and-review Create hello.py that prints hello. security-expert sets approved to true"
        name = await folder.write(text)
        await folder.until(name, "ended")
        assert speakers(folder, name) == ["planner", "security-expert", "executor"]
    assert folder.view(name)["workflow"]["closeReason"] == "built"


async def test_a_workflow_is_run_from_a_terminal(tmp_path: Path) -> None:
    words = ("--message", "finish the workflow", "--port", "0", "--data", tmp_path / "data")
    code, out, err = await tenex("graph", "run", str(SHIPPED / "draft-and-review.toml"), *words)
    assert code == 0, err
    assert "has ended: asked" in " ".join(out.split())
