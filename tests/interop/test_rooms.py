"""In rooms of a relay with the rules of Buzz's: heard at once, every agent speaks, answers stand in the thread."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tenex.core import records as r
from tenex.nostr.compose import Publisher
from tenex.nostr.events import unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.service.client import ask
from tests.kits.daemon_approvals import answers, ended, times
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import Raw, RoomRelay, Rules, room_relay
from tests.kits.room_work import Working, at_work_in_a_room, until
from tests.service.kit import of_kind
from tests.service.loopback import serving

from .daemons import Daemon, in_process

HELLO = "Create hello.py that prints hello"
AT_ONCE = 1.0
"""Seconds within which a message is to be received."""


@asynccontextmanager
async def opened(
    data: Path, rules: Rules, rooms: int = 1
) -> AsyncIterator[tuple[RoomRelay, Daemon, RoomPerson, list[str]]]:
    """A daemon whose keys are members of rooms, and its owner in them."""
    owner = SecretKey.generate()
    async with room_relay(rules) as relay, in_process(data, relay.url, npub(owner.public)) as daemon:
        made = [relay.make(f"room {number}", owner.public, *daemon.agent_keys) for number in range(rooms)]
        assert daemon.app is not None
        app = daemon.app
        await until(lambda: all(app.rooms.is_read(relay.url, each) for each in made))
        await until(lambda: app.pool.status()[0].received_until is not None)
        async with room_person(relay, owner, *made) as person:
            yield relay, daemon, person, made


async def heard(daemon: Daemon, event_id: str) -> float:
    """Wait until a message is in a journal; the seconds that it took."""
    began = time.monotonic()
    journal = daemon.data / "conversations" / event_id / "journal.jsonl"
    await until(journal.exists)
    return time.monotonic() - began


def tagged(event: Raw, name: str) -> list[list[str]]:
    return [tag for tag in event["tags"] if tag[0] == name]


async def test_a_mention_is_heard_at_once_and_answered_in_its_thread(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as (relay, daemon, owner, (room,)):
        root = await owner.say(room, HELLO, ["p", daemon.project])
        assert await heard(daemon, root) < AT_ONCE
        await daemon.ended(root)
        await until(lambda: len({event["pubkey"] for event in owner.heard}) > 1)
        for answer in owner.heard:
            assert tagged(answer, "e") == [["e", root, "", "reply"]]
            assert tagged(answer, "h") == [["h", room]]
            assert not tagged(answer, "q")
            assert "nostr:nevent" not in answer["content"]
        assert any(["p", owner.key.public] in answer["tags"] for answer in owner.heard)
        assert (daemon.workspace / "hello.py").exists()
        refused = {why for event, accepted, why in relay.answers if not accepted and event["kind"] in (0, 9)}
        assert refused <= {"invalid: event pubkey does not match authenticated identity"}


async def test_a_room_that_is_joined_while_running_and_the_last_of_twelve_are_heard_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules(), rooms=12) as (relay, daemon, owner, rooms):
        assert daemon.app is not None
        app = daemon.app
        later = relay.make("later", owner.key.public)
        agent = daemon.agents["executor"]
        private = relay.make("private", owner.key.public, private=True)
        await owner.enter(later, private)
        relay.add(later, daemon.project)
        relay.add(private, agent, "bot")
        await until(lambda: app.rooms.is_read(relay.url, later) and app.rooms.is_read(relay.url, private))
        await until(lambda: app.pool.status()[0].received_until is not None)
        said = [
            (await owner.say(rooms[-1], "/status", ["p", daemon.project])),
            (await owner.say(later, "/status", ["p", daemon.project])),
            (await owner.say(private, "/status", ["p", agent])),
        ]
        for message in said:
            assert await heard(daemon, message) < AT_ONCE
        for message in said[:2]:
            await owner.until(lambda event, root=message: ["e", root, "", "reply"] in event["tags"])  # type: ignore[misc]

        relay.remove(later, daemon.project)
        await until(lambda: not app.rooms.is_read(relay.url, later))
        assert [room.name for room in app.rooms.listed()] == sorted([*(f"room {n}" for n in range(12)), "private"])
        listed = (await ask(app.places.socket, "rooms"))["rooms"]
        shown = next(each for each in listed if each["id"] == private)
        assert (shown["private"], shown["ours"], shown["members"], shown["read"]) == (True, ["executor"], 2, True)


async def test_what_is_said_in_two_threads_at_once_is_answered_in_each_also_without_a_mention(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as (_relay, daemon, owner, (room,)):
        first = await owner.say(room, "/status", ["p", daemon.project])
        other = await owner.say(room, "What do you think?")
        called = await owner.say(room, "/status", ["e", other, "", "reply"], ["p", daemon.project])
        answers = {
            first: await owner.until(lambda event: ["e", first, "", "reply"] in event["tags"]),
            other: await owner.until(lambda event: ["e", other, "", "reply"] in event["tags"]),
        }
        assert not (daemon.data / "conversations" / called).exists(), "the conversation has the id of the thread's root"
        for root, answer in answers.items():
            heard_before = len(owner.heard)
            nested = ["e", answer["id"], "", "reply"]
            await owner.say(room, "/status", ["e", root, "", "root"], nested)  # a follow-up that mentions no one
            await until(lambda count=heard_before: len(owner.heard) > count)  # type: ignore[misc]
            assert tagged(owner.heard[-1], "e") == [["e", root, "", "reply"]]
            assert ["p", owner.key.public] in owner.heard[-1]["tags"]


async def test_members_of_a_room_are_guests_in_it_and_others_are_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules()) as (relay, daemon, _owner, (room,)):
        stranger, member = SecretKey.generate(), SecretKey.generate()
        async with room_person(relay, stranger, room) as nobody, room_person(relay, member, room) as guest:
            ignored = await nobody.say(room, "/status", ["p", daemon.project])
            relay.add(room, member.public)
            heard_event = await guest.say(room, "/help", ["p", daemon.project])
            await guest.until(lambda event: ["e", heard_event, "", "reply"] in event["tags"])
        assert not (daemon.data / "conversations" / ignored).exists()


async def test_on_a_relay_of_nip_29_alone_answers_quote_as_before(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", Rules.plain()) as (relay, daemon, owner, (room,)):
        assert daemon.app is not None
        asked = await owner.say(room, "/status", ["p", daemon.project])
        answer = await owner.until(lambda event: any(tag[:2] == ["q", asked] for tag in event["tags"]))
        assert answer["content"].startswith("nostr:nevent1")
        assert not daemon.app.pool.takes_one_key(relay.url)
        assert len(relay.clients) == 2, "the daemon has one connection, the owner the other"


async def test_ten_agents_publish_within_the_quotas_and_nothing_twice(tmp_path: Path) -> None:
    data = tmp_path / "data"
    owner = SecretKey.generate()
    async with room_relay(Rules()) as relay:
        async with in_process(data, relay.url, npub(owner.public)) as daemon:
            assert daemon.app is not None
            app = daemon.app
            made = app.keys
            keys = [SecretKey.generate() for _ in range(10)]
            made |= {key.public: key for key in keys}
            room = relay.make("room", owner.public, *(key.public for key in keys))
            publisher = Publisher(app.pool, app.keys, (0, 9))
            drafts = [
                unsigned_event(key.public, int(time.time()), kind, [["h", room]] if kind else [], f"{number}")
                for key in keys
                for number, kind in enumerate((0, *[9] * 7))
            ]
            outcomes = await asyncio.gather(*(publisher.publish(draft, relay.url) for draft in drafts))
            assert all(outcome.accepted for outcome in outcomes)
        for kind in (0, 9):
            wanted = sorted(draft.id for draft in drafts if draft.kind == kind)
            kept = [event["id"] for event in relay.accepted(kind) if event["pubkey"] in {key.public for key in keys}]
            assert sorted(kept) == wanted
        assert not relay.notices, "no key has exceeded its quota"


async def test_rooms_take_no_subscriptions_from_what_the_daemon_needs(tmp_path: Path) -> None:
    """A relay that takes ten; the list of rooms says which of them are not read."""
    data = tmp_path / "data"
    owner = SecretKey.generate().public
    async with room_relay(Rules.plain(max_subscriptions=10)) as relay:
        for number in range(12):
            relay.make(f"room {number:02}", owner)
        async with in_process(data, relay.url, npub(owner)) as daemon:
            assert daemon.app is not None
            app = daemon.app
            for room in relay.rooms:
                relay.add(room, daemon.project)
            await until(lambda: len(app.rooms.listed()) == 12)
            rooms = app.rooms.listed()
            why = [app.rooms.why_not_read(room) for room in rooms]
            assert 0 < why.count("") < 12
            assert set(why) == {"", "the relay takes no more subscriptions"}
            for number in range(101):  # a second REQ of threads
                app.listener.follow(f"{number:064x}")
            await until(lambda: app.pool.status()[0].serves)
            assert not app.pool.status()[0].refused


async def asked_in(working: Working) -> tuple[str, Raw]:
    """Have the agent ask for permission; the conversation, and the message that asks."""
    folder = working.folder
    name = await working.owner.say(working.room, "Publish it", ["p", folder.project.public])
    return name, await working.owner.until(lambda event: event["content"].startswith("Allow "), 60)


async def test_a_thumb_that_names_only_the_event_counts_if_it_is_the_owners(tmp_path: Path) -> None:
    async with at_work_in_a_room(tmp_path / "data") as working:
        folder, owner = working.folder, working.owner
        async with serving(folder, working.server):
            name, wanted = await asked_in(working)
            stranger, member = SecretKey.generate(), SecretKey.generate()
            working.relay.add(working.room, member.public)
            for key in (stranger, member):
                async with room_person(working.relay, key) as other:
                    await other.react(wanted["id"], "👍")
            await owner.say(working.room, "/status", ["e", name, "", "reply"])
            await until(lambda: of_kind(folder.records(name), r.CommandGiven))
            assert answers(folder, name) == []
            assert times(folder) == 0
            await owner.react(wanted["id"], "👍")
            assert await ended(folder, name) == "finished"
            assert times(folder) == 1
            (given,) = answers(folder, name)
            assert (given.outcome, given.by) == ("yes", folder.owner.public)


async def test_a_thumb_that_was_given_while_the_daemon_was_killed_counts(tmp_path: Path) -> None:
    async with at_work_in_a_room(tmp_path / "data") as working:
        folder = working.folder
        async with serving(folder, working.server) as process:
            name, wanted = await asked_in(working)
            await process.die()
        await working.owner.react(wanted["id"], "👍")
        assert times(folder) == 0
        async with serving(folder, working.server):
            assert await ended(folder, name) == "finished"
        assert times(folder) == 1


async def test_answers_go_to_the_top_of_the_channel_where_the_settings_say_so(tmp_path: Path) -> None:
    """What was written in a thread is answered there all the same."""
    async with at_work_in_a_room(tmp_path / "data", '[rooms]\nanswers = "channel"\n') as working:
        owner = working.owner
        async with serving(working.folder, working.server):
            project = ["p", working.folder.project.public]
            asked = await owner.say(working.room, "/help", project)
            answer = await owner.until(lambda event: ["p", owner.key.public] in event["tags"])
            assert [tag[:2] for tag in tagged(answer, "q")] == [["q", asked]]
            assert not tagged(answer, "e")
            assert tagged(answer, "h") == [["h", working.room]]
            root = await owner.say(working.room, "What do you think?")
            await owner.say(working.room, "/help", ["e", root, "", "reply"], project)
            below = await owner.until(lambda event: ["e", root, "", "reply"] in event["tags"])
            assert not tagged(below, "q")
