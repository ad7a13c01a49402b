"""In rooms with threads: messages that are edited and deleted, direct channels, and commands of Buzz's clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.config import Role
from tenex.nostr.keys import KeyRing, SecretKey
from tests.fakes.modelprotocol import Answer, Hangs, Reply
from tests.fakes.modelscripts import Asked, Team, calls
from tests.fakes.modelserver import ModelScript, ModelServer
from tests.kits.daemon_approvals import UNCONFINED
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import RoomRelay
from tests.kits.room_work import workplace
from tests.service.kit import Folder, of_kind
from tests.service.loopback import QUICK, serving
from tests.service.person import until


@asynccontextmanager
async def in_a_room(
    data: Path, model: ModelScript
) -> AsyncIterator[tuple[RoomRelay, Folder, ModelServer, str, RoomPerson]]:
    """A folder whose keys are in a room with their owner; no daemon runs yet."""
    async with (
        workplace(data, model, f"{UNCONFINED}{QUICK}") as place,
        room_person(place.relay, place.folder.owner, place.room) as owner,
    ):
        yield *place, owner


def recorded(folder: Folder, name: str) -> list[Any]:
    return of_kind(folder.records(name), r.MessageRecorded)


async def test_new_words_before_work_has_begun_are_what_counts_also_after_a_restart(tmp_path: Path) -> None:
    async with in_a_room(tmp_path / "data", lambda _: Hangs()) as (_, folder, server, room, owner):
        async with serving(folder, server) as process:
            name = await owner.say(room, "Bild it", ["p", folder.project.public])
            await until(lambda: folder.state(name).router.question)
            first = await owner.edit(room, name, "Build it")
            await until(lambda: len(recorded(folder, name)) == 2)
            await process.die()
        second = await owner.edit(room, name, "Build it well")
        async with serving(folder, server):
            await until(lambda: len(recorded(folder, name)) == 3)
            await owner.say(room, "/stop", ["e", name, "", "reply"])
            await until(lambda: of_kind(folder.records(name), r.Stopped))
        records = recorded(folder, name)
        assert [record.event_id for record in records] == [name, first, second]
        assert len(of_kind(folder.records(name), r.MessageWithdrawn)) == 2
        state = folder.state(name)
        assert [message.text for message in state.cycle.messages] == ["Build it well"]
        assert state.identity.title == "Build it well"


def asking(asked: Asked) -> Reply:
    """An executor that asks a question before it answers."""
    if asked.phase == "execute" and "ask" not in asked.results:
        return calls(("ask", {"question": "Which colour?"}))
    return Answer(text="It is painted." if asked.phase == "execute" else "Done.")


async def test_an_agent_at_work_reads_new_words_once_and_its_thread_goes_on(tmp_path: Path) -> None:
    async with in_a_room(tmp_path / "data", Team(worker=asking)) as (_, folder, server, room, owner):
        async with serving(folder, server):
            name = await owner.say(room, "Paint the bake door", ["p", folder.project.public])
            question = await owner.until(lambda event: "Which colour?" in event["content"])
            await owner.edit(room, name, "Paint the back door")
            await until(lambda: len(recorded(folder, name)) == 2)
            await owner.say(room, "Blue", ["e", name, "", "root"], ["e", question["id"], "", "reply"])
            answer = await owner.until(lambda event: "It is painted." in event["content"])
            assert ["e", name, "", "reply"] in answer["tags"]
        turns = of_kind(folder.records(name), r.TurnOpened, lambda turn: turn.phase == "execute")
        assert len(turns) == 1
        last = str(next(exchange.request for exchange in server.exchanges if "Blue" in str(exchange.request)))
        assert last.count("Paint the back door") == 1
        assert "no new request" in last


async def test_members_delete_what_they_wrote_and_moderators_what_others_wrote(tmp_path: Path) -> None:
    async with in_a_room(tmp_path / "data", lambda _: Hangs()) as (relay, folder, server, room, _):
        guest, admin = SecretKey.generate(), SecretKey.generate()
        relay.add(room, guest.public)
        relay.add(room, admin.public, "admin")
        project = ["p", folder.project.public]
        async with (
            room_person(relay, guest, room) as member,
            room_person(relay, admin, room) as moderator,
            serving(folder, server),
        ):
            for by_name in (True, False):
                name = await member.say(room, "Build it", project)
                await until(lambda name=name: folder.state(name).router.question)  # type: ignore[misc]
                assert recorded(folder, name)[0].role is Role.GUEST
                await member.delete(name, room if by_name else "")
                await until(lambda name=name: of_kind(folder.records(name), r.MessageWithdrawn))  # type: ignore[misc]
            name = await member.say(room, "Build that", project)
            await until(lambda: folder.state(name).router.question)
            await moderator.delete(name, room)
            await until(lambda: of_kind(folder.records(name), r.MessageWithdrawn))
            assert folder.state(name).cycle.messages == ()


async def test_in_a_direct_channel_all_that_people_write_is_for_our_key_there(tmp_path: Path) -> None:
    async with in_a_room(tmp_path / "data", Team()) as (relay, folder, server, _, owner):
        agent = KeyRing(folder.data / "keys").get("executor").public
        alone = relay.make("", folder.owner.public, agent, private=True, sort="dm")
        several = relay.make("", folder.owner.public, *folder.public_keys, private=True, sort="dm")
        await owner.enter(alone, several)
        async with serving(folder, server):
            name = await owner.say(alone, "Write note-01.txt")
            other = await owner.say(several, "Write note-02.txt")
            for asked in (name, other):
                await owner.until(lambda event, asked=asked: ["e", asked, "", "reply"] in event["tags"], 60)  # type: ignore[misc]
        assert recorded(folder, name)[0].addressed == ("executor",)
        assert recorded(folder, other)[0].addressed == ()


async def test_a_talk_in_a_direct_channel_goes_on_until_its_author_begins_another(tmp_path: Path) -> None:
    """Also after a restart, as in private messages."""
    async with in_a_room(tmp_path / "data", Team()) as (relay, folder, server, room, owner):
        channel = relay.make("", folder.owner.public, *folder.public_keys, private=True, sort="dm")
        await owner.enter(channel)

        async def say(where: str, text: str, *tags: list[str]) -> str:
            said = await owner.say(where, text, *tags)
            await owner.until(lambda event: ["e", said, "", "reply"] in event["tags"], 60)
            return said

        def given(name: str) -> list[str]:
            return [record.event_id for record in of_kind(folder.records(name), r.CommandGiven)]

        async with serving(folder, server):
            first = await say(channel, "/status")
            second = await say(channel, "/help")
        async with serving(folder, server):
            third = await say(channel, "/status")
            elsewhere = await say(room, "/status", ["p", folder.project.public])
            other = await say(channel, "/new /status")
            last = await say(channel, "/status")
            below = await owner.say(channel, "/help", ["e", second, "", "reply"])
            await until(lambda: below in given(first))
        assert given(first) == [first, second, third, below]
        assert given(elsewhere) == [elsewhere]
        assert set(folder.names) == {first, elsewhere, other}
        assert last in given(other)


async def test_cancel_stops_and_shutdown_does_not(tmp_path: Path) -> None:
    async with (
        in_a_room(tmp_path / "data", Team(worker=lambda _: Hangs())) as (_, folder, server, room, owner),
        serving(folder, server),
    ):
        project = ["p", folder.project.public]
        name = await owner.say(room, "Build it", project)
        await until(lambda: of_kind(folder.records(name), r.TurnOpened))
        thread = ["e", name, "", "reply"]
        await owner.say(room, "!shutdown", thread, project)
        await owner.until(lambda event: event["content"].startswith("There is no command /shutdown."))
        assert not of_kind(folder.records(name), r.Stopped)
        await owner.say(room, "@Executor !cancel", thread, project)
        await owner.until(lambda event: event["content"].startswith("Stopped: Executor."))


async def test_rich_text_and_diffs_are_read_as_text(tmp_path: Path) -> None:
    async with in_a_room(tmp_path / "data", Team()) as (_, folder, server, room, owner), serving(folder, server):
        project = ["p", folder.project.public]
        for kind in (40002, 40008):
            name = await owner.say(room, "/status", project, kind=kind)
            await owner.until(lambda event, name=name: ["e", name, "", "reply"] in event["tags"])  # type: ignore[misc]


async def test_moderation_counts_also_where_only_people_of_the_settings_write(tmp_path: Path) -> None:
    settings = f'{UNCONFINED}{QUICK}\n[rooms]\nwriters = "people"\n'
    async with workplace(tmp_path / "data", lambda _: Hangs(), settings) as (relay, folder, server, room):
        admin = SecretKey.generate()
        relay.add(room, admin.public, "owner")
        async with (
            room_person(relay, folder.owner, room) as owner,
            room_person(relay, admin, room) as moderator,
            serving(folder, server),
        ):
            project = ["p", folder.project.public]
            unheard = await moderator.say(room, "Build it", project)
            names = [await owner.say(room, text, project) for text in ("Build it", "Build that")]
            for name in names:
                await until(lambda name=name: folder.state(name).router.question)  # type: ignore[misc]
            await moderator.delete(names[0], room)
            relay.publish_own(9005, [["h", room], ["e", names[1]]], room)
            for name in names:
                await until(lambda name=name: not folder.state(name).cycle.messages)  # type: ignore[misc]
            assert unheard not in folder.names
