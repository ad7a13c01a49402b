"""What went wrong on disk and in what was measured (B11 to B14, B25)."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.core.ids import ConversationId
from tenex.store import atomic
from tenex.store.disk import Disk
from tenex.store.index_reader import open_catalogue
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.search_words import match_of
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import ID, WAITS, Scenario, one_turn, reply
from tests.fakes.virtual import virtual_time
from tests.store.kit import StillClock, asked, started

OTHER = ConversationId("a" * 64)


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[tuple[ConversationFolder, Scenario]]:
    """A conversation of a user with the planner, and one in which no one has worked."""
    disk = Disk()
    folder = ConversationFolder(tmp_path / "held", disk, StillClock())
    answer = "The weather service answers in Kelvin, so I convert it"
    scenario = Scenario(one_turn("planner", "plan"), lambda *_: reply(answer))
    scenario.converse("Show the temperature in the corridor")
    for name, decisions in ((ID, scenario.journal), (OTHER, [(started(OTHER), asked(2))])):
        journal, _ = await folder.open(name)
        await journal.append(decisions)
    yield folder, scenario
    await folder.close()
    disk.close()


def test_b11_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files were written in place; a crash in the middle left half of one."""
    path = tmp_path / "conversation.json"
    atomic.replace(path, b'{"old": 1}')

    def breaks(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write_all", breaks)
        with pytest.raises(OSError, match="No space"):
            atomic.replace(path, b'{"new": 2}')
    assert path.read_bytes() == b'{"old": 1}'
    assert [left.name for left in tmp_path.iterdir()] == [path.name]
    atomic.replace(path, b'{"new": 2}')
    assert path.read_bytes() == b'{"new": 2}', "one write that failed does not keep the next from succeeding"


@virtual_time
async def test_b12_a_conversation_that_has_ended_is_found_where_it_was() -> None:
    """An archived one was looked for where the others lie, and could not be loaded."""
    world = World(one_turn(then="END"), lambda request: reply("done"))
    for cycle in (1, 2):
        async with world.daemon() as daemon:
            daemon.write("hello")
            assert (await daemon.until("ended")).cycle.number == cycle


async def test_b13_words_in_the_middle_of_any_message_are_found_and_the_agent_asked_for_is_heeded(
    held: tuple[ConversationFolder, Scenario],
) -> None:
    """Search looked at titles only, and one for an agent's key found the conversations of all."""
    folder, scenario = held
    (run,) = scenario.records(r.RunStarted)
    async with open_catalogue(folder) as catalogue:
        for words in ("temperature", "kelvin convert", '"service answers"', "corr"):
            assert [one.row.id for one in await catalogue.search(match_of(words), Filter(), 20)] == [ID], words
        assert await catalogue.search(match_of("fahrenheit"), Filter(), 20) == []
        assert {row.id for row in await catalogue.rows(Filter())} == {OTHER, ID}
        for agent in ("planner", run.pubkey):
            assert [row.id for row in await catalogue.rows(Filter(agent=agent))] == [ID]
            assert [one.row.id for one in await catalogue.search(match_of("corridor"), Filter(agent=agent), 20)] == [ID]
        assert await catalogue.search(match_of("corridor"), Filter(agent="executor"), 20) == []


@virtual_time
async def test_b14_an_event_counts_as_received_only_once_it_is_on_disk() -> None:
    """Its id was kept before it was dealt with: after a crash it was neither handled nor received again."""
    world = World(lambda question: WAITS, lambda request: reply("done"))
    world.append_time = 60.0
    async with world.daemon(kill=True) as daemon:
        assert daemon.write("hello", event_id="e" * 64) == "admitted"
        assert daemon.write("hello", event_id="e" * 64) == "duplicate", "in one life it is received once"
    assert not any(world.books.values()), "the daemon died before anything was on disk"
    world.append_time = 0.0
    async with world.daemon() as daemon:
        assert daemon.write("hello", event_id="e" * 64) == "admitted"
        await daemon.until("waiting")
    async with world.daemon() as daemon:
        assert daemon.write("hello", event_id="e" * 64) == "duplicate"
    assert len(world.records(r.MessageRecorded)) == 1


@virtual_time
async def test_b25_how_long_a_call_took_is_measured() -> None:
    """Every call was logged with a duration of one second."""
    world = World(one_turn("executor", "execute"), worker)
    world.work = 7.0
    async with world.daemon() as daemon:
        daemon.write("build it")
        await daemon.until("waiting")
    began = {record.call: record.at for record in world.records(r.ToolCallStarted)}
    took = [record.at - began[record.call] for record in world.records(r.ToolCallCompleted)]
    assert len(took) == 3
    assert all(6_990 <= milliseconds < 7_100 for milliseconds in took), took
