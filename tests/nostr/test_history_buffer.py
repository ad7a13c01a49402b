"""Holding the past until it can be handed on in the order it was written."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from tenex.nostr.history_buffer import HistoryBuffer, in_order

from .kit import until

READER = object()


class Taken:
    """What was handed on."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, raw: dict[str, Any]) -> None:
        self.names.append(raw["id"])


@asynccontextmanager
async def holding(
    patience: float = 60.0, most: int = 100, most_characters: int = 10_000
) -> AsyncIterator[tuple[HistoryBuffer, Taken]]:
    """A buffer that waits for one reader and drops what is named `known`, and what it has handed on."""
    taken = Taken()
    buffer = HistoryBuffer(
        taken, patience, is_known=lambda raw: raw["id"] == "known", most=most, most_characters=most_characters
    )
    buffer.expect(READER)
    task = asyncio.create_task(buffer.run())
    try:
        yield buffer, taken
    finally:
        task.cancel()
        await asyncio.wait({task})


def put(buffer: HistoryBuffer, name: str, at: int, characters: int = 1) -> Any:
    return buffer.add({"id": name, "created_at": at}, characters)


async def turn_over() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def finish(buffer: HistoryBuffer) -> None:
    """End the reader, and wait until everything is handed on."""
    buffer.done(READER)
    await asyncio.wait_for(buffer.delivered(), 60)


async def test_what_was_written_first_is_handed_on_first_and_ties_by_id() -> None:
    async with holding() as (buffer, taken):
        for name, at in (("new", 9), ("tie b", 5), ("tie a", 5), ("old", 1)):
            assert put(buffer, name, at) is None
        await turn_over()
        assert taken.names == []
        assert not buffer.is_empty
        await finish(buffer)
        assert taken.names == ["old", "tie a", "tie b", "new"]
        put(buffer, "later", 0)  # no reader is expected now
        await until(lambda: taken.names[4:] == ["later"])


async def test_what_was_taken_before_is_not_held() -> None:
    async with holding(most=3) as (buffer, taken):
        for number in range(10):  # of what is held three would be too many
            assert put(buffer, "known", number) is None
        assert buffer.is_empty
        put(buffer, "new", 11)
        await turn_over()
        assert taken.names == []
        await finish(buffer)
        assert taken.names == ["new"]


async def test_pages_that_are_read_again_do_not_postpone_what_they_brought() -> None:
    """As on a relay that never ends a page, where two readers ask for the same again and again."""
    async with holding(patience=0.2) as (buffer, taken), asyncio.timeout(20):
        while not taken.names:
            put(buffer, "a", 1)
            await asyncio.sleep(0.05)
        assert taken.names == ["a"]


async def test_more_than_fits_is_handed_on_in_order_at_once_and_the_rest_after_it() -> None:
    async with holding(most=3) as (buffer, taken):
        for at in (9, 8, 7, 6, 5):
            waiting = put(buffer, str(at), at)
            if waiting is not None:
                await asyncio.wait_for(waiting, 5)
        await until(lambda: len(taken.names) == 3)
        await turn_over()
        assert taken.names == ["7", "8", "9"]
        await finish(buffer)
        assert taken.names == ["7", "8", "9", "5", "6"]


async def test_large_frames_fill_it_sooner() -> None:
    async with holding(most_characters=100) as (buffer, taken):
        assert put(buffer, "b", 2, 60) is None
        await asyncio.wait_for(put(buffer, "a", 1, 60), 5)
        await until(lambda: taken.names == ["a", "b"])


def test_of_one_second_an_answer_comes_after_what_it_answers() -> None:
    """Ids decide nothing a person would see; a reply written in the same second must not open the conversation."""

    def event(name: str, at: int, *answers: str) -> dict[str, Any]:
        return {"id": name, "created_at": at, "tags": [["p", "x"], *(["e", other, "", "root"] for other in answers)]}

    root, reply, again = event("c", 5), event("b", 5, "c"), event("a", 5, "c", "b")
    before, after = event("z", 4), event("0", 6, "c")
    assert in_order([after, again, reply, root, before]) == [before, root, reply, again, after]


def test_a_chain_of_answers_of_one_second_is_ordered_in_linear_time() -> None:
    """Each round over all that is left would take a minute here, during which nothing else runs."""
    ids = [f"{number * 7919 % 20_011:064x}" for number in range(20_000)]
    chain = [
        {"id": name, "created_at": 5, "tags": [["e", before, "", "reply"]]}
        for before, name in pairwise(["f" * 64, *ids])
    ]
    began = time.perf_counter()
    ordered = in_order(reversed(chain))
    assert time.perf_counter() - began < 10
    assert [raw["id"] for raw in ordered] == ids


async def test_new_and_stored_events_are_told_apart_also_after_they_waited_together() -> None:
    stored, new = Taken(), Taken()
    buffer = HistoryBuffer(stored, 60.0, take_new=new)
    buffer.expect(READER)
    task = asyncio.create_task(buffer.run())
    put(buffer, "stored", 1)
    buffer.add_new({"id": "new", "created_at": 2}, 1)
    buffer.add_new({"id": "stored too", "created_at": 3}, 1, is_new=False)
    await finish(buffer)
    buffer.add_new({"id": "later", "created_at": 4}, 1)
    buffer.add_new({"id": "stored later", "created_at": 5}, 1, is_new=False)
    task.cancel()
    await asyncio.wait({task})
    assert (stored.names, new.names) == (["stored", "stored too", "stored later"], ["new", "later"])


def test_copies_of_one_id_are_all_handed_on() -> None:
    """Which of them is genuine is not known here."""
    batch = [{"id": "a", "created_at": 5, "content": text} for text in ("genuine", "forged")]
    assert in_order(batch) == batch


def test_a_circle_of_answers_is_ordered_by_id() -> None:
    circle = [{"id": one, "created_at": 5, "tags": [["e", other]]} for one, other in ("ba", "ab")]
    assert [raw["id"] for raw in in_order(circle)] == ["a", "b"]


@pytest.mark.parametrize("tags", [None, 5, [[]], [["e"]], [["e", 5]], [5], [["e", "a"]], [["e", "b"]]])
def test_odd_tags_change_no_order_and_lose_nothing(tags: Any) -> None:
    batch = [{"id": name, "created_at": 5, "tags": tags} for name in "ba"]
    assert sorted(raw["id"] for raw in in_order(batch)) == ["a", "b"]
