"""Text and queries on their way into SQLite: words of many scripts are found, and nothing typed is wrong syntax."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenex.core.errors import UsageError
from tenex.store.search_words import (
    QUERY_CHARACTERS,
    QUERY_TERMS,
    TEXT_CHARACTERS,
    TOKENIZER,
    clean,
    indexed,
    match_of,
    shown,
)

from .kit import words as any_text


def table() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"create virtual table words using fts5(text, tokenize='{TOKENIZER}')")
    return connection


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = table()
    yield connection
    connection.close()


def put(connection: sqlite3.Connection, *texts: str) -> None:
    connection.executemany("insert into words values (?)", [(indexed(text),) for text in texts])


def found(connection: sqlite3.Connection, query: str) -> list[str]:
    """What a query finds, the best first."""
    rows = connection.execute("select text from words where words match ? order by rank", (match_of(query),))
    return [shown(row[0]) for row in rows]


@pytest.mark.parametrize(
    ("text", "query"),
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
def test_a_word_is_found_in_every_script(connection: sqlite3.Connection, text: str, query: str) -> None:
    put(connection, "something else entirely", text)
    assert found(connection, query) == [clean(text)]


@pytest.mark.parametrize(
    ("text", "query"),
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
def test_what_is_not_there_is_not_found(connection: sqlite3.Connection, text: str, query: str) -> None:
    put(connection, text)
    assert found(connection, query) == []


def test_a_phrase_is_found_together_and_in_order_and_a_whole_word_first(connection: sqlite3.Connection) -> None:
    put(connection, "no such file or directory", "such a file: no")
    assert len(found(connection, "no such file")) == 2
    assert found(connection, '"No such file"') == ["no such file or directory"]
    assert found(connection, '"no such file') == ["no such file or directory"], "the last quote may be missing"
    put(connection, *["planets and stars"] * 5, "the plan is good", *["planetary science"] * 5)
    assert found(connection, "plan")[0] == "the plan is good", "a whole word counts more than a beginning"
    assert len(found(connection, "plan")) == 11


@pytest.mark.parametrize("query", ["", "   ", '""', '" "', "!!!", "&& ||", "*", "«»", "\u200b", "\0", "😀"])
def test_a_query_without_a_word_or_with_too_many_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="no word"):
        match_of(query)
    with pytest.raises(UsageError, match="1,001 characters"):
        match_of("x" * (QUERY_CHARACTERS + 1))
    with pytest.raises(UsageError, match="33 words"):
        match_of("x " * (QUERY_TERMS + 1))


@given(any_text, any_text)
@example("zzz", "NEAR(a b)")
@example("zzz", "{text}: a | (a")
@example("zzz", "a;drop table words * ?1")
def test_any_text_can_be_indexed_and_any_query_asked(text: str, query: str) -> None:
    connection = table()
    put(connection, text)
    try:
        match = match_of(query)
    except UsageError:
        match = match_of("a")
    connection.execute("select snippet(words, 0, '', '', '', 5) from words where words match ?", (match,)).fetchall()
    connection.close()


@given(st.text(st.characters(categories=["L", "N", "Z", "P"], max_codepoint=0xFFFF), max_size=60))
def test_what_is_indexed_reads_as_it_was_written(text: str) -> None:
    assert shown(indexed(text)) == clean(text)


def test_a_text_is_cut_and_cannot_steer_a_terminal() -> None:
    assert len(indexed("x" * 10 * TEXT_CHARACTERS)) == TEXT_CHARACTERS
    assert clean("a\x1b[31mb\r\nc\td\x02\x9b") == "a [31mb \nc\td "
