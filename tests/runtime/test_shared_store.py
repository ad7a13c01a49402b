"""A store that several workers share: what an actor does while it is not sure, and when it is not, the only writer."""

import asyncio
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.errors import HeldElsewhere
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import NO_USAGE
from tenex.core.port_values import PublishOutcome, UnsignedEvent
from tenex.core.totals.costs import cost_of
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import ID, longest_way, one_turn
from tests.fakes.virtual import virtual_time

HERE = ConversationId(ID)


@virtual_time
async def test_nothing_starts_while_another_worker_might_write_soon_and_all_of_it_afterwards() -> None:
    world = World(longest_way, worker)
    world.may_start = False

    async with world.daemon() as daemon:
        daemon.write("hello")
        daemon.sent.clear()  # its answer is not to be waited for
        await asyncio.sleep(5)
        assert world.records(r.MessageRecorded), "what is received is recorded: each append checks the token"
        assert (world.requests, world.published) == ([], {})
        world.may_start = True
        daemon.runtime.coordinator.reconsider(HERE)
        await daemon.until("waiting")
    assert world.requests


@virtual_time
async def test_a_conversation_that_is_lost_stops_at_once_and_can_be_opened_again() -> None:
    world = World(one_turn(), worker)
    world.think = 5.0

    async with world.daemon() as daemon:
        daemon.write("hello")
        while not world.overlap:
            await asyncio.sleep(0.1)
        before = len(world.records())
        coordinator = daemon.runtime.coordinator
        world.is_held_elsewhere = True
        coordinator.lose(HERE)
        await asyncio.sleep(0.1)
        assert world.overlap == 0, "the model is asked on"
        assert HERE not in coordinator
        await asyncio.sleep(60)
        assert len(world.records()) == before
        world.is_held_elsewhere = False
        coordinator.resume([HERE])
        await daemon.until("waiting")
    assert len(world.records(r.MessageRecorded)) == 1


@virtual_time
async def test_what_rests_is_handed_over_and_what_works_is_finished_first() -> None:
    world = World(one_turn(), worker)
    world.think = 5.0

    async with world.daemon() as daemon:
        daemon.write("hello")
        while not world.overlap:
            await asyncio.sleep(0.1)
        coordinator = daemon.runtime.coordinator
        coordinator.hand_over()
        await asyncio.sleep(0.1)
        assert world.overlap == 1, "the model is asked no more"
        await daemon.until("waiting")
        await asyncio.sleep(1)
        assert HERE in coordinator
        coordinator.hand_over()
        await asyncio.sleep(1)
        assert HERE not in coordinator


@virtual_time
async def test_what_another_worker_wants_is_handed_over_before_a_model_is_asked_again() -> None:
    """There a message reaches an agent that is at work; no call of a tool is cut off, and none is called unknown."""
    world = World(one_turn("executor", "execute"), worker)
    world.think, world.work = 5.0, 20.0

    async with asyncio.timeout(1_000), world.daemon() as daemon:
        daemon.write("hello")
        while not world.calls:
            await asyncio.sleep(0.1)
        asked = len(world.requests)
        coordinator = daemon.runtime.coordinator
        coordinator.hand_over_wanted([HERE])
        assert HERE in coordinator
        while HERE in coordinator:
            await asyncio.sleep(1)
            coordinator.hand_over_wanted([])
        assert len(world.requests) == asked
        state = daemon.state()
        assert [run.agent for run in state.work.runs.values() if run.wants is not None], "its model is to be asked next"
        daemon.write("one thing more")
        await daemon.until("waiting")
    results = [record.content for record in world.records(r.ToolCallCompleted)]
    assert not [text for text in results if "unknown" in text or "stopped" in text]
    assert max(world.calls.values()) == 1
    assert texts(world, HERE) == ["hello", "one thing more"]


@virtual_time
async def test_of_what_rests_only_what_is_wanted_is_handed_over() -> None:
    world = World(one_turn(), worker)

    async with world.daemon() as daemon:
        for name in (HERE, ConversationId("d" * 64)):
            daemon.write("hello", conversation=name)
            await daemon.until("waiting", conversation=name)
        coordinator = daemon.runtime.coordinator
        coordinator.hand_over_wanted([HERE, ConversationId("f" * 64)])
        await asyncio.sleep(1)
        assert [actor.id for actor in coordinator] == ["d" * 64]


class Away(World):
    """No relay answers."""

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        raise await asyncio.get_running_loop().create_future()


@virtual_time
async def test_what_no_relay_has_taken_does_not_keep_a_conversation_here() -> None:
    world = Away(one_turn(), worker)

    async with world.daemon() as daemon:
        daemon.write("hello")
        while daemon.state().cycle.status != "waiting":
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        coordinator = daemon.runtime.coordinator
        coordinator.hand_over()
        await asyncio.sleep(1)
        assert HERE not in coordinator
        assert daemon.state().delivery.outbox, "the next worker sends it"


@virtual_time
async def test_a_message_that_is_handed_on_while_all_are_stopped_is_recorded_and_its_conversation_closed() -> None:
    world = World(longest_way, worker)
    world.taken_elsewhere = {"e" * 64: ConversationId("d" * 64)}
    world.take_time = 1.0

    async with world.daemon() as daemon:
        daemon.write("not here", event_id="e" * 64)
        await asyncio.sleep(0.5)
        await daemon.runtime.coordinator.stop()
        assert list(daemon.runtime.coordinator) == []
        assert texts(world, "d" * 64) == ["not here"]


