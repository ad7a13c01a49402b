"""Events that a relay sends long after they were written."""

import sqlite3
import time
from contextlib import closing

from tenex.core import records as r

from . import person
from .kit import Folder, daemon, of_kind

DAY = 86_400


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
    assert [record.event_id for record in of_kind(folder.records(name), r.MessageRecorded)] == [again]
    assert not (folder.workspace / "old.py").exists()


async def test_what_was_written_while_the_daemon_was_away_for_long_is_answered(folder: Folder) -> None:
    async with daemon(folder) as process:
        await process.until("relay.connected")
    with closing(sqlite3.connect(folder.data / "conversations" / "index.sqlite")) as index, index:
        index.execute("update cursors set at = at - ?", (10 * DAY * 1000,))
    called = ["p", folder.project.public]
    note = person.note(folder.owner, "Create old.py that prints old", called, at=int(time.time()) - 5 * DAY)
    await person.publish(folder.url, note)
    async with daemon(folder) as process:
        await folder.until(str(note["id"]), "ended")
    assert (folder.workspace / "old.py").exists()
