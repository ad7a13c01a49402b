"""Words on their way to relays: in order, past one that meets a fault of ours, and none of them lost."""

import asyncio
import itertools
from collections import Counter
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.ports import PublishOutcome, UnsignedEvent
from tenex.runtime.outbox import AGAIN, Outbox
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import ALICE, RELAY, longest_way
from tests.fakes.virtual import run, virtual_time

HERE = ConversationId("c" * 64)
SLOW = PublicKey("5" * 64)
"""A key whose signatures may take long."""


def word(number: int) -> UnsignedEvent:
    return UnsignedEvent(
        id=EventId(f"{number:064x}"), pubkey=ALICE, created_at=number, kind=1, tags=(), content=f"{number}"
    )


class Faulty:
    """A relay behind a program that fails so many times before it sends an event."""

    def __init__(self, event: int, times: int) -> None:
        self.faults = {f"{event}": times}
        self.tries: dict[str, list[float]] = {}
        self.taken: list[str] = []

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        tries = self.tries.setdefault(event.content, [])
        tries.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)
        if len(tries) <= self.faults.get(event.content, 0):
            raise RuntimeError("a fault of ours")
        self.taken.append(event.content)
        return PublishOutcome(accepted=True)


def send(faulty: Faulty, count: int) -> list[PublishOutcome]:
    async def main() -> list[PublishOutcome]:
        outbox = Outbox(faulty)
        outcomes = await asyncio.gather(*(outbox.publish(HERE, word(n), RELAY) for n in range(count)))
        assert not outbox._lanes, "an unused lane is forgotten"
        return outcomes

    return run(main)


def test_a_fault_of_ours_is_tried_again_and_lets_the_others_pass() -> None:
    faulty = Faulty(1, times=3)
    assert all(outcome.accepted for outcome in send(faulty, 4))
    assert faulty.taken == ["0", "2", "3", "1"]


def test_the_waits_grow_and_are_bounded() -> None:
    faulty = Faulty(0, times=12)
    send(faulty, 1)
    tries = faulty.tries["0"]
    waits = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, *[round(AGAIN[1])] * 3]


@virtual_time
async def test_a_key_whose_signatures_take_long_delays_no_other_and_keeps_its_own_order() -> None:
    signer = asyncio.Event()
    taken: list[str] = []

    class Signing:
        async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
            if event.pubkey == SLOW:
                await signer.wait()
            taken.append(event.content)
            return PublishOutcome(accepted=True)

    outbox = Outbox(Signing(), lambda pubkey: pubkey == SLOW)
    events = [replace(word(number), pubkey=SLOW if number < 3 else ALICE) for number in range(6)]
    sending = [asyncio.create_task(outbox.publish(HERE, event, RELAY)) for event in events]
    await asyncio.sleep(3600)
    assert taken == ["3", "4", "5"]
    signer.set()
    await asyncio.gather(*sending)
    assert taken == ["3", "4", "5", "0", "1", "2"]
    assert not outbox._lanes


@pytest.mark.parametrize("restarts", [False, True])
@virtual_time
async def test_no_word_is_lost_to_a_publisher_that_raises(*, restarts: bool) -> None:
    world = World(longest_way, worker)
    publish, failed = world.publish, Counter[str]()

    async def faulty(event: UnsignedEvent, relay: str) -> PublishOutcome:
        failed[event.id] += 1
        if failed[event.id] <= 1 + event.created_at % 2:
            raise RuntimeError("a fault of ours")
        return await publish(event, relay)

    world.publish = faulty  # type: ignore[method-assign]

    async with world.daemon(kill=restarts) as daemon:
        daemon.write("hello")
        if restarts:
            await asyncio.sleep(0.3)
        else:
            await daemon.until("waiting")
    async with world.daemon() as daemon:
        daemon.write("think")
        await daemon.until("waiting")
    messages = [event.id for rec in world.observed if isinstance(rec, r.MessageSent) for event in rec.events]
    assert len(messages) >= 2
    assert set(messages) == set(world.published)
    assert {rec.accepted for rec in world.observed if isinstance(rec, r.Delivered)} == {True}
