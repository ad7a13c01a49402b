"""The readable view: of what is durable, and soon, however busy the conversation."""

import asyncio

import pytest

from tenex.core.conversation import Conversation
from tenex.runtime import view_writer
from tests.fakes.runtime import World
from tests.fakes.scenario import ID, longest_way, reply
from tests.fakes.virtual import virtual_time


class Watched(World):
    """Notes when a view was written, and that it showed exactly what the disk has."""

    def __init__(self) -> None:
        super().__init__(longest_way, lambda request: reply(f"{request.agent} is done"))
        self.times: list[float] = []

    async def show(self, conversation: Conversation) -> None:
        durable = sum(map(len, self.books[conversation.id]))
        assert conversation.next_seq - 1 == durable
        self.times.append(asyncio.get_running_loop().time())
        await super().show(conversation)


@virtual_time
async def test_a_conversation_that_never_pauses_is_shown_all_the_same() -> None:
    world = Watched()

    async with world.daemon() as daemon:
        for number in range(400):
            daemon.write(f"message {number}")
            await asyncio.sleep(0.0071)
        assert world.times, "shown while it was busy"
        assert max(b - a for a, b in zip([0.0, *world.times], world.times, strict=False)) < 1.3


@virtual_time
async def test_after_a_failed_append_only_what_was_read_again_is_shown() -> None:
    world = Watched()
    world.fail_append = lambda number: 0 if number % 7 == 3 else None

    async with world.daemon() as daemon:
        for number in range(40):
            daemon.write(f"message {number}")
            await asyncio.sleep(0.17)
        world.fail_append = None
        await daemon.until("ended")
    assert world.times
    assert world.shown == {ID: len(world.records())}


@virtual_time
async def test_however_many_are_busy_only_so_many_views_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_writer, "SHOW_PACE", 0.1)
    world = Watched()
    busy = [f"{number:064x}" for number in range(10, 20)]

    async with world.daemon() as daemon:
        for _ in range(16):
            for conversation in busy:
                daemon.write("hello", conversation=conversation)
            await asyncio.sleep(0.25)
        assert 10 <= len(world.times) <= 40, "of 160 pauses in 4 s"
        for conversation in busy:
            await daemon.until("ended", conversation)
        await asyncio.sleep(3)
        assert {name: world.shown[name] for name in world.books} == {
            name: sum(map(len, book)) for name, book in world.books.items()
        }


@virtual_time
async def test_a_view_of_the_same_records_is_not_written_again_when_the_daemon_stops() -> None:
    world = Watched()

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        await asyncio.sleep(3)
        written = len(world.times)
        assert world.shown == {ID: len(world.records())}
    assert len(world.times) == written


@virtual_time
async def test_a_view_that_is_being_written_when_the_daemon_stops_is_not_written_again() -> None:
    world = Watched()
    begun: list[int] = []

    async def takes_its_time(conversation: Conversation) -> None:
        begun.append(conversation.next_seq)
        await asyncio.sleep(2)
        await Watched.show(world, conversation)

    world.show = takes_its_time  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        while not begun or begun[-1] <= len(world.records()):
            await asyncio.sleep(0.01)
    assert world.shown == {ID: len(world.records())}
    assert len(begun) == len(set(begun))


@virtual_time
async def test_a_view_that_could_not_be_written_is_tried_again_though_nothing_happens() -> None:
    world = Watched()
    tries: list[float] = []

    async def fails(conversation: Conversation) -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) <= 8:
            raise OSError(28, "No space left on device")
        await Watched.show(world, conversation)

    world.show = fails  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        await asyncio.sleep(20)
        assert 4 <= len(tries) <= 6
        await asyncio.sleep(280)
        assert world.shown == {ID: sum(map(len, world.books[ID]))}
        assert list(daemon.runtime.coordinator) == []
