"""Direct messages that waited at a relay are handed on in the order of writing, whatever the dates of their wraps."""

import asyncio
from random import Random
from typing import Any

from tenex.app.direct_messages import DirectMessages
from tenex.core.config import Role
from tenex.core.ids import EventId, PublicKey
from tenex.core.signals import InboundMessage
from tenex.nostr.direct import wrapped
from tenex.nostr.events import parse_event, unsigned_event
from tenex.nostr.history_buffer import AT_ONCE, HistoryBuffer
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading.direct import CHAT
from tests.fakes.virtual import VirtualClock, virtual_time
from tests.service.chats import wire

OURS, THEIRS = SecretKey.generate(), SecretKey.generate()
MESSAGES = 3 * AT_ONCE
RELAY = "ws://relay.example"


class NoRelays:
    """Relays that have nothing."""

    async def fetch(self, filters: Any, seconds: float) -> list[Any]:
        return []


@virtual_time
async def test_many_that_waited_are_handed_on_in_the_order_of_writing() -> None:
    received: list[str] = []

    def receive(message: InboundMessage, is_new: bool) -> None:
        received.append(message.text)

    def delete(event: EventId, author: PublicKey) -> None:
        raise AssertionError

    unused: Any = None
    pool: Any = NoRelays()
    messages = DirectMessages(
        pool,
        unused,
        {OURS.public: OURS},
        unused,
        VirtualClock(),
        role=lambda author: Role.OWNER if author == THEIRS.public else None,
        slugs=dict,
        relays=[RELAY],
        receive=receive,
        delete=delete,
    )
    rumors = [
        unsigned_event(THEIRS.public, 1_700_000_000 + number, CHAT, [["p", OURS.public]], str(number))
        for number in range(MESSAGES)
    ]
    wraps = [wire(wrapped(rumor, OURS.public, THEIRS)) for rumor in rumors]
    Random(1).shuffle(wraps)
    buffer = HistoryBuffer(lambda raw: messages.on_event(parse_event(raw), RELAY, is_new=False), patience=60)
    buffer.expect(messages)
    for raw in wraps:
        buffer.add(raw, len(raw["content"]))
    buffer.done(messages)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work()) for work in (buffer.run, messages.run)]
        async with asyncio.timeout(60):
            while len(received) < MESSAGES:
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    assert received == [str(number) for number in range(MESSAGES)]