@virtual_time
async def test_what_follows_a_lost_conversation_learns_of_it_and_its_unrecorded_cost_does_not_count() -> None:
    world = World(one_turn(), worker)
    world.append_time = 5.0  # an answer comes while the message is being appended

    async with world.daemon() as daemon:
        daemon.write("hello")
        while not world.requests or world.overlap:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        assert world.daily.today()[0].used.calls, "it is not recorded yet, and counts"
        world.is_held_elsewhere = True
        daemon.runtime.coordinator.lose(HERE)
        assert world.left == [HERE]
        await asyncio.sleep(10)
        assert HERE not in daemon.runtime.coordinator
        recorded = sum((cost_of(record) for record in world.records()), NO_USAGE)
        assert world.daily.today()[0].used == recorded


@virtual_time
async def test_messages_for_a_conversation_of_another_worker_are_kept_and_no_one_is_notified() -> None:
    world = World(one_turn(), worker)
    world.is_held_elsewhere = True

    async with world.daemon() as daemon:
        daemon.write("hello")
        daemon.sent.clear()
        await asyncio.sleep(60)
        assert (world.records(), world.published, world.notices.open_notices()) == ([], {}, [])
        assert daemon.runtime.coordinator.unjournaled_since() is not None, "relays are read again from there"
        world.is_held_elsewhere = False
        daemon.runtime.coordinator.retry_held()
        await daemon.until("waiting")
    assert [record.text for record in world.records(r.MessageRecorded)] == ["hello"]


@virtual_time
async def test_a_message_that_another_conversation_has_taken_is_recorded_there() -> None:
    """Its worker may have died before it recorded it, so it is not left to that one alone."""
    world = World(one_turn(), worker)
    world.taken_elsewhere = {"e" * 64: ConversationId("d" * 64)}

    async with world.daemon() as daemon:
        daemon.write("not here", event_id="e" * 64)
        daemon.sent.clear()
        daemon.write("hello")
        await daemon.until("waiting")
        await daemon.until("waiting", conversation="d" * 64)
    assert [record.text for record in world.records(r.MessageRecorded)] == ["hello"]
    assert [record.text for record in world.records(r.MessageRecorded, "d" * 64)] == ["not here"]


@virtual_time
async def test_a_message_that_arrives_while_others_are_taken_is_taken_too() -> None:
    world = World(one_turn(), worker)
    world.taken_elsewhere = {"e" * 64: ConversationId("d" * 64)}
    world.take_time = 1.0

    async with world.daemon() as daemon:
        daemon.write("hello")
        await asyncio.sleep(0.5)
        daemon.write("not here", event_id="e" * 64)
        daemon.sent.clear()
        await daemon.until("waiting")
        await daemon.until("waiting", conversation="d" * 64)
    assert texts(world, HERE) == ["hello"]
    assert texts(world, "d" * 64) == ["not here"]


ROOM = "e" * 64
FIRST, SECOND, BRANCH = (ConversationId(digit * 64) for digit in "123")


def texts(world: World, conversation: str) -> list[str]:
    return [record.text for record in world.records(r.MessageRecorded, conversation)]


@virtual_time
async def test_a_room_goes_on_where_another_worker_has_put_its_message() -> None:
    """That worker knew a conversation of the room that is not in the index of this one yet."""
    world = World(longest_way, worker)
    world.taken_elsewhere = {SECOND: FIRST}

    async with world.daemon() as daemon:
        assert daemon.write("hello", event_id=SECOND, room=ROOM) == "admitted"
        while texts(world, FIRST) != ["hello"]:
            await asyncio.sleep(0.1)
        daemon.write("and more", room=ROOM)
        while texts(world, FIRST) != ["hello", "and more"]:
            await asyncio.sleep(0.1)
    assert texts(world, SECOND) == []


@virtual_time
async def test_a_room_goes_on_in_the_conversation_that_another_worker_has_begun_there() -> None:
    """As by a fork, of which only the worker that makes it knows."""
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, room=ROOM)
        while texts(world, FIRST) != ["hello"]:
            await asyncio.sleep(0.1)
        begun = world.records(r.ConversationStarted, FIRST)[0]
        world.books[BRANCH] = [(replace(begun, id=BRANCH, at=Millis(world.clock.now())),)]
        daemon.write("still here", room=ROOM)
        daemon.runtime.inbox.look_again(BRANCH)
        daemon.write("and there", room=ROOM)
        while texts(world, BRANCH) != ["and there"]:
            await asyncio.sleep(0.1)
    assert texts(world, FIRST) == ["hello", "still here"]


@virtual_time
async def test_a_conversation_is_loaded_or_said_to_be_of_another_worker() -> None:
    world = World(one_turn(), worker)

    async with world.daemon() as daemon:
        coordinator = daemon.runtime.coordinator
        await coordinator.load(HERE)
        assert coordinator.conversation(HERE) is not None
        world.is_held_elsewhere = True
        with pytest.raises(HeldElsewhere, match="another worker writes the conversation"):
            await coordinator.load(ConversationId("d" * 64))
