"""A room of the test relay, and the folder of a daemon whose model answers over HTTP and whose keys are its members."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.fakes.modelserver import ModelScript, ModelServer, model_server
from tests.kits.room_relay import RoomRelay, Rules, room_relay
from tests.service.kit import Folder
from tests.service.loopback import folder_with_model


class Workplace(NamedTuple):
    """What there is before anybody connects; the owner of the folder is a member of the room too."""

    relay: RoomRelay
    folder: Folder
    server: ModelServer
    room: str


@asynccontextmanager
async def workplace(
    data: Path, model: ModelScript, settings: str = "", rules: Rules | None = None
) -> AsyncIterator[Workplace]:
    """Serve the relay and the model for as long as the block lasts."""
    async with room_relay(rules) as relay, model_server(model) as server:
        folder = folder_with_model(data, relay.url, server, settings)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        yield Workplace(relay, folder, server, room)
