"""Looking into the index: filters, and messages by their words."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenex.core.config import Role
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.port_values import Passage
from tenex.store import schema
from tenex.store.index_row import News, Row
from tenex.store.schema import Batch
from tenex.store.search import EXCERPTS, Filter, listed, search
from tenex.store.search_words import CLOSE, OPEN, match_of

from . import kit

ONE, TWO, THREE, FOUR, FIVE, SIX = (ConversationId(digit * 64) for digit in "123456")
ANA, BOB = PublicKey("a" * 64), PublicKey("b" * 64)


def row(conversation: ConversationId, *, status: str = "ended", phase: str = "chat", updated: int = 100) -> Row:
    return kit.row(conversation, status=status, place=phase, updated=Millis(updated))


def text(seq: int, content: str, name: str = "Ana") -> Passage:
    return Passage(seq=seq, at=Millis(seq * 10), name=name, text=content)


def put(connection: sqlite3.Connection, *rows: tuple[Row, News], replaces: bool = False) -> None:
    batch = Batch()
    for one, news in rows:
        batch.add(one, news, replaces=replaces)
    schema.write(connection, batch)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """Three conversations; the second is the newest."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.prepare(connection)
    one = News(
        messages=(text(1, "A game of snakes", ""), text(2, "Please build a snake game"), text(3, "Built it", "Ex")),
        agents=("executor", "e" * 64),
        phases=(Phase.CHAT, Phase.EXECUTE, Phase.REFLECTION),
        people=((Role.OWNER, ANA), (Role.GUEST, BOB)),
    )
    two = News(
        messages=(text(1, "Ideas", ""), *(text(seq, "nothing but snake here") for seq in range(2, 8))),
        agents=("planner",),
        phases=(Phase.CHAT, Phase.PLAN),
        people=((Role.MEMBER, ANA),),
    )
    three = News(messages=(text(1, "Weather", ""),), phases=(Phase.CHAT,))
    put(
        connection,
        (row(ONE, phase="reflection"), one),
        (row(TWO, status="active", phase="plan", updated=300), two),
        (row(THREE, status="waiting", updated=200), three),
    )
    yield connection
    connection.close()


def found(connection: sqlite3.Connection, query: str, wanted: Filter = Filter()) -> list[tuple[str, int]]:  # noqa: B008
    return [(one.row.id[0], one.matches) for one in search(connection, match_of(query), wanted, 20)]


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
    assert [one.id for one in listed(connection, wanted)] == names
    assert [one.id for one in listed(connection, wanted, 2)] == names[:2]


def test_each_conversation_is_found_once_with_its_best_messages(connection: sqlite3.Connection) -> None:
    two, one = search(connection, match_of("snake"), Filter(), 20)
    assert (one.row.id, one.matches, [each.seq for each in one.excerpts]) == (ONE, 2, [2, 1])
    assert (two.row.id, two.matches, len(two.excerpts)) == (TWO, 6, EXCERPTS)
    assert [each.seq for each in two.excerpts] == [7, 6, 5], "of equal messages the newest come first"
    assert [(e.name, e.text, e.at) for e in one.excerpts] == [
        ("Ana", f"Please build a {OPEN}snake{CLOSE} game", 20),
        ("", f"A game of {OPEN}snakes{CLOSE}", 10),
    ]
    (two,) = search(connection, match_of("snake"), Filter(), 20, excerpts=9, newest=4)
    assert (two.row.id, [each.seq for each in two.excerpts]) == (TWO, [7, 6, 5, 4])


def test_the_better_match_comes_first_and_among_equals_the_newer(connection: sqlite3.Connection) -> None:
    long = "zebra and a long text about everything else that there is under the sun, and then some of it again"
    put(
        connection,
        (row(FOUR, updated=400), News(messages=(text(2, "zebra"),))),
        (row(FIVE, updated=500), News(messages=(text(2, "zebra"),))),
        (row(SIX, updated=600), News(messages=(text(2, long),))),
    )
    assert [one for one, _ in found(connection, "zebra")] == ["5", "4", "6"]
    assert [one.row.id for one in search(connection, match_of("zebra"), Filter(), 1)] == [FIVE]


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (Filter(since=Millis(30)), [("2", 5)]),
        (Filter(until=Millis(20)), [("1", 1)]),
        (Filter(status="ended"), [("1", 2)]),
        (Filter(agent="executor"), [("1", 2)]),
    ],
)
def test_filters_hold_for_a_search_with_the_time_of_the_message(
    connection: sqlite3.Connection, wanted: Filter, matches: list[tuple[str, int]]
) -> None:
    assert found(connection, "snake", wanted) == matches


def test_what_was_read_again_replaces_what_was_known(connection: sqlite3.Connection) -> None:
    put(connection, (row(ONE), News(messages=(text(2, "Please build a snake game"),))))
    assert found(connection, "please") == [("1", 1)], "the same message twice is one"
    put(connection, (row(ONE), News(messages=(text(1, "entirely other"),))), replaces=True)
    assert found(connection, "snake") == [("2", 6)]
    assert found(connection, "other") == [("1", 1)]
    assert listed(connection, Filter(agent="executor")) == []
    schema.forget(connection, [ONE, TWO, THREE, FOUR])
    for table in ("conversations", "events", "facets", "messages", "words"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table


@pytest.mark.parametrize("far", [10**30, -(10**30)])
def test_invalid_values_in_one_journal_cost_no_other_conversation_its_row(
    connection: sqlite3.Connection, far: int
) -> None:
    """Numbers beyond what SQLite holds, and half characters."""
    half = "\ud800"
    odd = replace(row(FOUR), started=Millis(far), updated=Millis(far), cycle=far, title=half)
    message = Passage(seq=1, at=Millis(far), name=half, text=half)
    put(
        connection,
        (odd, News(events=(half, "e1"), agents=(f"a{half}",), messages=(message,))),
        (row(FIVE), News()),
    )
    rows = {one.id: one for one in listed(connection, Filter())}
    assert rows[FIVE] == row(FIVE)
    assert abs(rows[FOUR].updated) == 2**63 - 1
    assert [one.id for one in listed(connection, Filter(agent=f"a{half}"))] == [FOUR]
    assert connection.execute("select count(*) from events where event_id = 'e1'").fetchone() == (1,)
