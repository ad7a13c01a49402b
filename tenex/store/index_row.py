"""What the index keeps of a conversation: one row, its known events, its messages, its agents and its state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tenex.core.config import Role
from tenex.core.conversation import Conversation
from tenex.core.cycle.records import CycleStarted, PhaseTransition
from tenex.core.delivery.records import Delivered, MessageSent
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.inbox.records import CommandGiven, MessageRecorded, MessageWithdrawn
from tenex.core.messages import Usage
from tenex.core.people.trust import chat_of, room_of
from tenex.core.phases import Phase
from tenex.core.port_values import Passage, UnsignedEvent
from tenex.core.projection import glance_of, is_settled, status_of
from tenex.core.records import ConversationImported, JournalRebuilt, Record, RunStarted
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.work.records import TurnOpened

FIRST: Final = 1
"""The seq of the record that holds a conversation's title."""


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
    """As `status_of`: the cycle's, unless a model or a limit holds the conversation."""
    place: str
    """As `Glance.place`."""
    cycle: int
    title: str
    started: Millis
    updated: Millis
    spending: Mapping[int, Mapping[PublicKey, Usage]] = field(default_factory=dict)
    """As `State.spending`: what its newest days have cost."""
    imported: int = 0
    """As `State.imported`: up to which record it was not written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The part of a row that shows whether it is current."""

    bytes: int
    seq: int
    settled: bool
    updated: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What some records add to what is known of their conversation."""

    events: tuple[str, ...] = ()
    """Ids of the events it received or published; not its own id, whose event may still be on its way to us."""
    imported: tuple[str, ...] = ()
    """Ids of the events that only an import says it received or published."""
    is_import: bool = False
    """All that was known before these records came with an import."""
    rollbacks: tuple[tuple[int, int], ...] = ()
    """The seq of each rollback, and the record it went back to."""
    messages: tuple[Passage, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    """Events and the seqs of the messages they hold."""
    withdrawn: tuple[int, ...] = ()
    """The seqs of messages that their authors deleted: what was known of them is dropped."""
    agents: tuple[str, ...] = ()
    """Slugs and keys of those who were set to work or addressed."""
    phases: tuple[Phase, ...] = ()
    """Those it has been in."""
    people: tuple[tuple[Role, PublicKey], ...] = ()
    """The users who wrote in it or gave a command, each with what they might do then; not those whose words a fork
    began with."""
    rooms: tuple[str, ...] = ()
    """The room of a conversation in direct messages; of an import its own id, in which no one else is."""
    chats: tuple[str, ...] = ()
    """The chat that a conversation was begun in (`trust.chat_of`)."""


def summarise(conversation: Conversation, length: int) -> Row:
    """The row of a conversation whose journal has that many bytes."""
    shown = glance_of(conversation)
    return Row(
        id=shown.id,
        bytes=length,
        seq=shown.seq,
        settled=is_settled(conversation),
        status=status_of(conversation),
        place=shown.place,
        cycle=shown.cycle,
        title=shown.title,
        started=shown.started_at,
        updated=shown.updated_at,
        spending=conversation.totals.spending,
        imported=shown.imported,
    )


def news_of(records: Iterable[Record]) -> News:  # noqa: C901 - one case for each kind
    """What the index has to add for these records of one conversation."""
    events: list[str] = []
    messages: list[Passage] = []
    agents: list[str] = []
    phases: list[Phase] = []
    people: list[tuple[Role, PublicKey]] = []
    imported: list[str] = []
    rollbacks: list[tuple[int, int]] = []
    withdrawn: list[int] = []
    places: list[tuple[str, int]] = []
    rooms: list[tuple[str, str]] = []
    chats: list[str] = []
    is_import = False

    def add(record: Record, name: str, text: str, author: str = "") -> None:
        messages.append(Passage(seq=record.seq, at=record.at, name=name, text=text, author=author))

    for record in records:
        match record:
            case ConversationStarted():
                add(record, "", record.title)
                rooms.append((record.id, room_of(record.address)))
                chats.append(chat_of(record.address))
            case ConversationForked():
                add(record, "", record.title)
                rooms.append((record.id, room_of(record.state.identity.address)))
                chats.append(chat_of(record.state.identity.address))
                agents += record.state.cycle.participants
                phases.append(record.state.cycle.phase)
            case MessageRecorded():
                events.append(record.event_id)
                places.append((record.event_id, record.seq))
                add(record, record.name, record.text, "" if record.is_outside else record.author.lower())
                agents += record.addressed
                people.append((record.role, record.author))
            case MessageWithdrawn():
                withdrawn += (record.message, *((FIRST,) if record.was_title else ()))
            case CommandGiven():
                events.append(record.event_id)
                places.append((record.event_id, record.seq))
                add(record, record.name, f"/{record.command} {record.argument}".rstrip())
                people.append((record.role, record.author))
            case MessageSent():
                events += (event.id for event in record.events)
                if record.purpose not in ("announcement", "reminder"):  # a phase, and what is there already
                    add(record, record.name, record.text)
                    places += ((event.id, record.seq) for event in record.events)
            case Delivered(again=UnsignedEvent(id=event)):
                events.append(event)
                places.append((event, record.message))
            case JournalRebuilt():
                events += record.known_events
            case ConversationImported():
                imported += events
                events = []
                is_import = True
            case TurnOpened():
                agents += record.agents
            case RunStarted():
                agents += (record.agent, record.pubkey)
            case CycleStarted():
                phases.append(record.phase)
            case PhaseTransition():
                phases.append(record.to)
            case RolledBack():
                phases.append(record.state.cycle.phase)
                rollbacks.append((record.seq, record.to))
    return News(
        events=tuple(filter(None, events)),
        messages=tuple(messages),
        places=tuple(place for place in places if place[0]),
        withdrawn=tuple(withdrawn),
        agents=tuple(dict.fromkeys(agents)),
        phases=tuple(dict.fromkeys(phases)),
        people=tuple(dict.fromkeys(people)),
        imported=tuple(filter(None, imported)),
        is_import=is_import,
        rollbacks=tuple(rollbacks),
        rooms=tuple(own if is_import else room for own, room in rooms if room),
        chats=tuple(filter(None, chats)),
    )


def as_import(row: Row, news: News) -> tuple[Row, News]:
    """What is known of a conversation whose whole journal was written elsewhere, before its import is recorded."""
    rooms = (str(row.id),) if news.rooms else ()
    foreign = replace(news, events=(), imported=(*news.imported, *news.events), is_import=True, rooms=rooms)
    return replace(row, imported=row.seq), foreign
