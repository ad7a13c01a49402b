"""The operator lists and answers what a real daemon asks; without the feature it is asked all the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.nostr.embedded import embedded_relay
from tests.fakes.modelscripts import Team
from tests.kits.daemon_approvals import COMMAND, UNCONFINED, answer, ended, request, runs, times
from tests.kits.mcp_conversations import Scripted, talking
from tests.service.kit import of_kind, tenex_here
from tests.service.loopback import at_work


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


async def test_the_operator_lists_shows_and_answers(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(worker=runs()), UNCONFINED) as (folder, _):
        name = await folder.write("Publish it")
        await request(folder, name)
        (waiting,) = await folder.facts("approvals", "list")
        assert (waiting["conversation"], waiting["asks"]) == (name, COMMAND)
        shown = await folder.facts("approvals", "show", waiting["number"])
        assert shown["calls"][0]["text"] == f"command: {COMMAND}"
        assert await folder.facts("approvals", "yes", waiting["number"]) == {"outcome": "yes", "by": "The operator"}
        assert await ended(folder, name) == "finished"
        assert times(folder) == 1
        assert await folder.facts("approvals", "list") == []


async def test_each_call_of_a_message_has_its_own_answer_by_its_number(tmp_path: Path, relay: str) -> None:
    worker = Team(worker=runs(COMMAND, "echo other >> other.txt"))
    async with at_work(tmp_path, relay, worker, UNCONFINED) as (folder, _):
        name = await folder.write("Publish it")
        await request(folder, name)
        (waiting,) = await folder.facts("approvals", "list")
        first, second = (call["number"] for call in waiting["calls"])
        assert (first, second) == (f"{waiting['number']}.1", f"{waiting['number']}.2")
        await folder.facts("approvals", "no", second, "not", "today,", "please")
        (left,) = await folder.facts("approvals", "list")
        assert [call["asks"] for call in left["calls"]] == [COMMAND]
        code, _, err = await tenex_here("approvals", "yes", second, "--data", folder.data)
        assert (code, f"Nothing waits under the number {second}" in err) == (2, True)
        await answer(folder, await request(folder, name), "1 yes", name)
        assert await ended(folder, name) == "finished"
        assert times(folder) == 1
        assert not (folder.workspace / "other.txt").exists()
        refused, *_ = of_kind(folder.records(name), r.ToolCallRejected)  # later ones are the verifier's
        assert "The operator refused it: not today, please." in refused.sentence


async def test_without_the_feature_a_call_that_asks_is_asked_and_refused_where_none_answers(tmp_path: Path) -> None:
    """The daemon here has no feature at all."""
    data = tmp_path.resolve() / "data"
    workspace = data / "workspace"
    workspace.mkdir(parents=True)
    settings = f"{UNCONFINED}[approvals]\nexpire_after = 1\n"
    async with talking(data, "shell", settings, Scripted(("shell", {"command": COMMAND}))) as talk:
        text = await talk.say("Publish it.", "execute")
    (asked,) = talk.seen.of(r.ApprovalRequested)
    (answered,) = talk.seen.of(r.ApprovalAnswered)
    assert "no answer came within 1 s" in text
    assert [call.line for call in asked.calls] == [COMMAND]
    assert answered.outcome == "expired"
    assert not (workspace / "ran.txt").exists()
