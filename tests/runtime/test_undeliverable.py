"""Messages that cannot be journaled: their authors are notified once, nothing is lost, and work goes on when it can."""

import asyncio

import pytest

from tenex.core.config import PeerGroup
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.inbox.records import MessageRecorded
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.records import Record
from tenex.runtime.coordinator import ConversationCoordinator
from tests.fakes.runtime import MemoryJournal, World
from tests.fakes.scenario import ALICE, one_turn, reply
from tests.fakes.virtual import run, virtual_time

BOB = PublicKey("b" * 64)
HERE, THERE = "c" * 64, "d" * 64


class Spoiled(World):
    """A world whose disk has damaged conversations."""

    def __init__(self, *damaged: str) -> None:
        super().__init__(one_turn(then="END"), lambda _: reply("done"))
        self.damaged = {*damaged}
        self.peers = PeerGroup(owners=frozenset({ALICE, BOB}))

    async def open(self, conversation: ConversationId) -> tuple[MemoryJournal, list[Record]]:
        if conversation in self.damaged:
            raise StoreDamaged("line 3 cannot be right")
        return await super().open(conversation)

    def notified(self, word: str) -> list[str]:
        """The published notices of a failure, in order."""
        return [text for text in self.order if word in text]


def wrote(world: World) -> list[str]:
    """The texts of people's messages in the journal."""
    return [record.text for record in world.records(MessageRecorded)]


async def until_notified(world: Spoiled, word: str, times: int = 1) -> None:
    async with asyncio.timeout(300):
        while len(world.notified(word)) < times:
            await asyncio.sleep(0.05)


@virtual_time
async def test_a_message_to_a_damaged_conversation_is_reported_once_and_handled_after_the_repair() -> None:
    world = Spoiled(HERE)
    async with world.daemon() as daemon:
        daemon.write("one")
        daemon.write("for the other", conversation=THERE)
        await until_notified(world, "damaged")
        daemon.write("two")
        daemon.write("me too", author=BOB)
        await until_notified(world, "damaged", 2)
        await daemon.until("ended", THERE)
        world.damaged.clear()
        daemon.write("three")
        await daemon.until("ended")
        assert wrote(world) == ["one", "two", "me too", "three"]
    assert len(world.notified("damaged")) == 2
    assert all(count == 1 for count in world.sent.values())


@virtual_time
async def test_a_restart_with_the_same_damage_publishes_the_same_event_whatever_comes_first() -> None:
    world = Spoiled(HERE)
    for times, order in enumerate((("7", "8"), ("8", "7")), 1):
        async with world.daemon() as daemon:
            for name in order:
                daemon.write(f"number {name}", event_id=name * 64, created_at=1_700_000_000)
            await until_notified(world, "damaged", times)
            assert daemon.runtime.coordinator.unjournaled_since() == 1_700_000_000
    assert list(world.sent.values()) == [2]
    world.damaged.clear()
    async with world.daemon() as daemon:
        daemon.write("number 7", event_id="7" * 64, created_at=1_700_000_000)
        await daemon.until("ended")
        assert wrote(world) == ["number 7"]
        assert daemon.runtime.coordinator.unjournaled_since() is None
        assert not world.notices.open_notices()
    world.damaged = {HERE}
    async with world.daemon() as daemon:
        daemon.write("number 9", event_id="9" * 64, created_at=1_700_000_900)
        await until_notified(world, "damaged", 2)
        world.damaged.clear()
        daemon.runtime.coordinator.retry_held()  # as when the configuration has been read again
        await daemon.until("ended")
        assert wrote(world) == ["number 7", "number 9"]


@virtual_time
async def test_damage_after_a_repair_is_reported_again() -> None:
    world = Spoiled()
    async with world.daemon() as daemon:
        for times in (1, 2, 3):
            world.damaged = {HERE}
            daemon.write("and now?")
            await until_notified(world, "damaged", times)
            world.damaged.clear()
            daemon.write("fixed?")
            await daemon.until("ended")
            assert not world.notices.open_notices()
            while list(daemon.runtime.coordinator):
                await asyncio.sleep(1)
    assert set(world.sent.values()) == {1}


@virtual_time
async def test_a_full_disk_is_reported_once_to_waiting_users_and_answered_when_there_is_room() -> None:
    world = Spoiled()
    async with world.daemon() as daemon:
        for outage in (1, 2):
            world.fail_append = lambda _: 0
            daemon.write(f"request {outage}")
            await until_notified(world, "disk", outage)
            assert daemon.runtime.coordinator.unjournaled_since() is not None
            daemon.write(f"and more {outage}")
            await asyncio.sleep(90)
            assert len(world.notified("disk")) == outage
            world.fail_append = None
            await daemon.until("ended")
            assert daemon.runtime.coordinator.unjournaled_since() is None
        texts = wrote(world)
        assert texts == ["request 1", "and more 1", "request 2", "and more 2"]


def test_a_full_disk_during_work_is_reported_to_the_user() -> None:
    async def scenario(appends: int) -> bool:
        world = Spoiled()
        async with world.daemon() as daemon:
            world.fail_append = lambda number: 0 if number > appends else None
            daemon.write("one")
            await asyncio.sleep(60)
            was_suspended = any(actor.is_suspended for actor in daemon.runtime.coordinator)
            assert len(world.notified("disk")) == was_suspended
            assert bool(wrote(world)) == (appends > 0)
            world.fail_append = None
            await daemon.until("ended")
        assert [event.content for event in world.published.values()].count("done") == 1
        return was_suspended

    suspended_at = [run(lambda at=at: scenario(at)) for at in range(8)]  # type: ignore[misc]
    assert suspended_at[:4] == [True] * 4
    assert not suspended_at[-1]


@virtual_time
async def test_stopping_on_a_full_disk_keeps_the_unjournaled_message() -> None:
    world = Spoiled()
    world.fail_append = lambda _: 0
    coordinator: ConversationCoordinator
    async with world.daemon() as daemon:
        coordinator = daemon.runtime.coordinator
        daemon.write("one", created_at=1_700_000_123)
        while not any(actor.is_suspended for actor in daemon.runtime.coordinator):
            await asyncio.sleep(0.05)
    assert list(coordinator) == []
    assert coordinator.unjournaled_since() == 1_700_000_123


@virtual_time
async def test_a_notice_that_no_relay_takes_does_not_keep_the_daemon_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(event: UnsignedEvent, relay: str) -> None:
        await asyncio.sleep(10_000)

    world = Spoiled(HERE)
    monkeypatch.setattr(world, "publish", away)
    async with world.daemon() as daemon:
        daemon.write("one")
        await asyncio.sleep(1)
        began = world.clock.now()
    assert world.clock.now() - began < 5_000


@pytest.mark.parametrize("fault", [LookupError("no such form"), ZeroDivisionError()])
@virtual_time
async def test_a_notice_that_cannot_be_put_into_words_costs_only_itself(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Spoiled(HERE)
    seal = world.seal

    def strange(draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        if "damaged" in draft.text:
            raise fault
        return seal(draft)

    monkeypatch.setattr(world, "seal", strange)
    async with world.daemon() as daemon:
        daemon.write("one")
        daemon.write("other", conversation=THERE)
        await daemon.until("ended", THERE)
    assert not world.notified("damaged")
