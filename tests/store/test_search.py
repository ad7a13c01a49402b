"""Looking into the index: filters, and messages by their words."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenex.core.config import Role
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.store import schema
from tenex.store.index_row import IndexedMessage, News, Row
from tenex.store.schema import Batch
from tenex.store.search import EXCERPTS, Filter, listed, search
from tenex.store.search_words import CLOSE, OPEN, match_of

ONE, TWO, THREE = (ConversationId(digit * 64) for digit in "123")


ANA, BOB = PublicKey("a" * 64), PublicKey("b" * 64)


def row(conversation: ConversationId, *, status: str = "ended", phase: str = "chat", updated: int = 100) -> Row:
    return Row(
        id=conversation,
        bytes=1,
        seq=9,
        settled=True,
        status=status,
        place=phase,
        cycle=1,
        title="t",
        started=Millis(10),
        updated=Millis(updated),
    )


def text(seq: int, content: str, name: str = "Ana") -> IndexedMessage:
    return IndexedMessage(seq=seq, at=Millis(seq * 10), name=name, text=content)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """Three conversations; the second is the newest."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.prepare(connection)
    batch = Batch()
    batch.add(
        row(ONE, phase="reflection"),
        News(
            messages=(
                text(1, "A game of snakes", ""),
                text(2, "Please build a snake game"),
                text(3, "Built it", "Ex"),
            ),
            agents=("executor", "e" * 64),
            phases=(Phase.CHAT, Phase.EXECUTE, Phase.REFLECTION),
            people=((Role.OWNER, ANA), (Role.GUEST, BOB)),
        ),
    )
    batch.add(
        row(TWO, status="active", phase="plan", updated=300),
        News(
            messages=(text(1, "Ideas", ""), *(text(seq, "nothing but snake here") for seq in range(2, 8))),
            agents=("planner",),
            phases=(Phase.CHAT, Phase.PLAN),
            people=((Role.MEMBER, ANA),),
        ),
    )
    batch.add(row(THREE, status="waiting", updated=200), News(messages=(text(1, "Weather", ""),), phases=(Phase.CHAT,)))
    schema.write(connection, batch)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(), [TWO, THREE, ONE]),
        (Filter(status="active"), [TWO]),
        (Filter(phase="reflection"), [ONE]),
        (Filter(phase="execute"), []),
        (Filter(was_in="execute"), [ONE]),
        (Filter(was_in="chat"), [TWO, THREE, ONE]),
        (Filter(agent="executor"), [ONE]),
        (Filter(agent="e" * 64), [ONE]),
        (Filter(agent="chat"), []),
        (Filter(agent="planner", status="ended"), []),
        (Filter(since=Millis(200)), [TWO, THREE]),
        (Filter(until=Millis(10)), []),
        (Filter(until=Millis(11), since=Millis(201)), [TWO]),
        (Filter(status="' or 1=1 --"), []),
        (Filter(id=TWO), [TWO]),
        (Filter(people=(ANA,)), [TWO, ONE]),
        (Filter(people=(ANA, BOB)), [ONE]),
        (Filter(people=("executor",)), []),
    ],
)
def test_filters_let_through_what_fits(connection: sqlite3.Connection, wanted: Filter, names: list[str]) -> None:
    assert [found.id for found in listed(connection, wanted)] == names
    assert [found.id for found in listed(connection, wanted, 2)] == names[:2]


def test_each_conversation_is_found_once_with_its_best_messages(connection: sqlite3.Connection) -> None:
    two, one = search(connection, match_of("snake"), Filter(), 20)
    assert (one.row.id, one.matches, [each.seq for each in one.excerpts]) == (ONE, 2, [2, 1])
    assert (two.row.id, two.matches, len(two.excerpts)) == (TWO, 6, EXCERPTS)
    assert [each.seq for each in two.excerpts] == [7, 6, 5], "of equal messages the newest come first"
    assert [(e.name, e.text, e.at) for e in one.excerpts] == [
        ("Ana", f"Please build a {OPEN}snake{CLOSE} game", 20),
        ("", f"A game of {OPEN}snakes{CLOSE}", 10),
    ]


def test_of_messages_that_match_only_the_newest_are_compared_where_that_is_asked(
    connection: sqlite3.Connection,
) -> None:
    (two,) = search(connection, match_of("snake"), Filter(), 20, excerpts=9, newest=4)
    assert (two.row.id, [each.seq for each in two.excerpts]) == (TWO, [7, 6, 5, 4])


def test_the_better_match_comes_first_and_among_equals_the_newer(connection: sqlite3.Connection) -> None:
    assert [found.row.id for found in search(connection, match_of("game"), Filter(), 20)] == [ONE]
    more = Batch()
    for name, updated in ((ConversationId("4" * 64), 400), (ConversationId("5" * 64), 500)):
        more.add(row(name, updated=updated), News(messages=(text(2, "zebra"),)))
    long = "zebra and a long text about everything else that there is under the sun, and then some of it again"
    more.add(row(ConversationId("6" * 64), updated=600), News(messages=(text(2, long),)))
    schema.write(connection, more)
    found = [one.row.id[0] for one in search(connection, match_of("zebra"), Filter(), 20)]
    assert found == ["5", "4", "6"]
    assert [one.row.id[0] for one in search(connection, match_of("zebra"), Filter(), 1)] == ["5"]


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (Filter(since=Millis(30)), [(TWO, 5)]),
        (Filter(until=Millis(20)), [(ONE, 1)]),
        (Filter(status="ended"), [(ONE, 2)]),
        (Filter(agent="executor"), [(ONE, 2)]),
        (Filter(was_in="execute"), [(ONE, 2)]),
    ],
)
def test_filters_hold_for_a_search_with_the_time_of_the_message(
    connection: sqlite3.Connection, wanted: Filter, matches: list[tuple[ConversationId, int]]
) -> None:
    assert [(one.row.id, one.matches) for one in search(connection, match_of("snake"), wanted, 20)] == matches


def test_what_was_read_again_replaces_what_was_known(connection: sqlite3.Connection) -> None:
    batch = Batch()
    batch.add(row(ONE), News(messages=(text(1, "entirely other"),)), replaces=True)
    schema.write(connection, batch)
    assert [one.row.id for one in search(connection, match_of("snake"), Filter(), 20)] == [TWO]
    assert [one.row.id for one in search(connection, match_of("other"), Filter(), 20)] == [ONE]
    assert listed(connection, Filter(agent="executor")) == []
    count = connection.execute("select (select count(*) from words), (select count(*) from messages)").fetchone()
    assert count[0] == count[1]


def test_the_same_message_twice_is_found_once(connection: sqlite3.Connection) -> None:
    batch = Batch()
    batch.add(replace(row(ONE), updated=Millis(101)), News(messages=(text(2, "Please build a snake game"),)))
    schema.write(connection, batch)
    assert search(connection, match_of("please"), Filter(), 20)[0].matches == 1


def test_all_trace_of_a_forgotten_conversation_is_gone(connection: sqlite3.Connection) -> None:
    schema.forget(connection, [ONE, TWO, THREE, ConversationId("9" * 64)])
    for table in ("conversations", "events", "facets", "messages", "words"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table
