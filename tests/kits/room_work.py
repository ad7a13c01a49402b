"""A daemon whose agents have a scripted model, in a room with its owner."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes.modelserver import ModelServer, model_server
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import RoomRelay, Rules, room_relay
from tests.service.kit import Folder
from tests.service.loopback import folder_with_model


class Working(NamedTuple):
    """A folder for a daemon that is to be started, and what is around it."""

    relay: RoomRelay
    folder: Folder
    server: ModelServer
    room: str
    owner: RoomPerson


@asynccontextmanager
async def at_work_in_a_room(
    data: Path, team: Callable[..., Any], settings: str = "", rules: Rules | None = None
) -> AsyncIterator[Working]:
    """Make a relay, a model and a folder, with a room that the owner and all keys of the project are in."""
    async with room_relay(rules) as relay, model_server(team) as server:
        folder = folder_with_model(data, relay.url, server, settings)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        async with room_person(relay, folder.owner, room) as owner:
            yield Working(relay, folder, server, room, owner)
