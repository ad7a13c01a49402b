"""What the index has to take in of a journal: only what is new where it knows the rest, else all of it.

A journal it knows holds the record it knows last, of the same ms; one that does not was put in the place of the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.core.records import Record

from .index_row import Known, News, Row, news_of, summarise
from .repository import ConversationFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a journal says, for the index."""

    row: Row
    news: News
    anew: bool
    """The news are all there is."""
    drops: bool
    """What was known is to be dropped; not where a part of the journal is missing, of which it may be the last word."""


async def gather(
    folder: ConversationFolder, conversation: ConversationId, length: int, known: Known | None = None
) -> Gathered:
    """Read a journal as far as the index needs it.

    Args:
        folder: the conversations.
        conversation: whose journal.
        length: its bytes before it is read, for the row.
        known: what the index knows of it, if anything.

    Raises:
        StoreDamaged: it holds what we did not write.
        UsageError: there is no such conversation.
        ValueError, LookupError: it cannot be folded.
    """
    if known is not None and 0 < known.bytes <= length:
        records = await folder.read(conversation, known.seq)
        if any(record.seq == known.seq and record.at == known.updated for record in records):
            return await asyncio.to_thread(_gathered, conversation, records, length, known.seq)
    records, gone = await folder.read_left(conversation)
    return await asyncio.to_thread(_gathered, conversation, records, length, 0, drops=not gone)


def _gathered(
    conversation: ConversationId, records: Sequence[Record], length: int, after: int, *, drops: bool = False
) -> Gathered:
    row = summarise(fold(conversation, records), length)
    news = news_of(record for record in records if record.seq > after)
    return Gathered(row=row, news=news, anew=not after, drops=drops)
