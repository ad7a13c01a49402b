"""`kill -9` of a daemon that works in a room, with a connection for each key: nothing is lost, nothing twice."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from tenex.core import records as r
from tests.kits.room_relay import Raw, RoomRelay, room_relay
from tests.service.kit import Folder, deaths, of_kind, ordered
from tests.service.moments import APPENDS, Moment
from tests.service.person import note, until

HELLO = "Create hello.py that prints hello"


def write(relay: RoomRelay, folder: Folder, room: str, text: str) -> str:
    """Have the owner write, by another connection."""
    return relay.write(note(folder.owner, text, ["h", room], ["p", folder.project.public], kind=9))


def answers(relay: RoomRelay, folder: Folder, root: str) -> list[Raw]:
    return [event for event in relay.accepted(9, e=root) if event["pubkey"] in folder.public_keys]


@pytest.mark.parametrize(
    ("moment", "at"),
    deaths(
        [("published", 1), ("tool done", 2)],
        (APPENDS, 19),
        (["model"], 11),
        (["tool", "tool done"], 6),
        (["publish", "published"], 2),
    ),
)
async def test_a_killed_daemon_goes_on_in_the_room(moment: Moment, at: int, tmp_path: Path) -> None:
    async with room_relay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        async with ordered(folder, moment, at) as first:
            work = write(relay, folder, room, HELLO)
            assert await first.ended() == -signal.SIGKILL, first.stderr
        meanwhile = write(relay, folder, room, "/status")
        async with ordered(folder) as second:
            await folder.until(work, "ended")
            for root in (work, meanwhile):
                await until(lambda root=root: answers(relay, folder, root))  # type: ignore[misc]
                await folder.delivered(root)
            assert await second.stop() == 0
            assert not second.errors, second.stderr

        assert (folder.workspace / "hello.py").read_text() == 'print("hello")\n'
        for root in (work, meanwhile):
            sent = [event for record in of_kind(folder.records(root), r.MessageSent) for event in record.events]
            said = answers(relay, folder, root)
            assert Counter(event["id"] for event in said) == Counter(event.id for event in sent)
            assert max(Counter((event["pubkey"], event["content"]) for event in said).values()) == 1
        taken = of_kind(folder.records(work), r.MessageRecorded)
        assert [record.event_id for record in taken] == [work]
