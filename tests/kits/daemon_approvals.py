"""A daemon whose agent asks to run a command, and the ways in which a person answers."""

from collections.abc import Callable
from typing import Any

from tenex.core import records as r
from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, brisk, calls, complete
from tests.service import person
from tests.service.kit import Folder, of_kind

COMMAND = "echo ran >> ran.txt"
UNCONFINED = '\n[tools.shell]\nsandbox = "none"\n'


def runs(*commands: str, **more: str) -> Callable[[Asked], Reply]:
    """An executor that runs commands in one step, with these further arguments, and reports what came of it."""

    def worker(asked: Asked) -> Reply:
        if asked.phase != "execute":
            return brisk(asked)
        if "shell" not in asked.results:
            return calls(*(("shell", {"command": command, **more}) for command in commands or (COMMAND,)))
        return complete(response="It is done.", summary="done")

    return worker


async def request(folder: Folder, name: str) -> person.Wire:
    """The message that asks, once a relay has it."""
    await person.until(lambda: of_kind(folder.records(name), r.ApprovalRequested))
    await folder.delivered(name)
    return [event for event in await folder.sent(_e=[name]) if event["content"].startswith("Allow ")][-1]


async def react(folder: Folder, to: person.Wire, picture: str, by: SecretKey | None = None) -> None:
    tags = [["e", to["id"], folder.url], ["p", to["pubkey"]], ["k", "1"]]
    await person.publish(folder.url, person.note(by or folder.owner, picture, *tags, kind=7))


async def answer(folder: Folder, to: person.Wire, text: str, root: str, by: SecretKey | None = None) -> None:
    tags = [["e", root, folder.url, "root"], ["e", to["id"], folder.url, "reply"], ["p", to["pubkey"]]]
    await person.publish(folder.url, person.note(by or folder.owner, text, *tags))


def answers(folder: Folder, name: str) -> list[Any]:
    return of_kind(folder.records(name), r.ApprovalAnswered)


async def ended(folder: Folder, name: str) -> str:
    """What came of the agent's run in execute."""
    runs = await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
    return str(runs[0].outcome)


def times(folder: Folder) -> int:
    """How often the command has run."""
    ran = folder.workspace / "ran.txt"
    return len(ran.read_text().splitlines()) if ran.exists() else 0
