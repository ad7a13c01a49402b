"""A room of the test relay, the folder of a daemon whose keys are its members, and what its scripted agents do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete
from tests.fakes.modelserver import ModelScript, ModelServer, model_server
from tests.kits.daemon_approvals import UNCONFINED, runs
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import Raw, RoomRelay, Rules, room_relay
from tests.service.kit import Folder
from tests.service.loopback import folder_with_model

Worker = Callable[[Asked], Reply]


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


class Working(NamedTuple):
    """A daemon's folder and the parts around it, in a room with its owner."""

    relay: RoomRelay
    folder: Folder
    server: ModelServer
    room: str
    owner: RoomPerson

    async def begin(self, text: str, by: RoomPerson | None = None) -> str:
        """Call the project at the top of the room; the conversation."""
        return await (by or self.owner).say(self.room, text, ["p", self.folder.project.public])

    async def asked(self, conversation: str, begins: str) -> Raw:
        """The message of an agent in this thread that begins with a text."""
        link = ["e", conversation, "", "reply"]
        return await self.owner.until(lambda it: link in it["tags"] and it["content"].startswith(begins), 60)


@asynccontextmanager
async def at_work_in_a_room(
    data: Path, settings: str = "", *, worker: Worker | None = None, rules: Rules | None = None
) -> AsyncIterator[Working]:
    """A folder for a daemon whose agent wants to run a command, unless it works otherwise; nothing runs yet."""
    async with (
        workplace(data, Team(worker=worker or runs()), f"{UNCONFINED}{settings}", rules) as place,
        room_person(place.relay, place.folder.owner, place.room) as owner,
    ):
        yield Working(*place, owner)


def asks(question: str, *options: str) -> Worker:
    """An executor that asks a person, and reports their answer."""

    def worker(asked: Asked) -> Reply:
        if asked.phase != "execute":
            return brisk(asked)
        if "ask" not in asked.results:
            arguments: dict[str, Any] = {"question": question, "options": list(options)}
            return calls(("ask", arguments))
        return complete(response="It is done.", summary="done")

    return worker


async def until(holds: Callable[[], object], within: float = 30.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.02)
