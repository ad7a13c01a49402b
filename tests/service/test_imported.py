"""A conversation of another folder does nothing here before somebody writes in it."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.pending import pending
from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import Folder, daemon, of_kind, ordered, tenex_here


async def cut_off(folder: Folder, relay: FaultRelay) -> str:
    """A conversation with an agent at work and words that its relay has not answered; its daemon is killed."""

    async def silent(peer: Peer, event: dict[str, Any]) -> None:
        if event["pubkey"] == folder.owner.public or event["kind"] != 1:
            await relay.accept(peer, event)

    relay.on_event = silent
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await folder.write("Create hello.py that prints hello")
        await person.until((folder.marks / "held").exists)
        await person.until(lambda: folder.state(name).runs)
        process.signal(9)
        await process.ended()
    relay.on_event = relay.accept
    return name


@pytest.mark.parametrize("way", ["copied", "imported where it was"])
async def test_a_conversation_from_elsewhere_is_inert_until_somebody_writes(tmp_path: Path, way: str) -> None:
    async with FaultRelay() as named, FaultRelay() as relay:
        there = Folder(tmp_path / "there", named.url)
        name = await cut_off(there, named)
        assert pending(there.state(name))
        file = tmp_path / "carried.jsonl"
        assert (await tenex_here("conversations", "export", name, "--out", file, "--data", there.data))[0] == 0
        if way == "copied":
            here, relay_here = Folder(tmp_path / "here", relay.url), relay
            shutil.copytree(there.conversation(name), here.conversation(name))
        else:
            here, relay_here = there, named
            shutil.rmtree(there.conversation(name))
            code, _, err = await tenex_here("conversations", "import", file, "--data", here.data)
            assert code == 0, err
            assert "nothing runs" in err
        before, sent = len(named.events()), spoken(relay_here, here, name)
        async with daemon(here):
            await folder_rests(here)
            assert spoken(relay_here, here, name) == sent
            assert of_kind(here.records(name), r.ProcessRestarted) == []
            wrote = await here.write("Are you there?", to=name)
            await person.until(lambda: wrote in here.state(name).seen and here.state(name).status != "active")
            await person.until(lambda: not here.state(name).outbox)
        assert len(spoken(relay_here, here, name)) > len(sent)
        if relay_here is not named:
            assert len(named.events()) == before, "no event goes to a relay that only the journal names"


def spoken(relay: FaultRelay, folder: Folder, name: str) -> list[str]:
    """The messages that a folder's keys sent in a thread, each copy."""
    return [one["id"] for one in relay.events() if one["pubkey"] in folder.public_keys and name in str(one["tags"])]


async def folder_rests(folder: Folder) -> None:
    """Give a daemon time to do what it must not, as long as it takes to answer another message and a bit more."""
    other = await folder.write("Hello")
    await folder.until(other, "waiting")
    await asyncio.sleep(0.5)
