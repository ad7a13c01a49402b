"""Looking into the index: rows by phase, status, agent and time, and messages by their words.

What takes a connection raises `sqlite3.Error` where the index cannot be read.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

from tenex.core.config import Role
from tenex.core.ids import ConversationId, Millis
from tenex.core.port_values import Passage

from .index_row import Row
from .schema import COLUMNS, row_of
from .search_words import CLOSE, OPEN, clean, shown

EXCERPTS: Final = 3
"""Of a conversation: enough to know it again; `tenex conversations show` has the rest."""

KEY_CHARACTERS: Final = 64
"""Of a public key; no slug is as long."""

EXCERPT_WORDS: Final = 16
"""About a line of a terminal; SQLite gives at most 64."""

MOST_CHOICES: Final = 100
"""Agents or people that a list offers; others are found by typing their name."""
_PEOPLE: Final = ", ".join(f"'{role.value}'" for role in Role)
_BY_PERSON: Final = f"exists (select 1 from facets where conversation = c.number and kind in ({_PEOPLE}) and value = ?)"  # noqa: S608

# the joins are `cross` because that fixes their order: words first, never a look at every conversation
_SEARCH: Final = """
with hits as (
    select m.conversation, m.number, m.seq, m.at, m.name, words.rank as rank, c.updated, c.id
    from words
    cross join messages m on m.number = words.rowid
    cross join conversations c on c.number = m.conversation
    where words match ? and {where} order by words.rowid desc limit ?
), placed as (
    select *,
        row_number() over (partition by conversation order by rank, at desc) as place,
        count(*) over (partition by conversation) as matches,
        min(rank) over (partition by conversation) as best
    from hits
)
select conversation, matches, number, seq, at, name from placed where place <= ?
order by best, updated desc, id, place
"""
_MESSAGES: Final = """
select m.seq, m.at, m.name, m.author, w.text from messages m cross join words w on w.rowid = m.number
where m.conversation = (select number from conversations where id = ?) and not m.undone and m.name <> ''
and m.seq < ? order by m.seq desc limit ?
"""

# `+rowid`: the query runs once, because beginnings of words are slow to look up, and not for each message
_EXCERPTS: Final = (
    "select rowid, snippet(words, 0, ?, ?, '…', ?) from words "
    "where words match ? and +rowid in (select value from json_each(?))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which conversations; what is empty is not asked for."""

    status: str = ""
    phase: str = ""
    """Its current phase."""
    was_in: str = ""
    """A phase it has been in."""
    agent: str = ""
    """The slug or key of one who was set to work or addressed in it."""
    person: str = ""
    """The key of a user who wrote in it or gave a command."""
    id: str = ""
    among: frozenset[str] | None = None
    """It is one of these, by their ids; and of its messages only those that still count."""
    since: Millis | None = None
    """It was updated then or later; of a message: it was sent then or later."""
    until: Millis | None = None
    """It had begun before then; of a message: it was sent before then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What conversations can be filtered by."""

    statuses: Mapping[str, int]
    """With the number of conversations of each."""
    agents: tuple[str, ...]
    """Their slugs."""
    people: Mapping[str, str]
    """The names by which users wrote last, by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A conversation in which something was found."""

    row: Row
    matches: int
    """Messages that match."""
    excerpts: tuple[Passage, ...]
    """The best of them: a part of each, with what matched between `OPEN` and `CLOSE`."""


def listed(connection: sqlite3.Connection, filter_: Filter, limit: int = -1) -> list[Row]:
    """The conversations a filter lets through, last updated first; all of them if `limit` is negative."""
    clauses, values = _which(filter_)
    if filter_.since is not None:
        clauses = [*clauses, "c.updated >= ?"]
        values = [*values, filter_.since]
    if filter_.until is not None:
        clauses = [*clauses, "c.started < ?"]
        values = [*values, filter_.until]
    query = f"select {COLUMNS} from conversations c where {_all(clauses)} order by updated desc, id limit ?"  # noqa: S608
    with closing(connection.execute(query, (*values, limit))) as rows:
        return [row_of(row) for row in rows]


