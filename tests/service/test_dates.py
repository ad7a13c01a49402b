"""Messages whose dates are odd: expired, dated days back, dated far ahead; live and from a relay's stored events."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import Folder, Process, daemon, of_kind, tags

HOUR, DAY = 3_600, 86_400
OLD_DATE = "dated more than two days ago"


@pytest.fixture
async def keeper() -> AsyncIterator[FaultRelay]:
    """A relay that keeps and serves expired events too."""
    async with FaultRelay() as relay:
        yield relay


@pytest.fixture
def folder(tmp_path: Path, keeper: FaultRelay) -> Folder:
    return Folder(tmp_path / "data", keeper.url)


def note(folder: Folder, text: str, *more: list[str], age: int = 0) -> person.Wire:
    return person.note(folder.owner, text, ["p", folder.project.public], *more, at=int(time.time()) - age)


async def talk(folder: Folder) -> str:
    """Have a short conversation: from then on the daemon receives what is new."""
    name = await folder.write("Hello")
    await folder.until(name, "waiting")
    return name


async def notices(folder: Folder) -> list[person.Wire]:
    return [event for event in await folder.sent() if OLD_DATE in event["content"]]


async def noticed(folder: Folder) -> list[person.Wire]:
    """The notices, once the relay has one: it is sent beside what else is done."""
    async with asyncio.timeout(60):
        while not await notices(folder):
            await asyncio.sleep(0.05)
    return await notices(folder)


async def verdict(process: Process, event: person.Wire) -> str:
    """What the inbox made of an event, once it has it."""

    def found() -> str | None:
        logs = [log for log in process.logs if log["event"] == "message.received"]
        return next((log["verdict"] for log in logs if log["event_id"] == event["id"]), None)

    verdict: str = await person.until(found)
    return verdict


async def test_an_expired_note_is_ignored_live_and_from_history_and_a_malformed_date_is_none(folder: Folder) -> None:
    now = int(time.time())
    async with daemon(folder):
        await talk(folder)
    stored = note(folder, "Create old.py that prints old", ["expiration", str(now - 5)], age=60)
    await person.publish(folder.url, stored)
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        assert await verdict(process, stored) == "expired"
        live = [
            note(folder, "Create past.py that prints past", ["expiration", str(now - HOUR)]),
            note(folder, "Create twice.py that prints it", ["expiration", str(now + DAY)], ["expiration", "1"]),
        ]
        for event in live:
            await person.publish(folder.url, event)
            assert await verdict(process, event) == "expired"
        odd = ["", "soon", "-1", "1.5", "9" * 400, "١", f" {now - HOUR}"]
        values = (["expiration", value] for value in odd)
        valid = note(folder, "Create new.py that prints new", ["expiration"], *values, ["expiration", str(now + DAY)])
        await person.publish(folder.url, valid)
        await folder.until(str(valid["id"]), "ended")
    assert not {event["id"] for event in (stored, *live)} & {*folder.names}
    assert [path.name for path in folder.workspace.iterdir()] == ["new.py"]


async def test_a_live_note_dated_days_back_is_answered_once_with_that_reason(folder: Folder) -> None:
    """Also over a restart, and whatever thread the others are written in."""
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        thread = await talk(folder)
        old = [note(folder, f"Create {name}.py that prints {name}", age=3 * DAY) for name in "ab"]
        late = note(folder, "/status", ["e", thread, folder.url, "root"], age=4 * DAY)
        for event in (*old, late):
            await person.publish(folder.url, event)
            assert await verdict(process, event) == "too_old"
        await talk(folder)
        (notice,) = await noticed(folder)
        assert (tags(notice)["e"], tags(notice)["error"]) == (old[0]["id"], "date")
        assert abs(notice["created_at"] - time.time()) < HOUR
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        await talk(folder)
        again = note(folder, "Create c.py that prints c", age=5 * DAY)
        await person.publish(folder.url, again)
        assert await verdict(process, again) == "too_old"
        await talk(folder)
        assert await notices(folder) == [notice]
    assert not list(folder.workspace.iterdir())
    assert len(folder.names) == 4


async def test_an_old_note_that_a_relay_had_stored_gets_no_answer(folder: Folder, keeper: FaultRelay) -> None:
    """Some relays send stored events where only new ones are asked for."""

    async def serve(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        bare = [{name: value for name, value in wanted.items() if name != "limit"} for wanted in filters]
        await keeper.serve_stored(peer, sub_id, bare)

    keeper.on_req = serve
    async with daemon(folder):
        pass  # it was here: what is stored from before is no news
    old = note(folder, "Create a.py that prints a", age=6 * DAY)
    await person.publish(folder.url, old)
    async with daemon(folder, TENEX_LOG__LEVEL="debug") as process:
        assert await verdict(process, old) == "too_old"
        await talk(folder)
        assert await notices(folder) == []


async def test_a_note_dated_far_ahead_is_carried_out_and_its_answer_dated_now(folder: Folder) -> None:
    async with daemon(folder):
        await talk(folder)
        ahead = note(folder, "Create a.py that prints a", age=-30 * DAY)
        await person.publish(folder.url, ahead)
        await folder.until(str(ahead["id"]), "ended")
        answers = await folder.sent()
        assert answers
        assert all(abs(answer["created_at"] - time.time()) < HOUR for answer in answers)
    assert of_kind(folder.records(str(ahead["id"])), r.MessageRecorded)
    assert [path.name for path in folder.workspace.iterdir()] == ["a.py"]
