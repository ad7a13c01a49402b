"""What was said in conversations, for the agents of one of them: searched by the index, read message by message.

A conversation may be read by agents that work for a user who wrote in it. Where several users below an owner write in
the asking conversation, all of them must have: none learns there what was said to another.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from tenex.core.config import Role
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.port_values import Passage, Passages, PassagesFound

from .index import Index
from .index_reader import read_one
from .repository import ConversationFolder
from .search import Filter, Found, listed, search
from .search_words import CLOSE, OPEN, match_of, shown

HERE_MOST: Final = 8
"""Matches of the asking conversation: with those of others about 2,000 tokens."""

OTHERS_MOST: Final = 4
"""Other conversations, and `OTHER_MATCHES` of each."""

OTHER_MATCHES: Final = 2

WORDS: Final = 64
"""Of an excerpt: the most that SQLite gives."""

NEWEST: Final = 2_000
"""Messages that match and are compared: a word like "the" is in all of a hundred thousand, which would take seconds."""

NEIGHBOURS: Final = 250
"""Messages read before and after a place: with their dates and names, more than a result may hold."""

_BEHIND: Final = (
    "Other conversations cannot be searched now: their index is missing or damaged and is being built again. "
    "Try again in a minute."
)

_PLACE: Final = """
select m.seq, m.at, m.name, w.text from messages m cross join words w on w.rowid = m.number
where m.conversation = (select number from conversations where id = ?) and {where} order by m.seq {order} limit ?
"""

T = TypeVar("T")


class PastMessages:
    """The messages of all conversations. Of the asking one also those that the index lacks: its journal is read."""

    def __init__(self, index: Index, folder: ConversationFolder) -> None:
        self._index = index
        self._folder = folder

    async def search(
        self, query: str, here: ConversationId, person: PublicKey | None, only: ConversationId | None = None
    ) -> PassagesFound:
        """The best matches in the asking conversation `here`, then in others; or in one alone.

        A message with all the words is looked for first, then one with some of them.

        Raises:
            UsageError: the query holds no word, or too many; or `only` may not be read.
            StoreError: neither the index nor the journal can be read.
        """
        await self._permit(only, here, person)
        whole, has_all = match_of(query), False
        found: tuple[Passages, ...] = ()
        for match in dict.fromkeys((whole, match_of(query, some=True))):
            found, has_all = await self._ask(here, partial(_matches, match=match, here=here, person=person, only=only))
            if found:
                break
        return PassagesFound(
            found=found, is_partial=bool(found) and match != whole, fault="" if has_all or only == here else _BEHIND
        )

    async def named(self, name: str, here: ConversationId, person: PublicKey | None) -> tuple[Passages, ...]:
        """The conversations that may be read and whose id begins with the name, else whose title has it; no messages.

        Raises:
            StoreError: the index cannot be read, and they are unknown without it.
        """
        found, has_all = await self._ask(here, partial(_readable, here=here, person=person))
        wanted = name.casefold()
        by_id = [one for one in found if one.conversation.startswith(wanted)]
        named = tuple(by_id or [one for one in found if wanted in one.title.casefold()])
        if not named and not has_all:
            raise StoreError(_BEHIND)
        return named

    async def read(
        self, conversation: ConversationId, around: int | None, here: ConversationId, person: PublicKey | None
    ) -> Passages:
        """The messages before and after a place of a conversation, whole; without a place its newest.

        Raises:
            UsageError: it may not be read.
            StoreError: neither the index nor the journal can be read.
        """
        await self._permit(conversation, here, person)
        found, _ = await self._ask(here, partial(_around, conversation=conversation, around=around))
        return found

    async def _permit(self, wanted: ConversationId | None, here: ConversationId, person: PublicKey | None) -> None:
        if wanted in (None, here):
            return
        found, has_all = await self._ask(here, partial(_readable, here=here, person=person))
        if all(one.conversation != wanted for one in found):
            raise StoreError(_BEHIND) if not has_all else UsageError(f"The conversation {wanted} may not be read here.")

    async def _ask(self, here: ConversationId, question: Callable[[sqlite3.Connection], T]) -> tuple[T, bool]:
        """The answer, and whether it is that of the index with every conversation in it."""
        durable = self._folder.length(here)

        def answered(connection: sqlite3.Connection) -> list[T]:
            indexed = connection.execute("select bytes from conversations where id = ?", (here,)).fetchone() or (0,)
            return [question(connection)] if indexed[0] >= durable else []

        try:
            answers = await self._index.ask(answered)
        except StoreError:
            answers = []
        if answers:
            return answers[0], self._index.is_whole
        connection = await read_one(self._folder, here)
        try:
            return await asyncio.to_thread(question, connection), False
        finally:
            connection.close()


def _people(connection: sqlite3.Connection, here: ConversationId, person: PublicKey | None) -> tuple[str, ...]:
    """Who must have written in a conversation that may be read; empty if none but the asking one may.

    Of a conversation that is not stored, such as that of an agent whom a mission asks, it is not known who reads it.
    """
    asking = connection.execute("select number from conversations where id = ?", (here,)).fetchone()
    if person is None or asking is None:
        return ()
    query = "select value from facets where conversation = ? and kind in (?, ?)"
    with closing(connection.execute(query, (*asking, Role.MEMBER.value, Role.GUEST.value))) as rows:
        return tuple(sorted({person, *(value for (value,) in rows)}))


def _readable(connection: sqlite3.Connection, here: ConversationId, person: PublicKey | None) -> tuple[Passages, ...]:
    people = _people(connection, here, person)
    rows = listed(connection, Filter(id=here))
    rows += [row for row in listed(connection, Filter(people=people)) if row.id != here] if people else []
    return tuple(Passages(conversation=row.id, title=row.title) for row in rows)


def _matches(
    connection: sqlite3.Connection,
    match: str,
    here: ConversationId,
    person: PublicKey | None,
    only: ConversationId | None,
) -> tuple[Passages, ...]:
    wanted = only or here
    found = search(connection, match, Filter(id=wanted), 1, excerpts=HERE_MOST, words=WORDS, newest=NEWEST)
    people = () if only else _people(connection, here, person)
    if people:
        others = search(
            connection,
            match,
            Filter(people=people),
            OTHERS_MOST + 1,
            excerpts=OTHER_MATCHES,
            words=WORDS,
            newest=NEWEST,
        )
        found += [one for one in others if one.row.id != here][:OTHERS_MOST]
    return tuple(_passages(one) for one in found)


def _passages(found: Found) -> Passages:
    each = sorted(found.excerpts, key=lambda excerpt: excerpt.seq)
    return Passages(
        conversation=found.row.id,
        title=found.row.title,
        messages=tuple(replace(one, text=one.text.replace(OPEN, "").replace(CLOSE, "")) for one in each),
        others=found.matches - len(each),
    )


def _around(connection: sqlite3.Connection, conversation: ConversationId, around: int | None) -> Passages:
    place = 2**62 if around is None else around

    def messages(where: str, order: str) -> list[Passage]:
        query = _PLACE.format(where=where, order=order)
        with closing(connection.execute(query, (conversation, place, NEIGHBOURS))) as rows:
            return [Passage(seq=seq, at=Millis(at), name=name, text=shown(text)) for seq, at, name, text in rows]

    before, after = messages("m.seq <= ?", "desc"), messages("m.seq > ?", "asc")
    row = next(iter(listed(connection, Filter(id=conversation))), None)
    return Passages(
        conversation=conversation, title=row.title if row is not None else "", messages=(*reversed(before), *after)
    )
