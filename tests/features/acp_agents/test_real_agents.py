"""Sessions with agents that people have: a yes, a no, a question left open, a kill, and going on after it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.features.acp_agents.session import Session
from tenex.features.acp_agents.session_events import (
    Begin,
    CallSeen,
    Died,
    Event,
    Facts,
    PermissionAsked,
    PromptEnded,
)
from tenex.runtime.clock import SystemClock
from tests.features.acp_agents.plain_process import PlainProcess, text_of
from tests.features.acp_agents.real_agents import CLAUDE, CODEX, OPENCODE, RealAgent
from tests.features.acp_agents.scripted_vendors import Vendors, vendors

PATIENCE = 120.0
"""Seconds for a start or a prompt: such a program takes 700 MB, and several tests run at once."""

AGENTS = [
    pytest.param(CLAUDE, id="claude"),
    pytest.param(OPENCODE, id="opencode"),
    pytest.param(CODEX, id="codex", marks=pytest.mark.soak),
]


class Desk:
    """An agent with a HOME and a workspace that stay from one process to the next."""

    def __init__(self, agent: RealAgent, folder: Path, served: Vendors) -> None:
        self.agent = agent
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.served = served
        self.home.mkdir()
        self.workspace.mkdir()

    @asynccontextmanager
    async def begun(self, session: str = "", *, version: str = "") -> AsyncIterator["Talk"]:
        """A session in a new process, which is killed in the end."""
        environment = self.agent.environment(self.served.url, self.home)
        process = await PlainProcess.start(self.agent.start, environment, self.workspace)
        talk = Talk(process, Session(SystemClock()))
        begin = Begin(
            cwd=str(self.workspace), mode=self.agent.mode, version=version or self.agent.version, session=session
        )
        try:
            async with asyncio.timeout(PATIENCE):
                talk.facts = await talk.session.begin(process, begin)
            yield talk
        finally:
            await talk.session.close(0)

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.workspace.iterdir()}


class Talk:
    """A session, and what it gives."""

    def __init__(self, process: PlainProcess, session: Session) -> None:
        self.process = process
        self.session = session
        self.facts: Facts

    async def until(self, *kinds: type) -> list[Event]:
        """All events up to one of these kinds."""
        async with asyncio.timeout(PATIENCE):
            events = [await self.session.next_event()]
            while not isinstance(events[-1], kinds):
                events.append(await self.session.next_event())
        return events

    async def asks(self, command: str) -> PermissionAsked:
        """The question that comes of a command; the call was seen before."""
        await self.session.prompt(f"Please run the shell command `{command}`.")
        events = await self.until(PermissionAsked, PromptEnded, Died)
        asked = events[-1]
        assert isinstance(asked, PermissionAsked), events
        seen = [event for event in events if isinstance(event, CallSeen)]
        assert seen[-1].id == asked.call.id
        assert asked.call.arguments["command"] == command
        assert seen[-1].arguments.get("command", command) == command, "a full machine may show it before its arguments"
        assert asked.is_usual
        return asked

    async def ends(self) -> tuple[list[Event], PromptEnded]:
        events = await self.until(PromptEnded, Died)
        assert isinstance(events[-1], PromptEnded), events
        return events, events[-1]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.timeout(600)
async def test_an_agent_asks_is_answered_cancelled_killed_and_resumed(agent: RealAgent, tmp_path: Path) -> None:
    agent.install()
    async with vendors(agent.script) as served:
        desk = Desk(agent, tmp_path, served)
        async with desk.begun() as talk:
            facts = talk.facts
            assert (facts.how, facts.mode) == ("new", agent.mode)

            asked = await talk.asks("touch allowed")
            assert desk.files == set()
            assert await talk.session.allow(asked)
            events, end = await talk.ends()
            assert end.stop_reason == "end_turn"
            assert [event.status for event in events if isinstance(event, CallSeen)][-1] == "completed"
            assert text_of(events).startswith("It gave: ")
            assert desk.files == {"allowed"}

            assert await talk.session.refuse(await talk.asks("touch refused"))
            events, end = await talk.ends()
            assert [event.status for event in events if isinstance(event, CallSeen)][-1] == "failed"
            assert bool(text_of(events)) == agent.goes_on_after_no

            asked = await talk.asks("touch left-open")
            assert await talk.session.cancel()
            _, end = await talk.ends()
            assert end.stop_reason == "cancelled"
            assert not await talk.session.allow(asked)

            assert await talk.session.allow(await talk.asks("touch allowed-later"))
            await talk.ends()
            assert desk.files == {"allowed", "allowed-later"}

            await talk.asks("touch killed")
            talk.process.kill()
            await talk.until(Died)

        async with desk.begun(facts.session_id) as talk:
            assert (talk.facts.how, talk.facts.mode, talk.facts.session_id) == ("resumed", agent.mode, facts.session_id)
            assert await talk.session.allow(await talk.asks("touch resumed"))
            await talk.ends()
        assert desk.files == {"allowed", "allowed-later", "resumed"}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.timeout(600)
async def test_an_agent_of_another_version_or_with_an_unknown_session(agent: RealAgent, tmp_path: Path) -> None:
    agent.install()
    async with vendors(agent.script) as served:
        desk = Desk(agent, tmp_path, served)
        with pytest.raises(ModelUnavailable, match=f"has version {agent.version}"):
            async with desk.begun(version="9.9"):
                pass
        async with desk.begun("01900000-0000-7000-8000-000000000000") as talk:
            assert talk.facts.how == "new"
            assert talk.facts.notes[-1].endswith("is not continued; this one is new")
