"""`tenex rooms list` shows what a running daemon knows of rooms."""

import json
from pathlib import Path

import pytest

from tenex.cli.main import run
from tenex.features.rooms.feature import ROOMS
from tenex.nostr.keys import SecretKey, npub
from tests.interop.daemons import in_process
from tests.kits.room_relay import Rules, room_relay
from tests.service.kit import tenex
from tests.service.person import until


async def test_rooms_are_listed_with_our_keys_and_whether_they_are_read(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def listed(*more: str) -> str:
        code, printed, _ = await tenex("--data", data, "rooms", "list", *more)
        assert code == 0
        return printed

    async with room_relay(Rules.plain()) as relay:
        owner = SecretKey.generate().public
        async with in_process(data, relay.url, npub(owner)) as daemon:
            assert daemon.app is not None
            assert await listed() == ""
            room = relay.make("kitchen", owner, daemon.agents["executor"], private=True)
            rooms = daemon.app.rooms
            await until(lambda: rooms.is_read(relay.url, room))
            text = await listed()
            (facts,) = json.loads(await listed("--json"))
    assert "kitchen  private, 2 members, with executor" in text
    assert f"{room} at {relay.url}" in text
    assert (facts["id"], facts["read"], facts["threads"]) == (room, True, False)


def test_without_a_daemon_the_command_says_how_to_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--data", str(tmp_path), "rooms", "list"], [ROOMS]) != 0
    assert "No daemon runs on" in capsys.readouterr().err
