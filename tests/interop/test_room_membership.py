"""`tenex rooms join`, `leave` and `invite` with a daemon and a relay that has the rules of Buzz, or of NIP-29 alone."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tenex.core.ids import PublicKey
from tenex.nostr.keys import SecretKey, npub
from tests.kits.room_person import room_person
from tests.kits.room_relay import RoomRelay, Rules, room_relay
from tests.service.kit import tenex
from tests.service.person import until

from .daemons import Daemon, in_process

Rooms = Callable[..., Awaitable[tuple[int, str, str]]]


class Place(NamedTuple):
    relay: RoomRelay
    daemon: Daemon
    owner: SecretKey
    rooms: Rooms

    async def facts(self, *words: str) -> tuple[int, Any]:
        code, printed, _ = await self.rooms(*words, "--json")
        return code, json.loads(printed)


@asynccontextmanager
async def opened(data: Path, rules: Rules) -> AsyncIterator[Place]:
    owner = SecretKey.generate()

    async def rooms(*words: str) -> tuple[int, str, str]:
        return await tenex("--data", data, "rooms", *words)

    async with room_relay(rules) as relay, in_process(data, relay.url, npub(owner.public)) as daemon:
        yield Place(relay, daemon, owner, rooms)


@pytest.mark.parametrize("rules", [Rules(), Rules.plain()], ids=["buzz", "nip29"])
async def test_all_keys_join_an_open_room_which_is_read_at_once_and_leave_it(tmp_path: Path, rules: Rules) -> None:
    async with opened(tmp_path / "data", rules) as place:
        relay, daemon, owner = place.relay, place.daemon, place.owner
        room = relay.make("kitchen", owner.public)
        code, printed, _ = await place.rooms("join", "kitchen")
        assert code == 0
        assert "executor  joined" in printed
        assert "is read" in printed.splitlines()[0]
        members = relay.rooms[room].members
        assert daemon.agent_keys <= members.keys()
        assert {members[key] for key in daemon.agent_keys} == ({"bot"} if rules.threads else {"member"})
        async with room_person(relay, owner, room) as person:
            asked = await person.say(room, "/status", ["p", daemon.agents["executor"]])
            await person.until(lambda event: any(asked in tag for tag in event["tags"]))

        code, again = await place.facts("join", room, "--agent", "executor")
        assert (code, [key["state"] for key in again["keys"]]) == (0, ["already"])
        code, left = await place.facts("leave", "kitchen", "--agent", "executor")
        assert (code, [key["state"] for key in left["keys"]], left["room"]["read"]) == (0, ["left"], True)
        assert daemon.agents["executor"] not in members
        code, left = await place.facts("leave", "kitchen")
        assert code == 0
        assert {key["state"] for key in left["keys"]} == {"left"}
        assert len(left["keys"]) == len(daemon.agent_keys) - 1
        assert not left["room"]["read"]
        assert list(members) == [owner.public]


async def test_into_a_private_room_a_key_of_ours_that_is_in_charge_brings_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as place:
        relay, daemon, owner = place.relay, place.daemon, place.owner
        hidden = relay.make("secret", owner.public, private=True)
        for words in (("join", "secret"), ("join", hidden)):
            code, _, error = await place.rooms(*words)
            assert code == 2
            assert "shows no room with the id or name" in error
            assert npub(PublicKey(daemon.project)) in error.replace("\n", "")
        relay.add(hidden, owner.public, "owner")
        relay.add(hidden, daemon.agents["executor"], "bot")
        assert daemon.app is not None
        rooms = daemon.app.rooms
        await until(lambda: rooms.is_read(relay.url, hidden))
        code, refused = await place.facts("join", "secret", "--agent", "planner")
        assert code == 1
        (key,) = refused["keys"]
        assert (key["state"], key["answer"]) == ("refused", "restricted: not a channel member")
        code, _, error = await place.rooms("invite", "secret", npub(SecretKey.generate().public))
        assert code == 1
        assert "only owners/admins may add private-channel members" in error.replace("\n", " ")
        assert npub(owner.public) in error.replace("\n", "")

        relay.add(hidden, daemon.agents["executor"], "admin")
        await rooms.look_at(relay.url)
        code, joined = await place.facts("join", "secret", "--agent", "planner")
        assert (code, [(key["state"], key["by"]) for key in joined["keys"]]) == (0, [("joined", "executor")])
        person = SecretKey.generate()
        code, invited = await place.facts("invite", "secret", npub(person.public), "--role", "guest")
        assert (code, [key["state"] for key in invited["keys"]]) == (0, ["joined"])
        assert relay.rooms[hidden].members[person.public] == "guest"
        assert relay.rooms[hidden].members[daemon.agents["planner"]] == "bot"
        code, invited = await place.facts("invite", "secret", "project-manager")
        assert relay.rooms[hidden].members[daemon.agents["project-manager"]] == "bot"


async def test_what_was_given_wrongly_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as place:
        relay, owner = place.relay, place.owner
        for _ in range(2):
            relay.make("twins", owner.public)
        for words, sentence in [
            (("join", "nowhere"), "shows no room with the id or name 'nowhere'"),
            (("join", "twins"), "2 rooms have this name"),
            (("join", "twins", "--relay", "wss://other.example"), "is no relay of the settings that has rooms"),
            (("join", "twins", "--relay", relay.url, "--agent", "ghost"), "2 rooms have this name"),
            (("join", next(iter(relay.rooms)), "--agent", "ghost"), "There is no agent 'ghost'"),
            (("invite", next(iter(relay.rooms)), "ghost"), "neither a key (npub1…) nor a name"),
        ]:
            code, printed, error = await place.rooms(*words)
            assert (code, printed) == (2, ""), words
            assert sentence in error.replace("\n", " "), error
        assert not [event for event in relay.published if event["kind"] in (9000, 9021)]
