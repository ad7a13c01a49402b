"""Messages that no journal takes: their authors are told once, nothing is lost, and all goes on when it can."""

import asyncio
import hashlib
from typing import Any

import pytest

from tenex.core.config import PeerGroup, Policy
from tenex.core.conversation import Conversation
from tenex.core.decide.dispatch import decide
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.ports import OutgoingMessage, PublishOutcome, UnsignedEvent
from tenex.core.records import MessageRecorded, Record
from tenex.core.signals import InboundMessage, MessageReceived, Signal
from tenex.runtime.actor import MAX_FAILURES
from tenex.runtime.coordinator import ConversationCoordinator
from tests.fakes.runtime import Daemon, MemoryJournal, World
from tests.fakes.scenario import ALICE, reply
from tests.fakes.virtual import run

BOB = PublicKey("b" * 64)
HERE, THERE = "c" * 64, "d" * 64


def talk(question: dict[str, Any]) -> dict[str, Any]:
    """A router that has each message answered once, and then ends the cycle."""
    turns, newest = question["turns"], question["messages"][-1]
    is_new = not turns or newest["after_turn"] == turns[-1]["turn"]
    return {"agents": ["project-manager"] if is_new else ["END"], "reason": "as it is"}


class Spoiled(World):
    """A world whose disk has damaged conversations."""

    def __init__(self) -> None:
        super().__init__(talk, lambda _: reply("done"))
        self.damaged: set[str] = set()
        self.circle = PeerGroup(owners=frozenset({ALICE, BOB}))

    async def open(self, conversation: ConversationId) -> tuple[MemoryJournal, list[Record]]:
        if conversation in self.damaged:
            raise StoreDamaged("line 3 cannot be right")
        return await super().open(conversation)

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """As the real one does: the id follows from everything in the event, and the tags name who is answered."""
        tags = (*draft.tags, ("e", str(draft.reply_to.get("id", ""))))
        name = f"{draft.speaker}{draft.created_at}{tags}{draft.text}".encode()
        event = UnsignedEvent(
            id=EventId(hashlib.sha256(name).hexdigest()),
            pubkey=draft.speaker,
            created_at=draft.created_at,
            kind=1,
            tags=tags,
            content=draft.text,
        )
        return (event,)

    def notified(self, word: str) -> list[str]:
        """What was said about a trouble, in the order in which relays took it."""
        return [text for text in self.order if word in text]


def speak(
    daemon: Daemon, text: str, *, conversation: str = HERE, author: PublicKey = ALICE, at: int = 0, name: str = ""
) -> None:
    """Write a message that says, as real ones do, what an answer has to name."""
    world = daemon.world
    world.ids += 1
    event = EventId(name or f"{world.ids:064x}")
    message = InboundMessage(
        event_id=event,
        author=author,
        text=text,
        created_at=at or world.clock.now() // 1000,
        conversation=ConversationId(conversation),
        starts=True,
        address={"form": "notes"},
        origin={"form": "notes", "id": event, "author": author},
    )
    assert daemon.runtime.inbox.receive(message) == "admitted"
    daemon.sent.setdefault(conversation, set()).add(event)


def wrote(state: Conversation, world: World) -> list[str]:
    """The texts of people's messages a journal holds."""
    book = world.books.get(state.id, [])
    return [record.text for decision in book for record in decision if isinstance(record, MessageRecorded)]


async def until_told(world: Spoiled, word: str, times: int = 1) -> None:
    async with asyncio.timeout(300):
        while len(world.notified(word)) < times:
            await asyncio.sleep(0.05)


def test_who_writes_into_a_damaged_conversation_is_told_once_and_heard_when_it_is_mended() -> None:
    """Each person once; the messages are taken in, in order, with the first that comes after the mend."""

    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        async with world.daemon() as daemon:
            speak(daemon, "one")
            speak(daemon, "for the other", conversation=THERE)
            await until_told(world, "damaged")
            speak(daemon, "two")
            speak(daemon, "me too", author=BOB)
            await until_told(world, "damaged", 2)
            await daemon.until("ended", THERE)
            world.damaged.clear()
            speak(daemon, "three")
            state = await daemon.until("ended")
            assert wrote(state, world) == ["one", "two", "me too", "three"]
        assert len(world.notified("damaged")) == 2
        assert all(count == 1 for count in world.sent.values())

    run(scenario)


