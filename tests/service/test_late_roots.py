"""A reply that arrives before the message that begins its thread: both are received, in one conversation."""

import pytest

from tenex.core import records as r

from . import person
from .kit import Folder, daemon, of_kind


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
