"""What was said in conversations, for the agents of one of them: searched by the index, read message by message.

Which conversations may be read is decided in `reading_rights`. What was said before a rollback is not found.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from tenex.core.errors import StoreError, TenexError, UsageError
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.port_values import Passage, Passages, PassagesFound, Quotation

from .conversations import Conversations
from .index import Index
from .index_reader import read_one
from .index_row import Row
from .reading_rights import readable
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

QUOTED: Final = 2_000
"""Characters of a quoted message: more than is shown of it."""

LOOKS: Final = 5
BETWEEN_LOOKS: Final = 0.05
"""Seconds: the index is given what has become durable a moment later, of a call beside the asking one for example."""

_BEHIND: Final = (
    "Other conversations cannot be searched now: their index is missing or damaged and is being built again. "
    "Try again in a minute."
)

_PLACE: Final = """
select m.seq, m.at, m.name, w.text from messages m cross join words w on w.rowid = m.number
where m.conversation = (select number from conversations where id = ?) and not m.undone and {where}
order by m.seq {order} limit ?
"""

_OF_EVENT: Final = """
select c.id, c.title, m.name, w.text from places p join conversations c on c.number = p.conversation
join messages m on m.conversation = p.conversation and m.seq = p.seq join words w on w.rowid = m.number
where p.event_id = ? and not m.undone order by c.id <> p.event_id, c.imported > 0, c.started, c.id
"""

T = TypeVar("T")


class PastMessages:
    """The messages of all conversations. Of the asking one also those that the index lacks: its journal is read."""

    def __init__(self, index: Index, folder: Conversations) -> None:
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
        if only is not None:
            await self._permit(only, here, person)
        whole = match_of(query)
        has_all = False
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
        found, has_all = await self._ask(here, partial(_listed, here=here, person=person))
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
        question = partial(_around, here=here, person=person, conversation=conversation, around=around)
        found, has_all = await self._ask(here, question)
        if found is None:
            raise _refusal(conversation, has_all=has_all)
        return found

    async def quoted(self, events: Sequence[EventId], here: ConversationId, person: PublicKey) -> tuple[Quotation, ...]:
        """The messages of these events: the beginning of each, and nothing of one that may not be read.

        Raises:
            StoreError: neither the index nor the journal can be read.
        """
        is_new = not self._folder.length(here)
        found, _ = await self._ask(here, partial(_quoted, events=events, here=here, person=person, is_new=is_new))
        return found

    async def _permit(self, wanted: ConversationId, here: ConversationId, person: PublicKey | None) -> None:
        permitted, has_all = await self._ask(here, partial(readable, here=here, person=person))
        if wanted not in permitted:
            raise _refusal(wanted, has_all=has_all)

    async def _ask(self, here: ConversationId, question: Callable[[sqlite3.Connection], T]) -> tuple[T, bool]:
        """The answer, and whether it is that of the index with every conversation in it."""
        durable = self._folder.length(here)

        def answered(connection: sqlite3.Connection) -> list[T]:
            indexed = connection.execute("select bytes from conversations where id = ?", (here,)).fetchone() or (0,)
            return [question(connection)] if indexed[0] >= durable else []

        for _ in range(LOOKS):
            try:
                answers = await self._index.ask(answered)
            except StoreError:
                break
            if answers:
                return answers[0], self._index.is_whole
            await asyncio.sleep(BETWEEN_LOOKS)
        connection = await read_one(self._folder, here)
        try:
            return await asyncio.to_thread(question, connection), False
        finally:
            connection.close()


def _refusal(wanted: ConversationId, *, has_all: bool) -> TenexError:
    """Why a conversation is not read; while the index lacks some it is not known whether it may be."""
    return UsageError(f"The conversation {wanted} may not be read here.") if has_all else StoreError(_BEHIND)


def _listed(connection: sqlite3.Connection, here: ConversationId, person: PublicKey | None) -> tuple[Passages, ...]:
    """The conversations that may be read, without messages; the asking one first."""
    rows = listed(connection, Filter(among=readable(connection, here, person)))
    return tuple(_without_messages(row) for row in sorted(rows, key=lambda row: row.id != here))


def _without_messages(row: Row) -> Passages:
    return Passages(conversation=row.id, title=row.title, imported=bool(row.imported))


def _matches(
    connection: sqlite3.Connection,
    match: str,
    here: ConversationId,
    person: PublicKey | None,
    only: ConversationId | None,
) -> tuple[Passages, ...]:
    permitted = readable(connection, here, person)
    first = frozenset({only or here}) & permitted
    found = search(connection, match, Filter(among=first), 1, excerpts=HERE_MOST, words=WORDS, newest=NEWEST)
    if not only:
        others = search(
            connection,
            match,
            Filter(among=permitted - {here}),
            OTHERS_MOST,
            excerpts=OTHER_MATCHES,
            words=WORDS,
            newest=NEWEST,
        )
        found += others
    return tuple(_passages(one) for one in found)


def _quoted(
    connection: sqlite3.Connection, events: Sequence[EventId], here: ConversationId, person: PublicKey, *, is_new: bool
) -> tuple[Quotation, ...]:
    permitted = readable(connection, here, person, is_new=is_new)
    quotations: list[Quotation] = []
    for event in events:
        with closing(connection.execute(_OF_EVENT, (event,))) as rows:
            claims = rows.fetchall()
        if claims:
            readable_claims = (claim for claim in claims if claim[0] in permitted)
            name, title, author, text = next(readable_claims, (None, "", "", ""))
            quotations.append(
                Quotation(
                    event_id=event,
                    name=author,
                    text=shown(text)[:QUOTED],
                    conversation=name and ConversationId(name),
                    title=title,
                )
            )
    return tuple(quotations)


def _passages(found: Found) -> Passages:
    """The messages that match.

    The title, which has no author, is one only where no other matches: it is the beginning of the first message.
    """
    each = sorted(found.excerpts, key=lambda excerpt: excerpt.seq)
    messages = [one for one in each if one.name] or each
    return replace(
        _without_messages(found.row),
        messages=tuple(replace(one, text=one.text.replace(OPEN, "").replace(CLOSE, "")) for one in messages),
        others=found.matches - len(each),
    )


def _around(
    connection: sqlite3.Connection,
    here: ConversationId,
    person: PublicKey | None,
    conversation: ConversationId,
    around: int | None,
) -> Passages | None:
    """The messages around a place; None where they may not be read."""
    if conversation not in readable(connection, here, person):
        return None
    place = 2**62 if around is None else around

    def messages(where: str, order: str) -> list[Passage]:
        query = _PLACE.format(where=where, order=order)
        with closing(connection.execute(query, (conversation, place, NEIGHBOURS))) as rows:
            return [Passage(seq=seq, at=Millis(at), name=name, text=shown(text)) for seq, at, name, text in rows]

    before = messages("m.seq <= ?", "desc")
    after = messages("m.seq > ?", "asc")
    row = next(iter(listed(connection, Filter(id=conversation))), None)
    passages = _without_messages(row) if row is not None else Passages(conversation=conversation, title="")
    return replace(passages, messages=(*reversed(before), *after))
