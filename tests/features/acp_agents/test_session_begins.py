"""How a session begins: what an agent may be, and what it goes on with."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.features.acp_agents.session_events import CallSeen, Deadlines, Replay
from tenex.features.acp_agents.session_updates import differences
from tests.features.acp_agents.plain_process import HeldClock, faulty


async def test_a_session_is_begun_without_files_and_terminals(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        facts = await agent.begin()
        assert (facts.session_id, facts.program, facts.version, facts.how) == ("s1", "faulty", "1.20.3", "new")
        assert (facts.mode, facts.modes, facts.notes) == ("auto", ("auto", "default", "plan"), ())
        (hello,) = agent.received("initialize")
        assert hello["params"]["protocolVersion"] == 1
        assert hello["params"]["clientCapabilities"] == {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
        }


async def test_text_between_the_messages_is_skipped(tmp_path: Path) -> None:
    async with faulty(tmp_path, "prints") as agent:
        assert (await agent.begin(mode="default")).mode == "default"


@pytest.mark.parametrize(
    ("habit", "begin", "sentence"),
    [
        ("speaks-2", {}, "speaks version 2 of ACP"),
        ("nameless", {"version": "1.20"}, "has version unknown, and its file asks for 1.20"),
        ("prints", {"version": "1.2"}, "has version 1.20.3, and its file asks for 1.2"),
        ("needs-login", {}, "Authentication required; log in"),
        ("prints", {"mode": "careful"}, "has no mode careful; it has auto, default, plan"),
        ("clamps-mode", {"mode": "default"}, "set and cannot be read back: the agent says plan"),
        ("options clamps-mode", {"mode": "default"}, "set and cannot be read back: the agent says plan"),
        ("options", {"model": "huge"}, "has no model huge; it has small, large"),
        ("prints", {"model": "large"}, "does not let a client set its model large"),
    ],
)
async def test_an_agent_that_is_not_as_its_file_says_needs_the_operator(
    habit: str, begin: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, *habit.split(), clock=clock) as agent:
        beginning = asyncio.create_task(agent.begin(**begin))
        if "cannot be read back" in sentence:
            await clock.until_awaited(Deadlines().setting)
            clock.advance(Deadlines().setting)
        with pytest.raises(ModelUnavailable, match=sentence) as raised:
            await beginning
    assert raised.value.needs_operator


async def test_a_mode_that_an_agent_sets_without_saying_so_is_not_believed(tmp_path: Path) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, "mute-mode", clock=clock) as agent:
        beginning = asyncio.create_task(agent.begin(mode="plan"))
        await clock.until_awaited(Deadlines().setting)
        clock.advance(Deadlines().setting)
        with pytest.raises(ModelUnavailable, match="the agent says auto"):
            await beginning


async def test_mode_and_model_are_set_by_options_where_the_agent_has_them(tmp_path: Path) -> None:
    async with faulty(tmp_path, "options") as agent:
        facts = await agent.begin(mode="plan", model="small")
        assert (facts.mode, facts.model, facts.models) == ("plan", "small", ("small", "large"))
        assert [each["params"]["configId"] for each in agent.received("session/set_config_option")] == ["m", "llm"]


async def test_no_answer_ends_at_the_deadline(tmp_path: Path) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, "silent", clock=clock) as agent:
        beginning = asyncio.create_task(agent.begin())
        await clock.until_awaited(60)
        clock.advance(60)
        with pytest.raises(ModelUnavailable, match="has not answered initialize within 60 s") as raised:
            await beginning
    assert not raised.value.needs_operator


async def test_an_agent_that_ends_gives_its_status_and_its_last_words(tmp_path: Path) -> None:
    async with faulty(tmp_path, "dies-at-new") as agent:
        with pytest.raises(
            ModelUnavailable, match="session/new: it ended with status 7: Error: no configuration was found"
        ):
            await agent.begin()


async def test_servers_that_an_agent_cannot_reach_are_not_handed_to_it(tmp_path: Path) -> None:
    servers = [
        {"type": "http", "name": "tenex", "url": "http://127.0.0.1:1/mcp", "headers": []},
        {"name": "files", "command": "/bin/true", "args": [], "env": []},
    ]
    async with faulty(tmp_path, "no-http") as agent:
        facts = await agent.begin(mcp_servers=servers)
        assert facts.notes == ("It takes no MCP servers over HTTP: tenex is not handed to it",)
        assert agent.received("session/new")[0]["params"]["mcpServers"] == servers[1:]


@pytest.mark.parametrize(
    ("habits", "session", "how", "note"),
    [
        ("", "s1", "resumed", ""),
        ("cannot-resume", "s1", "loaded", ""),
        ("cannot-resume replays-late", "s1", "loaded", ""),
        ("cannot-resume cannot-load", "s1", "new", "It cannot go on with a session"),
        ("cannot-resume load-fails", "s1", "new", "session/load failed: Internal error"),
        ("", "s2", "new", "session/resume failed: Internal error: no session"),
        ("accepts-any", "s1", "new", "session/load gave nothing of the session"),
        ("accepts-any has-list", "s1", "resumed", ""),
        ("accepts-any has-list", "s2", "new", "session/load gave nothing of the session"),
    ],
)
async def test_a_session_is_resumed_or_loaded_where_the_agent_has_it(
    habits: str, session: str, how: str, note: str, tmp_path: Path
) -> None:
    async with faulty(tmp_path, *habits.split()) as agent:
        facts = await agent.begin(session=session, mode="default")
        assert (facts.how, facts.session_id) == (how, "s1")
        assert facts.mode == "default", "it is set again, whatever it was before"
        assert len(agent.received("session/new")) == (how == "new")
        assert any(note in each for each in facts.notes) if note else facts.notes == ()
        await agent.prompt(["text", "go on"], ["end"])
        assert [type(event).__name__ for event in await agent.rest()] == ["TextPiece", "PromptEnded"]
        assert agent.session.take_late() == (), "no part of a replay counts as something that the agent does"


async def test_a_replay_is_kept_apart_and_compared(tmp_path: Path) -> None:
    async with faulty(tmp_path, "cannot-resume") as agent:
        replay = (await agent.begin(session="s1")).replay
    assert (replay.prompts, replay.texts) == (("Fix it",), ("It is fixed.",))
    assert replay.calls == (CallSeen(id="old", title="make", status="in_progress"),)
    assert differences(replay, {"old": "in_progress"}) == ()
    assert differences(replay, {"old": "completed", "lost": "completed"}) == (
        "Call lost is missing in the agent's history.",
        "Call old is in_progress in the agent's history, and completed in the journal.",
    )
    assert differences(replay, {}) == ("Call old (make) is in the agent's history alone.",)
    assert differences(Replay(), {}) == ()
