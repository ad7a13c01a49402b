"""A room sees which of our keys are there, and whom they answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.features.rooms import presence
from tenex.nostr.keys import SecretKey, npub
from tests.kits.room_relay import RoomRelay, Rules, room_relay
from tests.service.person import until

from .daemons import in_process, reopened

PROFILE = 10100


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "LOOK_AGAIN", 0.05)


def profiles_of(relay: RoomRelay, key: str) -> list[dict[str, Any]]:
    return [json.loads(event["content"]) for event in relay.accepted(PROFILE) if event["pubkey"] == key]


async def test_keys_in_rooms_are_there_while_the_daemon_runs_and_name_their_rooms(tmp_path: Path) -> None:
    owner = SecretKey.generate().public
    async with room_relay(Rules()) as relay:
        async with in_process(tmp_path / "data", relay.url, npub(owner)) as daemon:
            executor = daemon.agents["executor"]
            room = relay.make("kitchen", owner, executor, daemon.project)
            await until(lambda: profiles_of(relay, executor))
            await until(lambda: {executor, daemon.project} <= relay.presence.keys())
            assert set(relay.presence.values()) == {"online"}
            assert profiles_of(relay, executor) == [
                {
                    "name": "Executor",
                    "respond_to": "anyone",
                    "respond_to_allowlist": [],
                    "channel_ids": [room],
                    "channel_add_policy": "anyone",
                }
            ]
            other = relay.make("garden", owner, executor)
            await until(lambda: len(profiles_of(relay, executor)) == 2)
            assert profiles_of(relay, executor)[-1]["channel_ids"] == sorted([room, other])
            assert daemon.agents["planner"] not in relay.presence
            relay.add(other, daemon.agents["planner"], "bot")
            await until(lambda: profiles_of(relay, daemon.agents["planner"]))
            relay.remove(other, daemon.agents["planner"])
            await until(lambda: len(profiles_of(relay, daemon.agents["planner"])) == 2)
            assert profiles_of(relay, daemon.agents["planner"])[-1]["channel_ids"] == []
        assert set(relay.presence.values()) == {"offline"}
        count = len(relay.accepted(PROFILE))

        async with reopened(daemon) as again:
            assert again.app is not None
            await until(lambda: relay.presence[executor] == relay.presence[daemon.project] == "online")
            assert len(relay.accepted(PROFILE)) == count, "the relay has them already"

        config = daemon.data / "tenex.toml"
        config.write_text(config.read_text() + '\n[rooms]\nwriters = "people"\n')
        async with reopened(daemon):
            await until(lambda: len(relay.accepted(PROFILE)) == count + 2)
        newest = profiles_of(relay, executor)[-1]
        assert (newest["respond_to"], newest["respond_to_allowlist"]) == ("allowlist", [owner])
        assert not [why for event, taken, why in relay.answers if event["kind"] in (20001, PROFILE) and not taken]


async def test_on_a_relay_without_threads_nothing_of_it_is_sent(tmp_path: Path) -> None:
    owner = SecretKey.generate().public
    async with (
        room_relay(Rules.plain()) as relay,
        in_process(tmp_path / "data", relay.url, npub(owner)) as daemon,
    ):
        assert daemon.app is not None
        rooms = daemon.app.rooms
        room = relay.make("kitchen", owner, daemon.project)
        await until(lambda: rooms.is_read(relay.url, room))
    assert not [event for event in relay.published if event["kind"] in (20001, PROFILE)]
