"""Hundreds of strangers who write at once, with `people.open = true`: what they take, and that it can be stopped."""

import asyncio
from pathlib import Path

from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelserver import model_server
from tests.kits.single_agent import ALONE

from . import person
from .kit import Folder
from .loopback import folder_with_model, serving, settled

STRANGERS = 600


def slow(request: Json) -> Answer:
    return Answer(text="Let me see.", delay=1.0)


def notes(folder: Folder) -> list[person.Wire]:
    keys = (SecretKey.generate() for _ in range(STRANGERS))
    return [person.note(key, "Hello, what can you do?", ["p", folder.project.public]) for key in keys]


async def test_a_stop_while_hundreds_of_strangers_wait_for_a_model_is_clean(tmp_path: Path, relay: str) -> None:
    """Their calls wait for a place at the provider: none of them has begun, and the next process makes them."""
    async with model_server(slow) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        folder.edit("[people]\n", "[people]\nopen = true\n")
        async with serving(folder, server) as process:
            await person.publish(folder.url, *notes(folder))
            await person.until(lambda: len(folder.names) == STRANGERS)
            assert await process.stop() == 0
            assert process.logs[-1]["rested"] is True
        asked = len(server.exchanges)
        assert asked < STRANGERS
        async with serving(folder, server) as process:
            await person.until(lambda: len(server.exchanges) > asked)
            assert await process.stop() == 0


CROWD = 4_000
CONNECTIONS = 4


async def test_an_owner_is_answered_while_strangers_send_thousands_of_events(tmp_path: Path, relay: str) -> None:
    """They are not admitted here: their events are checked and dropped, as fast as the relay passes them on."""
    async with model_server(lambda _: Answer(text="Here I am.")) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, ALONE)
        keys = [SecretKey.generate() for _ in range(20)]
        crowd = [
            person.note(keys[number % len(keys)], f"Hello {number}", ["p", folder.project.public])
            for number in range(CROWD)
        ]
        async with serving(folder, server) as process:
            parts = [crowd[first::CONNECTIONS] for first in range(CONNECTIONS)]
            flood = asyncio.gather(*(person.publish(folder.url, *part) for part in parts))
            name = await folder.write("Are you there?")
            await settled(folder, name, "waiting")
            await flood
            assert folder.names == [name]
            assert not process.errors
