"""Looking into the index: filters, and messages by their words."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenex.core.config import Role
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.port_values import Passage
from tenex.store import schema
from tenex.store.index_row import News, Row
from tenex.store.schema import Batch
from tenex.store.search import EXCERPTS, Filter, listed, search
from tenex.store.search_words import (
    CLOSE,
    OPEN,
    QUERY_CHARACTERS,
    QUERY_TERMS,
    TEXT_CHARACTERS,
    clean,
    indexed,
    match_of,
    shown,
)

from . import kit
from .kit import words as any_text

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
        (Filter(among=frozenset({ONE, TWO})), [TWO, ONE]),
        (Filter(among=frozenset()), []),
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


# ---- words and queries ----------------------------------------------------------------------------------------------


def add_messages(connection: sqlite3.Connection, *texts: str) -> None:
    """Have a fourth conversation with these messages."""
    put(connection, (row(FOUR), News(messages=tuple(text(seq, content) for seq, content in enumerate(texts, start=1)))))


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("The migration of the database", "MIGRAT"),
        ("The migration of the database", "database migration"),
        ("Crème brûlée für Ähnliches", "creme BRULEE fur ahnliches"),
        ("cafe\u0301 in two characters", "café"),
        ("Миграция базы данных", "миграц"),
        ("قاعدة البيانات", "البيانات"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("데이터베이스를 옮긴다", "데이터베이스"),
        ("我们使用SQLite数据库", "sqlite"),
        ("データベースを移行する", "移行"),
        ("ใช้ฐานข้อมูลใหม่", "ฐานข้อมูล"),
        ("see tests/cli/test_main.py, line 40", "test_main.py"),
        ("don't panic", "don't"),
        ("a+b=c && x||y", "&& y"),
    ],
)
def test_a_word_is_found_in_every_script(connection: sqlite3.Connection, content: str, query: str) -> None:
    add_messages(connection, "something else entirely", content)
    assert found(connection, query) == [("4", 1)]


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("The migration of the database", "database immigration"),
        ("The migration of the database", "gration"),
        ("The migration of the database", '"migrat"'),
        ("The migration of the database", '"database migration"'),
        ("数据和库", "数据库"),
        ("plan", "NOT plan"),
        ("plan", "text:plan"),
    ],
)
def test_what_is_not_there_is_not_found(connection: sqlite3.Connection, content: str, query: str) -> None:
    add_messages(connection, content)
    assert found(connection, query) == []


def test_a_phrase_is_found_together_and_in_order_and_a_whole_word_first(connection: sqlite3.Connection) -> None:
    add_messages(
        connection,
        *("no such file or directory", "such a file: no"),
        *(*["planets and stars"] * 5, "the plan is good", *["planetary science"] * 5),
    )
    assert found(connection, "no such file") == [("4", 2)]
    for phrase in ('"No such file"', '"no such file'):  # the last quote may be missing
        assert found(connection, phrase) == [("4", 1)]
    (plan,) = search(connection, match_of("plan"), Filter(), 20)
    assert plan.matches == 11
    assert plan.excerpts[0].seq == 8, "a whole word counts more than a beginning"


@pytest.mark.parametrize("query", ["", "   ", '""', '" "', "!!!", "&& ||", "*", "«»", "\u200b", "\0", "😀"])
def test_a_query_without_a_word_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="no word"):
        match_of(query)


def test_a_query_with_too_many_words_is_refused() -> None:
    with pytest.raises(UsageError, match="1,001 characters"):
        match_of("x" * (QUERY_CHARACTERS + 1))
    with pytest.raises(UsageError, match="33 words"):
        match_of("x " * (QUERY_TERMS + 1))


@given(any_text, any_text)
@example("zzz", "NEAR(a b)")
@example("zzz", "{text}: a | (a")
@example("zzz", "a;drop table words * ?1")
def test_any_text_can_be_indexed_and_any_query_asked(content: str, query: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.prepare(connection)
        add_messages(connection, content)
        with suppress(UsageError):
            found(connection, query)
        found(connection, "a")


@given(st.text(st.characters(categories=["L", "N", "Z", "P"], max_codepoint=0xFFFF), max_size=60))
def test_what_is_indexed_reads_as_it_was_written(content: str) -> None:
    assert shown(indexed(content)) == clean(content)


def test_a_text_is_cut_and_cannot_steer_a_terminal() -> None:
    assert len(indexed("x" * 10 * TEXT_CHARACTERS)) == TEXT_CHARACTERS
    assert clean("a\x1b[31mb\r\nc\td\x02\x9b") == "a [31mb \nc\td "
