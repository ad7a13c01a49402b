"""A daemon with scripted models in a room of a relay with Buzz's rules, and its owner there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete
from tests.fakes.modelserver import ModelServer, model_server
from tests.kits.daemon_approvals import UNCONFINED, runs
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import Raw, RoomRelay, Rules, room_relay
from tests.service.kit import Folder
from tests.service.loopback import folder_with_model

Worker = Callable[[Asked], Reply]


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
    async with room_relay(rules or Rules()) as relay, model_server(Team(worker=worker or runs())) as server:
        folder = folder_with_model(data, relay.url, server, f"{UNCONFINED}{settings}")
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        async with room_person(relay, folder.owner, room) as owner:
            yield Working(relay, folder, server, room, owner)


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
