"""Events that a relay sends late: before or after the root of their thread, or long after they were written."""

import sqlite3
import time
from contextlib import closing

import pytest

from tenex.core import records as r

from . import person
from .kit import Folder, daemon, of_kind

DAY = 86_400


@pytest.mark.parametrize("restarts", [False, True])
async def test_the_first_message_of_a_thread_is_received_after_a_reply_to_it(folder: Folder, *, restarts: bool) -> None:
    called = ["p", folder.project.public]
    root = person.note(folder.owner, "Create hello.py that prints hello", called)
    name = str(root["id"])
    thanks = person.note(folder.owner, "Thank you in advance", ["e", name, folder.url, "root"], called)

    def received() -> list[str]:
        return [record.event_id for record in of_kind(folder.records(name), r.MessageRecorded)]

    async with daemon(folder) as first:
        await person.publish(folder.url, thanks)
        await person.until(lambda: received() == [thanks["id"]] and folder.state(name).status == "waiting")
        if not restarts:
            await person.publish(folder.url, root)
            await person.until(lambda: name in received())
        assert await first.stop() == 0
    async with daemon(folder) as second:
        if restarts:
            await person.publish(folder.url, root)
        await person.until(lambda: folder.state(name).status == "ended" and len(received()) == 2)
        assert await second.stop() == 0
    assert received() == [thanks["id"], name]
    assert (folder.workspace / "hello.py").exists()


async def test_an_old_event_whose_conversation_is_not_here_any_more_starts_nothing(folder: Folder) -> None:
    called = ["p", folder.project.public]
    old = person.note(folder.owner, "Create old.py that prints old", called, at=int(time.time()) - 5 * DAY)
    name = str(old["id"])
    async with daemon(folder) as process:
        await folder.until(await folder.write("Hello"), "waiting")  # from here on it receives what is new
        await person.publish(folder.url, old)
        assert (await process.until("message.too_old"))["event_id"] == name
        assert not folder.conversation(name).exists()
        again = await folder.write("Hello again", to=name)
        await folder.until(name, "waiting")
        assert await process.stop() == 0
    assert [record.event_id for record in of_kind(folder.records(name), r.MessageRecorded)] == [again]
    assert not (folder.workspace / "old.py").exists()


async def test_what_was_written_while_the_daemon_was_away_for_long_is_answered(folder: Folder) -> None:
    async with daemon(folder) as process:
        await process.until("relay.connected")
        assert await process.stop() == 0
    with closing(sqlite3.connect(folder.data / "conversations" / "index.sqlite")) as index, index:
        index.execute("update cursors set at = at - ?", (10 * DAY * 1000,))
    called = ["p", folder.project.public]
    note = person.note(folder.owner, "Create old.py that prints old", called, at=int(time.time()) - 5 * DAY)
    await person.publish(folder.url, note)
    async with daemon(folder) as process:
        await folder.until(str(note["id"]), "ended")
        assert await process.stop() == 0
    assert (folder.workspace / "old.py").exists()