def choices(connection: sqlite3.Connection) -> Choices:
    """What the conversations can be filtered by; of agents and people at most `MOST_CHOICES`."""

    def facets(kinds: str) -> list[str]:
        query = f"select value from facets where kind in ({kinds}) group by value order by count(*) desc limit ?"  # noqa: S608
        with closing(connection.execute(query, (MOST_CHOICES,))) as rows:
            return [str(row[0]) for row in rows]

    with closing(connection.execute("select status, count(*) from conversations group by status")) as rows:
        statuses = dict(rows.fetchall())
    newest = "select name from messages where author = ? order by at desc limit 1"
    people: dict[str, str] = {}
    for key in facets(_PEOPLE):
        row = connection.execute(newest, (key,)).fetchone()
        people[key] = str(row[0]) if row is not None else ""
    return Choices(statuses=statuses, agents=tuple(filter(_is_slug, facets("'agent'"))), people=people)


def search(
    connection: sqlite3.Connection,
    match: str,
    filter_: Filter,
    limit: int,
    *,
    excerpts: int = EXCERPTS,
    words: int = EXCERPT_WORDS,
    newest: int = -1,
) -> list[Found]:
    """The conversations with messages that match: the best match first, among equals the last updated.

    `match` is a query as `match_of` makes it. The times of the filter are those of messages. There are at most
    `excerpts` of each conversation, each with about so many `words` (at most 64). Of the messages that match only the
    `newest` are compared, all of them if negative.
    """
    clauses, values = _which(filter_)
    if filter_.among is not None:
        clauses = [*clauses, "not m.undone"]
    if filter_.since is not None:
        clauses = [*clauses, "m.at >= ?"]
        values = [*values, filter_.since]
    if filter_.until is not None:
        clauses = [*clauses, "m.at < ?"]
        values = [*values, filter_.until]
    query = _SEARCH.format(where=_all(clauses))
    with closing(connection.execute(query, (match, *values, newest, excerpts))) as rows:
        best = [list(group) for _, group in islice(groupby(rows, key=itemgetter(0)), limit)]
    messages = json.dumps([hit[2] for hits in best for hit in hits])
    with closing(connection.execute(_EXCERPTS, (OPEN, CLOSE, words, match, messages))) as rows:
        texts = {message: shown(text) for message, text in rows}
    return [_found(connection, hits, texts) for hits in best]


def messages_before(
    connection: sqlite3.Connection, conversation: ConversationId, before: int, limit: int
) -> list[Passage]:
    """The last messages before a seq, the newest first, without those that a rollback undid."""
    with closing(connection.execute(_MESSAGES, (conversation, before, limit))) as rows:
        return [
            Passage(seq=seq, at=Millis(at), name=name, text=shown(text), author=author)
            for seq, at, name, author, text in rows
        ]


def _which(filter_: Filter) -> tuple[list[str], list[Any]]:
    """Conditions on `conversations c`, and their values."""
    plain = {"c.status = ?": filter_.status, "c.place = ?": filter_.phase, "c.id = ?": filter_.id}
    clauses = [clause for clause, value in plain.items() if value]
    values: list[Any] = [value for value in plain.values() if value]
    for kind, value in (("phase", filter_.was_in), ("agent", filter_.agent)):
        if value:
            clauses.append("exists (select 1 from facets where conversation = c.number and kind = ? and value = ?)")
            values += [kind, clean(value)]
    if filter_.person:
        clauses.append(_BY_PERSON)
        values.append(clean(filter_.person))
    if filter_.among is not None:
        clauses.append("c.id in (select value from json_each(?))")
        values.append(json.dumps(sorted(filter_.among)))
    return clauses, values


def _is_slug(agent: str) -> bool:
    """Whether an agent is named by its slug: it has a second facet with its key."""
    return len(agent) != KEY_CHARACTERS


def _all(clauses: list[str]) -> str:
    return " and ".join(clauses) or "true"


def _found(connection: sqlite3.Connection, hits: list[Any], texts: Mapping[int, str]) -> Found:
    number, matches = hits[0][:2]
    row = connection.execute(f"select {COLUMNS} from conversations where number = ?", (number,)).fetchone()  # noqa: S608
    return Found(
        row=row_of(row),
        matches=matches,
        excerpts=tuple(
            Passage(seq=seq, at=Millis(at), name=name, text=texts[message]) for _, _, message, seq, at, name in hits
        ),
    )
