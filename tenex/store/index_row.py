"""What the index keeps of a conversation: one row, its known events, its messages, its agents and its state."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.messages import Usage
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records import (
    CommandGiven,
    ConversationStarted,
    CycleStarted,
    JournalRebuilt,
    MessageRecorded,
    MessageSent,
    PhaseTransition,
    Record,
    RunStarted,
    TurnOpened,
)
from tenex.core.state.rollback import ConversationForked, RolledBack

T = TypeVar("T")


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
    cycle: int
    title: str
    started: Millis
    updated: Millis
    spending: Mapping[int, Mapping[PublicKey, Usage]] = field(default_factory=dict)
    """As `State.spending`: what its newest days have cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The part of a row that shows whether it is current."""

    bytes: int
    seq: int
    settled: bool
    updated: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A text that can be searched; the title counts as one, without a name."""

    seq: int
    """Of its record."""
    at: Millis
    name: str
    """Of its author."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What some records add to what is known of their conversation."""

    events: tuple[str, ...] = ()
    """Ids of the events it received or published; not its own id, whose event may still be on its way to us."""
    messages: tuple[Message, ...] = ()
    agents: tuple[str, ...] = ()
    """Slugs and keys of those who were set to work or addressed."""
    phases: tuple[Phase, ...] = ()
    """Those it has been in."""


def summarise(conversation: Conversation, length: int) -> Row:
    """The row of a conversation whose journal has that many bytes."""
    return Row(
        id=conversation.id,
        bytes=length,
        seq=conversation.next_seq - 1,
        settled=conversation.status in ("waiting", "ended") and not pending(conversation),
        status="waiting" if conversation.is_parked else conversation.status,
        phase=conversation.phase.value,
        cycle=conversation.cycle,
        title=conversation.title,
        started=conversation.started_at,
        updated=conversation.updated_at,
        spending=conversation.spending,
    )


def news_of(records: Iterable[Record]) -> News:
    """What the index has to add for these records of one conversation."""
    known = list(records)
    return News(
        events=tuple(_each(known, _events)),
        messages=tuple(_each(known, _messages)),
        agents=tuple(dict.fromkeys(_each(known, _agents))),
        phases=tuple(dict.fromkeys(_each(known, _phases))),
    )


def _each(records: list[Record], kind: Callable[[Record], Iterator[T]]) -> Iterator[T]:
    for record in records:
        yield from kind(record)


def _events(record: Record) -> Iterator[str]:
    match record:
        case MessageRecorded() | CommandGiven():
            yield record.event_id
        case MessageSent():
            yield from (event.id for event in record.events)
        case JournalRebuilt():
            yield from record.known_events
        case _:
            pass


def _messages(record: Record) -> Iterator[Message]:
    match record:
        case ConversationStarted() | ConversationForked():
            yield Message(seq=record.seq, at=record.at, name="", text=record.title)
        case MessageRecorded():
            yield Message(seq=record.seq, at=record.at, name=record.name, text=record.text)
        case CommandGiven():
            text = f"/{record.command} {record.argument}".rstrip()
            yield Message(seq=record.seq, at=record.at, name=record.name, text=text)
        case MessageSent() if record.purpose != "announcement":  # that only names a phase
            yield Message(seq=record.seq, at=record.at, name=record.name, text=record.text)
        case _:
            pass


def _agents(record: Record) -> Iterator[str]:
    match record:
        case MessageRecorded():
            yield from record.addressed
        case TurnOpened():
            yield from record.agents
        case RunStarted():
            yield record.agent
            yield record.pubkey
        case ConversationForked():
            yield from record.state.participants
        case _:
            pass


def _phases(record: Record) -> Iterator[Phase]:
    match record:
        case CycleStarted():
            yield record.phase
        case PhaseTransition():
            yield record.to
        case RolledBack() | ConversationForked():
            yield record.state.phase
        case _:
            pass
