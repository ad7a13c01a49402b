"""What the index keeps of a conversation: one row, and the ids of the events its records know.

Never: more than can be folded from the journal again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis
from tenex.core.pending import pending
from tenex.core.records import CommandGiven, ConversationStarted, PersonWrote, Record, Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A conversation at a glance."""

    id: ConversationId
    bytes: int
    """Length of the journal this was folded from; another length on disk means the row is old."""
    seq: int
    """Of the last record."""
    settled: bool
    """Nothing is in flight: a start need not read it."""
    status: str
    phase: str
    title: str
    updated: Millis


def summarise(conversation: Conversation, length: int) -> Row:
    """The row of a conversation whose journal has that many bytes."""
    return Row(
        id=conversation.id,
        bytes=length,
        seq=conversation.next_seq - 1,
        settled=conversation.status in ("waiting", "ended") and not pending(conversation),
        status="waiting" if conversation.is_parked else conversation.status,
        phase=conversation.phase.value,
        title=conversation.title,
        updated=conversation.updated_at,
    )


def events_of(records: Iterable[Record]) -> Iterator[str]:
    """The ids by which these records' conversation may be referred to, or by which an event was already heard."""
    for record in records:
        match record:
            case ConversationStarted():
                yield record.id
            case PersonWrote() | CommandGiven():
                yield record.event_id
            case Said():
                yield from (event.id for event in record.events)
            case _:
                pass
