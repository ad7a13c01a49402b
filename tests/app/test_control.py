"""Requests of the control socket before and after the time in which conversations can be served."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.app import open_application
from tenex.cli.init import prepare
from tenex.core.errors import TenexError
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.service.client import ask
from tenex.settings import load
from tests.cli.journals import ONE, changed, worked, write_conversations

ADDRESS = {"form": "threads", "root": ONE, "root_kind": 11, "relays": [], "scope": [["E", ONE], ["K", "11"]]}
REQUESTS: dict[str, dict[str, Any]] = {
    "rollback": {"id": ONE, "to": 5},
    "fork": {"id": ONE, "to": 5},
    "conversation": {"id": ONE},
    "status": {},
    "reload": {},
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepare(tmp_path / "data", None, [])
    write_conversations(tmp_path / "data", {ONE: changed(worked(ONE), ConversationStarted, address=ADDRESS)})
    return tmp_path / "data"


@pytest.mark.parametrize("word", REQUESTS)
async def test_a_request_that_comes_before_conversations_can_be_served_waits_for_it(data: Path, word: str) -> None:
    async with open_application(load(None, data, env={})) as app:
        asked = asyncio.create_task(ask(app.places.socket, word, **REQUESTS[word]))
        done, _ = await asyncio.wait([asked], timeout=0.1)
        assert not done
        async with app.serving():
            assert isinstance(await asked, dict)
            await app.coordinator.load(ConversationId(ONE))
            actor = next(actor for actor in app.coordinator if actor.id == ONE)
            assert actor.conversation is not None


async def test_a_request_that_comes_after_the_conversations_were_stopped_is_refused(data: Path) -> None:
    async with open_application(load(None, data, env={})) as app, app.serving():
        await app.coordinator.stop()
        with pytest.raises(TenexError, match=r"The daemon is stopping, so nothing was changed .* Try again"):
            await ask(app.places.socket, "rollback", **REQUESTS["rollback"])
        made = await ask(app.places.socket, "fork", **REQUESTS["fork"])
        assert (data / "conversations" / made["id"] / "journal.jsonl").exists()
