"""Edits and deletions as relays send them: before the message too, again after a restart, and in one room alone."""

from tenex.core import records as r
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.people.trust import chat_of
from tenex.core.signals import InboundMessage
from tests.fakes.runtime import Daemon, World, worker
from tests.fakes.scenario import ALICE, longest_way
from tests.fakes.virtual import virtual_time
from tests.kits.rooms import FIRST, SECOND, THIRD, recorded

KITCHEN = {"form": "room threads", "group": "kitchen", "relays": ["wss://relay.example"]}
GARDEN = {**KITCHEN, "group": "garden"}
BOB = PublicKey("b" * 64)


def edit(daemon: Daemon, text: str, event_id: str, of: str = FIRST, author: PublicKey = ALICE) -> str:
    message = InboundMessage(
        event_id=EventId(event_id),
        author=author,
        text=text,
        created_at=daemon.world.clock.now() // 1000,
        conversation=ConversationId(of),
        starts=False,
        references=(EventId(of),),
        edits=EventId(of),
        address=KITCHEN,
        origin={"id": of},
    )
    return daemon.runtime.inbox.receive(message)


@virtual_time
async def test_an_edit_that_comes_before_its_message_waits_for_it_and_counts_once() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        assert edit(daemon, "hello", SECOND) == "elsewhere"
        assert daemon.write("helo", event_id=FIRST, conversation=FIRST, address=KITCHEN) == "admitted"
        await recorded(world, FIRST, "helo", "hello")
        assert edit(daemon, "hello", SECOND) == "duplicate"
    async with world.daemon() as daemon:
        assert edit(daemon, "hello", SECOND) == "duplicate", "after a restart too"
        await daemon.until("waiting", FIRST)
    state = daemon.state(FIRST)
    assert [message.text for message in state.cycle.messages if message.role] == ["hello"]
    assert len(world.records(r.MessageWithdrawn, FIRST)) == 1


@virtual_time
async def test_an_edit_of_what_was_deleted_before_it_came_is_ignored() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.runtime.inbox.delete(EventId(FIRST), ALICE)
        assert edit(daemon, "hello", SECOND) == "deleted"


@virtual_time
async def test_the_moderation_of_a_room_deletes_what_is_in_that_room_alone() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        inbox = daemon.runtime.inbox
        for event, place in ((FIRST, KITCHEN), (SECOND, GARDEN)):
            daemon.write("hello", event_id=event, conversation=event, address=place)
            inbox.delete(EventId(event), BOB, moderated=chat_of(KITCHEN))
        inbox.delete(EventId(THIRD), BOB, moderated=chat_of(KITCHEN))
        assert daemon.write("hello", event_id=THIRD, conversation=THIRD, address=KITCHEN) == "deleted"
        await recorded(world, SECOND, "hello")
        await daemon.until("waiting", SECOND)
    assert len(world.records(r.MessageWithdrawn, FIRST)) == 1
    assert not world.records(r.MessageWithdrawn, SECOND)