def test_a_restart_that_finds_the_same_damage_says_the_same_event() -> None:
    """So relays drop it; and what was refused is taken in by the process that finds the files mended."""

    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        for times in (1, 2):
            async with world.daemon() as daemon:
                speak(daemon, "one", name="7" * 64, at=1_700_000_000)
                await until_told(world, "damaged", times)
                assert daemon.runtime.coordinator.unjournaled_since() == 1_700_000_000
        assert sorted(world.sent.values()) == [2]
        world.damaged.clear()
        async with world.daemon() as daemon:
            speak(daemon, "one", name="7" * 64, at=1_700_000_000)
            state = await daemon.until("ended")
            assert wrote(state, world) == ["one"]
            assert daemon.runtime.coordinator.unjournaled_since() is None

    run(scenario)


def test_relays_that_give_the_messages_in_another_order_after_a_restart_hear_the_same_event() -> None:
    """Two messages of one second have no order of their own; and a mended conversation tells of new damage anew."""

    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        for times, order in enumerate((("7", "8"), ("8", "7")), 1):
            async with world.daemon() as daemon:
                for name in order:
                    speak(daemon, f"number {name}", name=name * 64, at=1_700_000_000)
                await until_told(world, "damaged", times)
        assert list(world.sent.values()) == [2]
        world.damaged.clear()
        async with world.daemon() as daemon:
            speak(daemon, "number 7", name="7" * 64, at=1_700_000_000)
            await daemon.until("ended")
            assert not world.notices.open_notices()
        world.damaged = {HERE}
        async with world.daemon() as daemon:
            speak(daemon, "number 9", name="9" * 64, at=1_700_000_900)
            await until_told(world, "damaged", 2)

    run(scenario)


def test_damage_after_a_mend_is_told_anew() -> None:
    """With an event of its own: relays would drop the one of the damage before."""

    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        async with world.daemon() as daemon:
            speak(daemon, "one")
            await until_told(world, "damaged")
        for times in (2, 3):
            async with world.daemon() as daemon:
                world.damaged.clear()
                speak(daemon, "mended?")
                await daemon.until("ended")
                assert not world.notices.open_notices()
                while list(daemon.runtime.coordinator):
                    await asyncio.sleep(1)
                world.damaged = {HERE}
                speak(daemon, "and now?")
                await until_told(world, "damaged", times)
                world.damaged.clear()
                speak(daemon, "mended again")
                await daemon.until("ended")
                assert not world.notices.open_notices(), "a note of this process is let go of as well"
                world.damaged = {HERE}
        assert set(world.sent.values()) == {1}

    run(scenario)


def test_what_was_refused_is_tried_again_when_the_configuration_is_read_again() -> None:
    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        async with world.daemon() as daemon:
            speak(daemon, "one")
            await until_told(world, "damaged")
            world.damaged.clear()
            daemon.runtime.coordinator.retry_held()
            assert wrote(await daemon.until("ended"), world) == ["one"]

    run(scenario)


def full(world: World) -> None:
    """Have the disk take nothing more."""
    world.fail_append = lambda _: 0


async def frozen(daemon: Daemon) -> None:
    async with asyncio.timeout(60):
        while not any(actor.is_suspended for actor in daemon.runtime.coordinator):
            await asyncio.sleep(0.05)


def test_a_disk_that_fails_for_a_moment_is_nothing_to_speak_of() -> None:
    async def scenario() -> None:
        world = Spoiled()
        full(world)
        async with world.daemon() as daemon:
            speak(daemon, "one")
            await frozen(daemon)
            await asyncio.sleep(1.0)
            world.fail_append = None
            await daemon.until("ended")
        assert not world.notified("disk")

    run(scenario)


def test_whoever_waits_on_a_full_disk_is_told_once_and_answered_when_there_is_room() -> None:
    """Messages that come meanwhile too; a second frost is told anew."""

    async def scenario() -> None:
        world = Spoiled()
        async with world.daemon() as daemon:
            for frost in (1, 2):
                full(world)
                speak(daemon, f"request {frost}")
                await until_told(world, "disk", frost)
                assert daemon.runtime.coordinator.unjournaled_since() is not None
                speak(daemon, f"and more {frost}")
                await asyncio.sleep(90)
                assert len(world.notified("disk")) == frost
                world.fail_append = None
                await daemon.until("ended")
                assert daemon.runtime.coordinator.unjournaled_since() is None
            texts = wrote(daemon.state(), world)
            assert texts == ["request 1", "and more 1", "request 2", "and more 2"]

    run(scenario)


