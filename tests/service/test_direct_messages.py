"""A real daemon, a real relay, and direct messages by another implementation: each form is answered once a day."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tenex.app.direct_messages import GUESTS_PER_DAY
from tenex.core import records as r
from tenex.nostr.keys import KeyRing, SecretKey, npub

from . import person
from .kit import Folder, Process, daemon, of_kind

sdk = pytest.importorskip("nostr_sdk")

BEN, STRANGER = SecretKey.generate(), SecretKey.generate()
SECRET = "the cake is in the cellar"
DEBUG = {"TENEX_LOG__LEVEL": "debug"}


def theirs(key: SecretKey) -> Any:
    return sdk.Keys.parse(key.nsec)


def encrypted(by: SecretKey, to: str) -> person.Wire:
    text = sdk.nip04_encrypt(theirs(by).secret_key(), sdk.PublicKey.parse(to), SECRET)
    return person.note(by, text, ["p", to], kind=4)


def wrapped(by: SecretKey, to: str) -> person.Wire:
    made: person.Wire = json.loads(sdk.nip17_make_private_msg(theirs(by), sdk.PublicKey.parse(to), SECRET).as_json())
    return made


def opened(event: person.Wire, key: SecretKey) -> tuple[str, str]:
    """Who answers, and what, as the client of the author of a message shows it."""
    if event["kind"] == 4:
        sender = sdk.PublicKey.parse(event["pubkey"])
        return event["pubkey"], sdk.nip04_decrypt(theirs(key).secret_key(), sender, event["content"])
    gift = sdk.UnwrappedGift.from_gift_wrap(theirs(key), sdk.Event.from_json(json.dumps(event)))
    return gift.sender().to_hex(), json.loads(gift.rumor().as_json())["content"]


async def listening(folder: Folder) -> str:
    """Wait until the daemon receives what is new: a wrap is dated days back, where a first start does not look."""
    name = await folder.write("/status")
    await person.until(lambda: of_kind(folder.records(name), r.CommandGiven))
    return name


async def sent(folder: Folder, process: Process, *events: person.Wire) -> list[bool]:
    """Send direct messages; which of them the daemon takes for an answer."""
    await person.publish(folder.url, *events)
    found: dict[str, bool] = {}

    def all_there() -> bool:
        logs = (log for log in process.logs if log["event"] == "direct_message.received")
        found.update({log["event_id"]: log["is_answered"] for log in logs})
        return all(event["id"] in found for event in events)

    await person.until(all_there)
    return [found[event["id"]] for event in events]


async def answers(folder: Folder, to: SecretKey, count: int) -> list[person.Wire]:
    """What the relay keeps for someone, once there are so many."""
    async with asyncio.timeout(60):
        while len(kept := await person.stored(folder.url, kinds=[4, 14, 1059], _p=[to.public])) < count:
            pass  # each look is a connection of its own
    return kept


@pytest.mark.parametrize("form", [encrypted, wrapped])
async def test_a_direct_message_is_answered_once_a_day_in_its_own_form(tmp_path: Path, relay: str, form: Any) -> None:
    folder = Folder(tmp_path / "data", relay)
    agent = KeyRing(folder.data / "keys").get("planner")
    async with daemon(folder, **DEBUG) as process:
        name = await listening(folder)
        assert await sent(folder, process, form(folder.owner, agent.public)) == [True]
        answer = (await answers(folder, folder.owner, 1))[0]
        who, text = opened(answer, folder.owner)
        assert (answer["kind"], who) == (form(BEN, agent.public)["kind"], agent.public)
        assert f"mentions nostr:{npub(folder.project.public)}" in text
        again = [encrypted(folder.owner, folder.project.public), wrapped(folder.owner, agent.public)]
        assert await sent(folder, process, *again) == [False, False]
    assert SECRET not in process.stderr
    async with daemon(folder, **DEBUG) as process:
        assert await sent(folder, process, form(folder.owner, folder.project.public)) == [False], "of the same day"
    assert len(await answers(folder, folder.owner, 1)) == 1
    assert folder.names == [name], "no conversation began"


async def test_strangers_get_no_answer(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder, **DEBUG) as process:
        await listening(folder)
        await person.publish(relay, encrypted(STRANGER, folder.project.public))
        assert await sent(folder, process, wrapped(STRANGER, folder.project.public)) == [False]
        assert await sent(folder, process, wrapped(folder.owner, folder.project.public)) == [True]
        await answers(folder, folder.owner, 1)
    assert await answers(folder, STRANGER, 0) == []


async def test_of_many_guests_only_so_many_get_an_answer_in_a_day(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    folder.edit("[people]\n", "[people]\nopen = true\n")
    guests = [SecretKey.generate() for _ in range(GUESTS_PER_DAY + 20)]
    async with daemon(folder, **DEBUG) as process:
        await listening(folder)
        taken = await sent(folder, process, *(wrapped(guest, folder.project.public) for guest in guests))
        assert sum(taken) == GUESTS_PER_DAY
        await answers(folder, guests[taken.index(True)], 1)
    folder.edit("[people]\n", f'[people]\nmembers = ["{npub(BEN.public)}"]\n')
    async with daemon(folder, **DEBUG) as process:
        more = [encrypted(SecretKey.generate(), folder.project.public), encrypted(BEN, folder.project.public)]
        assert await sent(folder, process, *more) == [False, True]
