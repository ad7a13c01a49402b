"""Direct messages in memory: which conversation of a room takes a message, and what becomes of one that is left."""

from tenex.core import records as r
from tenex.core.ids import ConversationId
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import ID, longest_way
from tests.fakes.virtual import virtual_time
from tests.kits.rooms import FIRST, OTHER_ROOM, ROOM, SECOND, THIRD, recorded


@virtual_time
async def test_a_message_goes_on_with_the_newest_conversation_of_its_room() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        assert daemon.write("hello", event_id=FIRST, room=ROOM) == "admitted"
        assert daemon.write("and more", room=ROOM) == "admitted"
        assert daemon.write("hello", event_id=SECOND, room=OTHER_ROOM) == "admitted"
        await recorded(world, FIRST, "hello", "and more")
        await recorded(world, SECOND, "hello")
    async with world.daemon() as daemon:
        assert daemon.write("after a restart", room=ROOM) == "admitted"
        await recorded(world, FIRST, "hello", "and more", "after a restart")
    assert set(world.books) == {FIRST, SECOND}


@virtual_time
async def test_new_begins_another_one_and_ends_what_runs_in_the_old() -> None:
    world = World(longest_way, worker)
    world.think = 60.0
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, room=ROOM)
        await recorded(world, FIRST, "hello")
        assert daemon.write("/new think", event_id=SECOND, room=ROOM) == "admitted"
        await recorded(world, SECOND, "think")
        await daemon.until("ended", conversation=FIRST)
        daemon.write("go on there", room=ROOM, reply_to=FIRST)
        daemon.write("and here", room=ROOM)
        await recorded(world, FIRST, "hello", "go on there")
        await recorded(world, SECOND, "think", "and here")
    (ended,) = world.records(r.Ended, FIRST)
    assert ended.reason == "alice began another conversation"
    assert world.records(r.Stopped, FIRST)
    assert not world.records(r.Stopped, SECOND)


@virtual_time
async def test_new_alone_begins_a_blank_one_that_the_next_message_fills() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("/new", event_id=FIRST, room=ROOM)
        daemon.write("hello", room=ROOM)
        await recorded(world, FIRST, "hello")
    assert world.records(r.MessageSent, FIRST)[0].text == "This is a new conversation. Write what you want."


@virtual_time
async def test_another_subject_begins_another_one_and_the_same_or_none_does_not() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("one", event_id=FIRST, room=ROOM, title="Cakes")
        daemon.write("two", room=ROOM, title="Cakes")
        daemon.write("three", room=ROOM)
        daemon.write("four", event_id=SECOND, room=ROOM, title="Pies")
        daemon.write("five", room=ROOM, title="Pies")
        await recorded(world, FIRST, "one", "two", "three")
        await recorded(world, SECOND, "four", "five")
    async with world.daemon() as daemon:
        daemon.write("six", room=ROOM, title="Pies")
        await recorded(world, SECOND, "four", "five", "six")
    assert set(world.books) == {FIRST, SECOND}


@virtual_time
async def test_nothing_public_joins_a_room_and_nothing_private_leaves_it() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=ID)
        daemon.write("hello", event_id=FIRST, room=ROOM)
        assert daemon.write("in public", reply_to=FIRST, conversation=THIRD) == "elsewhere"
        assert daemon.write("in public", conversation=FIRST) == "elsewhere"
        assert daemon.write("in another room", event_id=SECOND, room=OTHER_ROOM, reply_to=FIRST) == "admitted"
        assert daemon.write("in private", room=ROOM, reply_to=ID) == "admitted"
        await recorded(world, FIRST, "hello", "in private")
        await recorded(world, SECOND, "in another room")
        await recorded(world, ID, "hello")
    assert {str(name) for name in world.books} == {ID, FIRST, SECOND}


@virtual_time
async def test_what_a_program_sends_begins_nothing_by_a_command() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, room=ROOM)
        daemon.write("/new and more", room=ROOM, by_program=True)
        await recorded(world, FIRST, "hello", "/new and more")
    assert set(world.books) == {ConversationId(FIRST)}