def test_who_waits_for_work_that_cannot_be_written_down_is_told_too() -> None:
    """Their message is durable, and the answer to it is not: it may be the last of the cycle, too."""

    async def scenario(appends: int) -> bool:
        world = Spoiled()
        async with world.daemon() as daemon:
            world.fail_append = lambda number: 0 if number > appends else None
            speak(daemon, "one")
            await asyncio.sleep(60)
            was_frozen = any(actor.is_suspended for actor in daemon.runtime.coordinator)
            assert len(world.notified("disk")) == was_frozen
            assert bool(wrote(daemon.state(), world)) == (appends > 0)
            world.fail_append = None
            await daemon.until("ended")
        assert [event.content for event in world.published.values()].count("done") == 1
        return was_frozen

    frozen_at = [run(lambda at=at: scenario(at)) for at in range(8)]  # type: ignore[misc]
    assert frozen_at[:4] == [True] * 4
    assert not frozen_at[-1]


def test_stopping_on_a_full_disk_does_not_forget_that_a_message_is_owed() -> None:
    """The last note of how far relays were heard is made after the actors have gone."""

    async def scenario() -> None:
        world = Spoiled()
        full(world)
        coordinator: ConversationCoordinator
        async with world.daemon() as daemon:
            coordinator = daemon.runtime.coordinator
            speak(daemon, "one", at=1_700_000_123)
            await frozen(daemon)
        assert list(coordinator) == []
        assert coordinator.unjournaled_since() == 1_700_000_123

    run(scenario)


class Gone(Spoiled):
    """A world in which no relay answers for a notice."""

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Wait for ever."""
        if "damaged" in event.content:
            await asyncio.sleep(10_000)
        return await super().publish(event, relay)


def test_a_notice_that_no_relay_takes_does_not_keep_the_daemon_from_stopping() -> None:
    async def scenario() -> None:
        world = Gone()
        world.damaged = {HERE}
        async with world.daemon() as daemon:
            speak(daemon, "one")
            await asyncio.sleep(1)
            began = world.clock.now()
        assert world.clock.now() - began < 5_000

    run(scenario)


@pytest.mark.parametrize("fault", [LookupError("no such form"), ZeroDivisionError()])
def test_a_notice_that_cannot_be_put_into_words_costs_only_itself(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that cannot be answered, or a fault of ours: nobody else's conversation ends of it."""

    async def scenario() -> None:
        world = Spoiled()
        world.damaged = {HERE}
        seal = world.seal

        def strange(draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
            if "damaged" in draft.text:
                raise fault
            return seal(draft)

        monkeypatch.setattr(world, "seal", strange)
        async with world.daemon() as daemon:
            speak(daemon, "one")
            speak(daemon, "other", conversation=THERE)
            await daemon.until("ended", THERE)
        assert not world.notified("damaged")

    run(scenario)


def test_a_message_that_a_fault_of_ours_refuses_is_told_to_its_author(monkeypatch: pytest.MonkeyPatch) -> None:
    """After three tries it is put aside, and the next message is heard."""

    async def scenario() -> None:
        world = Spoiled()

        def odd(state: Conversation, signal: Signal, rules: Policy, now: Millis) -> list[Record]:
            if isinstance(signal, MessageReceived) and signal.message.text == "odd":
                tries.append(signal)
                raise ZeroDivisionError
            return decide(state, signal, rules, now)

        tries: list[Signal] = []
        monkeypatch.setattr("tenex.runtime.actor.decide", odd)
        async with world.daemon() as daemon:
            speak(daemon, "odd")
            await until_told(world, "internal error")
            assert len(tries) == 1 + MAX_FAILURES, (
                "the first try was in one batch with the signal that opened the conversation"
            )
            daemon.sent.clear()
            speak(daemon, "even")
            assert wrote(await daemon.until("ended"), world) == ["even"]
        assert len(world.notified("internal error")) == 1

    run(scenario)
