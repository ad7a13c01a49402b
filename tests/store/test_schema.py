"""The tables take whatever a journal may hold: one conversation's nonsense never costs the others their rows."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from tenex.core.ids import ConversationId, Millis
from tenex.store import schema
from tenex.store.index_row import IndexedMessage, News, Row
from tenex.store.schema import Batch
from tenex.store.search import Filter, listed

from .kit import CONVERSATION_ID

OTHER = ConversationId("d" * 64)
PLAIN = Row(
    id=OTHER,
    bytes=10,
    seq=3,
    settled=True,
    status="waiting",
    place="chat",
    cycle=1,
    title="t",
    started=Millis(1),
    updated=Millis(1),
)
HALF = "\ud800"
"""Half a character, as an old file may hold in an escape."""


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.prepare(connection)
        yield connection


@pytest.mark.parametrize("nonsense", [10**30, -(10**30)])
def test_numbers_beyond_what_sqlite_holds_are_the_nearest_it_can(tables: sqlite3.Connection, nonsense: int) -> None:
    far = Millis(nonsense)
    odd = replace(PLAIN, id=CONVERSATION_ID, started=far, updated=far, cycle=nonsense)
    batch = Batch()
    batch.add(odd, News(messages=(IndexedMessage(seq=1, at=far, name="n", text="words"),)))
    batch.add(PLAIN, News())
    schema.write(tables, batch)
    found = {row.id: row for row in listed(tables, Filter())}
    assert found[OTHER] == PLAIN
    assert abs(found[CONVERSATION_ID].updated) == 2**63 - 1


def test_half_characters_in_names_and_ids_are_no_obstacle(tables: sqlite3.Connection) -> None:
    news = News(
        events=(HALF, "e1"), agents=(f"a{HALF}",), messages=(IndexedMessage(seq=1, at=Millis(1), name=HALF, text=HALF),)
    )
    batch = Batch()
    batch.add(replace(PLAIN, id=CONVERSATION_ID, title=HALF), news)
    batch.add(PLAIN, News())
    schema.write(tables, batch)
    assert {row.id for row in listed(tables, Filter())} == {CONVERSATION_ID, OTHER}
    assert [row.id for row in listed(tables, Filter(agent=f"a{HALF}"))] == [CONVERSATION_ID]
    assert tables.execute("select count(*) from events where event_id = 'e1'").fetchone() == (1,)
