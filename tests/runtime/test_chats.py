"""Chats in memory: which conversation takes a message that quotes another one."""

from collections.abc import Mapping

import pytest

from tenex.core import records as r
from tenex.core.ids import ConversationId
from tests.fakes.runtime import Daemon, World, worker
from tests.fakes.scenario import longest_way
from tests.fakes.virtual import virtual_time
from tests.kits.rooms import FIRST, ROOM, SECOND, THIRD, recorded

RELAY = "wss://relay.example"
KITCHEN = {"form": "chats", "group": "kitchen", "relays": [RELAY]}
GARDEN = {"form": "chats", "group": "garden", "relays": [RELAY]}
KITCHEN_ELSEWHERE = {"form": "chats", "group": "kitchen", "relays": ["wss://other.example"]}
NO_GROUP = {"form": "chats", "relays": [RELAY]}
THREAD = {"form": "notes", "relays": [RELAY]}


def quote(daemon: Daemon, event_id: str, chat: Mapping[str, object], quoted: str, *, starts: bool = True) -> str:
    """Write a message of a chat, which answers by quoting."""
    return daemon.write(
        "and this?", event_id=event_id, conversation=event_id, reply_to=quoted, address=chat, starts=starts
    )


@pytest.mark.parametrize("here", [GARDEN, KITCHEN_ELSEWHERE, NO_GROUP])
@virtual_time
async def test_what_is_quoted_from_another_chat_does_not_take_the_message_there(here: Mapping[str, object]) -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, conversation=FIRST, address=KITCHEN)
        assert quote(daemon, SECOND, here, FIRST, starts=False) == "elsewhere", "it calls no agent"
        assert quote(daemon, SECOND, here, FIRST) == "admitted"
        await recorded(world, SECOND, "and this?")
    async with world.daemon() as daemon:
        assert quote(daemon, THIRD, here, FIRST) == "admitted", "as the directory has it, after a restart"
        await recorded(world, THIRD, "and this?")
    await recorded(world, FIRST, "hello")
    (begun,) = world.records(r.ConversationStarted, SECOND)
    assert begun.address == here


@pytest.mark.parametrize("chat", [KITCHEN, NO_GROUP])
@virtual_time
async def test_what_is_quoted_from_the_same_chat_is_answered(chat: Mapping[str, object]) -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, conversation=FIRST, address=chat)
        assert quote(daemon, SECOND, chat, FIRST, starts=False) == "admitted"
        await recorded(world, FIRST, "hello", "and this?")
    async with world.daemon() as daemon:
        assert quote(daemon, THIRD, chat, SECOND) == "admitted"
        await recorded(world, FIRST, "hello", "and this?", "and this?")


@virtual_time
async def test_what_a_chat_quotes_from_a_thread_or_from_direct_messages_is_only_quoted() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, conversation=FIRST, address=THREAD)
        daemon.write("psst", event_id=SECOND, room=ROOM)
        assert quote(daemon, THIRD, NO_GROUP, FIRST) == "admitted"
        assert quote(daemon, "4" * 64, NO_GROUP, SECOND) == "admitted"
        await recorded(world, THIRD, "and this?")
        await recorded(world, "4" * 64, "and this?")
    await recorded(world, FIRST, "hello")
    await recorded(world, SECOND, "psst")


@virtual_time
async def test_a_reply_in_a_thread_from_outside_of_its_group_stays_in_the_thread() -> None:
    world = World(longest_way, worker)
    async with world.daemon() as daemon:
        daemon.write("hello", event_id=FIRST, conversation=FIRST, address={**THREAD, "group": "kitchen"})
        assert daemon.write("more", conversation=FIRST, reply_to=FIRST, address=THREAD) == "admitted"
        await recorded(world, FIRST, "hello", "more")
    assert set(world.books) == {ConversationId(FIRST)}
