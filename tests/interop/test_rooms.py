"""In rooms of a relay with the rules of Buzz's: heard at once, every agent speaks, answers stand in the thread."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tenex.nostr.keys import SecretKey, npub
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import Raw, RoomRelay, Rules, room_relay

from .daemons import Daemon, in_process

HELLO = "Create hello.py that prints hello"
AT_ONCE = 1.0
"""Seconds within which a message is to be received."""


@asynccontextmanager
async def opened(
    data: Path, rules: Rules, rooms: int = 1
) -> AsyncIterator[tuple[RoomRelay, Daemon, RoomPerson, list[str]]]:
    """A daemon whose keys are members of rooms, and its owner in them."""
    owner = SecretKey.generate()
    async with room_relay(rules) as relay, in_process(data, relay.url, npub(owner.public)) as daemon:
        made = [relay.make(f"room {number}", owner.public, *daemon.agent_keys) for number in range(rooms)]
        assert daemon.app is not None
        app = daemon.app
        await until(lambda: all(app.rooms.is_read(relay.url, each) for each in made))
        await until(lambda: app.pool.status()[0].received_until is not None)
        async with room_person(relay, owner, *made) as person:
            yield relay, daemon, person, made


async def until(holds: Callable[[], object], within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.02)


async def heard(daemon: Daemon, event_id: str) -> float:
    """Wait until a message is in a journal; the seconds that it took."""
    began = time.monotonic()
    journal = daemon.data / "conversations" / event_id / "journal.jsonl"
    await until(journal.exists)
    return time.monotonic() - began


def tagged(event: Raw, name: str) -> list[list[str]]:
    return [tag for tag in event["tags"] if tag[0] == name]


async def test_a_mention_is_heard_at_once_and_answered_in_its_thread(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as (relay, daemon, owner, (room,)):
        root = await owner.say(room, HELLO, ["p", daemon.project])
        assert await heard(daemon, root) < AT_ONCE
        await daemon.ended(root)
        await until(lambda: len({event["pubkey"] for event in owner.heard}) > 1)
        for answer in owner.heard:
            assert tagged(answer, "e") == [["e", root, "", "reply"]]
            assert tagged(answer, "h") == [["h", room]]
            assert not tagged(answer, "q")
            assert "nostr:nevent" not in answer["content"]
        assert any(["p", owner.key.public] in answer["tags"] for answer in owner.heard)
        assert (daemon.workspace / "hello.py").exists()
        refused = {why for event, accepted, why in relay.answers if not accepted and event["kind"] in (0, 9)}
        assert refused <= {"invalid: event pubkey does not match authenticated identity"}
