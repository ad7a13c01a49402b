"""`tenex acp` in an editor, beside a running daemon: sessions, permissions, cancelling, a killed editor."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from acp.exceptions import RequestError

from tenex.nostr.embedded import embedded_relay
from tests.fakes.modelscripts import Team
from tests.fakes.modelserver import ModelServer, model_server
from tests.kits.daemon_approvals import UNCONFINED, react, request, runs, times
from tests.service.kit import Folder
from tests.service.loopback import folder_with_model, serving
from tests.service.person import until

from .editor import editor, gathered

WORK = "Publish it"
AWAY = "ws://127.0.0.1:9"


@asynccontextmanager
async def at_work(tmp_path: Path) -> AsyncIterator[tuple[Folder, ModelServer]]:
    """A daemon whose agent asks to run a command, with a folder that an editor can open."""
    async with embedded_relay() as url, model_server(Team(worker=runs())) as server:
        folder = folder_with_model(tmp_path / "data", url, server, UNCONFINED)
        async with serving(folder, server):
            yield folder, server


async def test_a_session_is_a_conversation_and_a_yes_of_the_editor_runs_the_command_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _):
        async with editor(folder, "yes") as person:
            session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id
            await person.until(lambda shown: shown.of("available_commands_update"))
            names = [each["name"] for each in person.of("available_commands_update")[0]["availableCommands"]]
            assert {"stop", "undo", "status"} <= set(names)
            assert await person.prompt(session, WORK) == "end_turn"
            assert times(folder) == 1
            ((asked, kinds),) = person.asked
            assert (kinds[0], kinds[-1]) == ("allow_once", "reject_once")
            started = {update["toolCallId"]: update for update in person.of("tool_call")}
            assert started[asked.tool_call_id]["kind"] == "execute"
            ends = {update["toolCallId"]: update.get("status") for update in person.of("tool_call_update")}
            assert ends[asked.tool_call_id] == "completed"
            assert "It is done." in person.said()
            assert person.said("user_message_chunk") == "", "an editor shows by itself what it has sent"
            (name,) = folder.names

            assert await person.prompt(session, "/status") == "end_turn"
            assert folder.names == [name]

        assert person.code == 0

        async with editor(folder) as later:
            (listed,) = (await later.agent.list_sessions()).sessions
            assert (listed.session_id, listed.cwd) == (name, str(folder.workspace))
            await later.agent.load_session(cwd=str(folder.workspace), session_id=session)
            assert later.said("user_message_chunk").startswith(WORK)
            assert "It is done." in later.said()
            assert await later.prompt(session, "/help") == "end_turn"
            assert "/undo" in later.said()
    assert folder.names == [name]


async def test_a_relay_that_is_away_holds_no_turn_up(tmp_path: Path) -> None:
    """The journal has a message before the relay that is away was given up."""
    async with embedded_relay() as url, model_server(Team(worker=runs())) as server:
        folder = folder_with_model(tmp_path / "data", url, server, UNCONFINED)
        folder.edit(f'"{url}"', f'"{url}", "{AWAY}"')
        async with serving(folder, server), editor(folder, "yes") as person:
            session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id
            assert await person.prompt(session, WORK) == "end_turn"
            assert await person.prompt(session, "/help") == "end_turn"
            assert "/undo" in person.said()
            assert times(folder) == 1
    assert len(folder.names) == 1


async def test_a_no_of_the_editor_refuses(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _), editor(folder, "no") as person:
        session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id
        assert await person.prompt(session, WORK) == "end_turn"
        assert times(folder) == 0


async def test_the_first_answer_counts_also_where_it_comes_from_a_phone(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _), editor(folder) as person:
        session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id

        async def answer_by_phone() -> None:
            await person.until(lambda shown: shown.asked)
            await react(folder, await request(folder, folder.names[0]), "👍")

        ended, _ = await gathered(person.prompt(session, WORK), answer_by_phone())
        assert ended == "end_turn"
        assert times(folder) == 1


async def test_a_cancelled_turn_stops_the_work(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _), editor(folder) as person:
        session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id

        async def cancel() -> None:
            await person.until(lambda shown: shown.asked)
            await person.agent.cancel(session_id=session)
            person.close_dialogs()

        ended, _ = await gathered(person.prompt(session, WORK), cancel())
        assert ended == "cancelled"
        assert times(folder) == 0
        assert not folder.state(folder.names[0]).work.runs


async def test_an_editor_that_is_killed_finds_the_conversation_where_it_has_come_to(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _):
        async with editor(folder) as person:
            session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id

            async def kill() -> None:
                await person.until(lambda shown: shown.asked)
                os.kill(person.pid, signal.SIGKILL)

            ended, _ = await gathered(person.prompt(session, WORK), kill())
            assert isinstance(ended, ConnectionError)
        async with editor(folder, "yes") as later:
            await later.agent.load_session(cwd=str(folder.workspace), session_id=session)
            await until(lambda: times(folder) == 1)
            await later.until(lambda shown: "It is done." in shown.said())
    assert len(folder.names) == 1


async def test_an_editor_that_is_closed_in_mid_work_ends_the_agent_without_a_complaint(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (folder, _):
        async with editor(folder) as person:
            session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id
            waiting = asyncio.create_task(person.prompt(session, WORK))
            await person.until(lambda shown: shown.asked)
        await gathered(waiting)
        assert (person.code, person.complaints) == (0, "")
        assert folder.state(folder.names[0]).approvals.open, "the conversation goes on"


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        async with editor(folder) as person:
            with pytest.raises(RequestError, match=f"work in {folder.workspace}, and the editor has opened /"):
                await person.agent.new_session(cwd="/")
            with pytest.raises(RequestError, match="There is no session nothing"):
                await person.agent.load_session(cwd=str(folder.workspace), session_id="nothing")
            with pytest.raises(RequestError, match="There is no conversation eeeeeeeeeeee"):
                await person.agent.load_session(cwd=str(folder.workspace), session_id="e" * 64)
            session = (await person.agent.new_session(cwd=str(folder.workspace))).session_id
            with pytest.raises(RequestError, match=r"No daemon runs on .* Nothing was sent"):
                await person.prompt(session, WORK)
            assert (await person.agent.list_sessions(cwd="/")).sessions == []
    assert folder.names == []
