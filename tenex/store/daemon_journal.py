"""Beside the conversations, in `conversations/_daemon/journal.jsonl`: lessons, profiles, and words no journal holds.

It rotates like any other journal: a start reads the newest file, which begins with a `DaemonSnapshot`. Daemons that
share a database share it, too: each appends at the seq that it expects, and where another one was first it reads that
and decides again.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from tenex.core.config import LessonSubject, Role
from tenex.core.errors import AppendConflict, AppendFailed, StoreDamaged, StoreError, TenexError
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.ports import Clock, Notice
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.log import get_logger

from .disk import Disk
from .file_writer import FileWriter
from .format import Codec
from .journal import StoredJournal
from .journal_reader import JOURNAL, NEWEST, peek

FOLDER: Final = "_daemon"

log = get_logger(__name__)

LESSONS_KEPT: Final = 50
"""Of each agent: what fits into a prompt beside the work; the journal keeps them all."""

KEYS_KEPT: Final = 2_000
"""Idempotency keys remembered: far more calls than can be in flight when a process stops, and 150 KB of a file."""

TRIES: Final = 10
"""How often a change is decided again: each time another daemon was first, and so has made its own."""

ANSWERED_KEPT: Final = 1_000
"""Authors of direct messages whose last answer is remembered: all users, and the guests of some weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonLearned(Record):
    """An agent recorded what it would do otherwise next time."""

    agent: Slug
    conversation: ConversationId
    title: str
    lesson: str
    category: str = ""
    key: str
    author: PublicKey | None = None
    """The person on whose behalf it was learned; None in journals from before that was kept."""
    role: Role | None = None
    """What that person was allowed to do then."""
    about: LessonSubject = LessonSubject.AGENT
    replaces: tuple[int, ...] = ()
    """The numbers of lessons that it corrects or combines: they are shown no more."""

    @property
    def number(self) -> int:
        """What agents and operators call it by."""
        return self.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonEdited(Record):
    """An operator changed the words of a lesson."""

    lesson: int
    """Its number."""
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonRemoved(Record):
    """A lesson is shown to no agent any more."""

    lesson: int
    """Its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePublished(Record):
    """A replaceable event of one of our keys went out; the next must be dated later."""

    pubkey: PublicKey
    kind: int
    event_id: EventId
    content_hash: str
    """sha256 of the content, to see whether there is anything new to publish."""
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureNotified(Record):
    """A user is notified that a conversation failed: the message is made from this, always with the same id."""

    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCleared(Record):
    """A conversation works again; users who meet a later failure of it are notified again."""

    conversation: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessageAnswered(Record):
    """A direct message of this author is answered by how to write to the project."""

    author: PublicKey
    event_id: EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadAnswered(Record):
    """An event of this author, of a kind that is not read, is answered by what is understood."""

    author: PublicKey
    event_id: EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChosen(Record):
    """An owner chose the model of an agent from a client."""

    agent: Slug
    model: str
    """"" for what the settings say."""
    instead_of: tuple[str, ...] = ()
    """The models that the settings named then: where they name others, the choice is over."""
    author: PublicKey
    event_id: EventId
    created_at: int
    """Seconds, by the author's clock: an earlier choice that comes later does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSnapshot(SnapshotRecord):
    """The daemon's state after the record `seq`.

    A change to what any kind within it means is a change to this record: a higher version, and a migration.
    """

    lessons: tuple[LessonLearned, ...]
    """The newest of each agent, an agent's oldest first."""
    profiles: tuple[ProfilePublished, ...]
    keys: tuple[str, ...]
    """Idempotency keys of lessons, oldest first."""
    notices: tuple[Notice, ...]
    answered: tuple[DirectMessageAnswered, ...] = ()
    """The newest of each author, oldest first."""
    unread_answered: tuple[UnreadAnswered, ...] = ()
    """Likewise."""
    models: tuple[ModelChosen, ...] = ()
    """The newest of each agent."""


DAEMON: Final = Codec(
    {
        kind.__name__: kind
        for kind in (
            LessonLearned,
            LessonEdited,
            LessonRemoved,
            ProfilePublished,
            FailureNotified,
            FailureCleared,
            DirectMessageAnswered,
            UnreadAnswered,
            ModelChosen,
            DaemonSnapshot,
        )
    }
)


_Make = Callable[..., Record]
"""Makes a record, given its `seq` and `at`."""


class DaemonLines(Protocol):
    """A journal that is open, to be appended to; `StoredJournal` says what its methods do."""

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""

    @property
    def is_long(self) -> bool:
        """Whether it is time for a snapshot."""

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, all of them or none."""

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on after a snapshot; False where the snapshot is not of the last record."""

    async def newer(self) -> list[Record]:
        """What other daemons have appended since; the next record follows on that.

        Raises:
            AppendFailed: it cannot be read now.
            StoreDamaged: it is not what we wrote.
        """

    async def close(self) -> None:
        """Close it."""


class DaemonRecords(Protocol):
    """Where the records are: in a folder of one daemon, or in a database of several."""

    async def open(self) -> tuple[DaemonLines, list[Record]]:
        """The journal, and the records to fold.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed.
            AppendFailed: it cannot be read or repaired now.
        """

    async def peek(self) -> list[Record]:
        """What can be read of it; nothing is repaired.

        Raises:
            OSError: it is in a file, which cannot be read.
            StoreError: it holds what we did not write, or cannot be reached.
        """


class _OwnJournal(StoredJournal):
    """A journal in a folder that is locked: no one else appends to it."""

    async def newer(self) -> list[Record]:
        return []


class DaemonFolder:
    """The records in a folder of conversations (`DaemonRecords`)."""

    def __init__(self, root: Path, disk: Disk, clock: Clock) -> None:
        self.path = root / FOLDER / JOURNAL
        self._disk = disk
        self._clock = clock

    async def open(self) -> tuple[DaemonLines, list[Record]]:
        """See `DaemonRecords`."""
        remedy = "Move the file away to start without the lessons and profiles in it."
        writer, records = await FileWriter.open(self.path, DAEMON, self._disk, self._clock, remedy)
        return _OwnJournal(writer, DAEMON, self._disk), records

    async def peek(self) -> list[Record]:
        """See `DaemonRecords`; none where there is no file."""
        try:
            return await self._disk.run(peek, self.path, DAEMON, NEWEST)
        except (FileNotFoundError, NotADirectoryError):
            return []


class DaemonJournal:
    """The daemon's journal and what it adds up to.

    What changes it is durable when the call returns. It raises `AppendFailed` where the store did not take it (the next
    call reads the journal again), and `StoreDamaged` where the journal has become unreadable.
    """

    def __init__(self, records: DaemonRecords, clock: Clock) -> None:
        """Start with an unread journal; use `open`."""
        self._records = records
        self._clock = clock
        self._turn = asyncio.Lock()
        self._journal: DaemonLines | None = None
        self._clear()

    @classmethod
    async def open(cls, records: DaemonRecords, clock: Clock) -> Self:
        """Read the journal.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed.
            AppendFailed: it cannot be read or repaired now.
        """
        book = cls(records, clock)
        await book._opened()
        return book

    @classmethod
    async def begin(cls, records: DaemonRecords, clock: Clock) -> Self:
        """As `open`, for a start: no conversation shall wait because lessons and profiles cannot be read or written.

        What can be read is known all the same; each record tries to open the journal again, and fails where it must.
        """
        book = cls(records, clock)
        try:
            await book._opened()
        except (AppendFailed, StoreDamaged) as fault:
            log.error("daemon_journal.closed", reason=str(fault))
            with suppress(OSError, StoreError):
                await book.load()
        return book

    async def load(self) -> None:
        """Know what can be read, and nothing else, without opening the journal. Raises as `DaemonRecords.peek`."""
        records = await self._records.peek()
        self._clear()
        for record in records:
            self._fold(record)

    async def follow(self) -> None:
        """Know what other daemons have appended.

        Raises:
            AppendFailed: it cannot be read now.
            StoreDamaged: it is not what we wrote.
        """
        async with self._turn:
            await self._current()

    async def adopt(self, other: "DaemonJournal") -> int:
        """Add the lessons and profiles of another journal that this one never had; returns how many lessons.

        A lesson keeps its time and its source, and gets a number of its own.
        """
        added = 0
        for lesson in other.all_lessons():
            added += await self._change(partial(self._adopted, lesson))
        for profile in other._profiles.values():
            last = self.profile(profile.pubkey, profile.kind)
            if last is None or last.created_at < profile.created_at:
                await self.published(
                    profile.pubkey, profile.kind, profile.event_id, profile.content_hash, profile.created_at
                )
        return added

    def _adopted(self, lesson: LessonLearned) -> _Make | None:
        if lesson.key in self._keys:
            return None
        return lambda seq, at: replace(lesson, seq=seq, replaces=())  # noqa: ARG005 - it was learned at its own time

    def lessons(self, agent: str) -> tuple[LessonLearned, ...]:
        """The newest lessons that an agent is shown, oldest first: its own, and all that are about the workspace."""
        shown = [one for one in self.all_lessons() if one.agent == agent or one.about is LessonSubject.WORKSPACE]
        return tuple(shown[-LESSONS_KEPT:])

    def profile(self, pubkey: PublicKey, kind: int) -> ProfilePublished | None:
        """The newest replaceable event of that key and kind that we published."""
        return self._profiles.get((pubkey, kind))

    def all_lessons(self) -> tuple[LessonLearned, ...]:
        """Every lesson that is shown to an agent, the oldest first."""
        return tuple(sorted((one for kept in self._lessons.values() for one in kept), key=lambda one: one.seq))

    async def remove_lesson(self, seq: int) -> LessonLearned | None:
        """Remove a lesson durably and return it; None where there is none of that number."""
        removed: LessonLearned | None = None

        def decide() -> _Make | None:
            nonlocal removed
            removed = self._numbered(seq)
            return partial(LessonRemoved, lesson=seq) if removed is not None else None

        await self._change(decide)
        return removed

    async def edit_lesson(self, seq: int, title: str, text: str) -> LessonLearned | None:
        """Change the words of a lesson durably and return it as it is then; None where there is none of that number."""
        edit = partial(LessonEdited, lesson=seq, title=title, text=text)
        await self._change(lambda: edit if self._numbered(seq) is not None else None)
        return self._numbered(seq)

    def _numbered(self, seq: int) -> LessonLearned | None:
        return next((one for one in self.all_lessons() if one.number == seq), None)

    async def record(
        self,
        agent: str,
        conversation_id: str,
        title: str,
        lesson: str,
        category: str,
        idempotency_key: str,
        author: PublicKey | None = None,
        role: Role | None = None,
        about: LessonSubject = LessonSubject.AGENT,
        replaces: Sequence[int] = (),
        check: Callable[[Sequence[LessonLearned]], None] = lambda _: None,
    ) -> None:
        """Make a lesson durable, in place of those it replaces; a second call with the same key does nothing.

        `check` is called with what the agent is shown, in one step with the append: what it raises prevents that.
        """
        learned = partial(
            LessonLearned,
            agent=Slug(agent),
            conversation=ConversationId(conversation_id),
            title=title,
            lesson=lesson,
            category=category,
            key=idempotency_key,
            author=author,
            role=role,
            about=about,
            replaces=tuple(replaces),
        )

        def decide() -> _Make | None:
            if idempotency_key in self._keys:
                return None
            check(self.lessons(agent))
            return learned

        await self._change(decide)

    async def published(
        self, pubkey: PublicKey, kind: int, event_id: EventId, content_hash: str, created_at: int
    ) -> None:
        """Remember a replaceable event that went out; the same event again does nothing."""
        published = partial(
            ProfilePublished,
            pubkey=pubkey,
            kind=kind,
            event_id=event_id,
            content_hash=content_hash,
            created_at=created_at,
        )

        def decide() -> _Make | None:
            last = self.profile(pubkey, kind)
            return published if last is None or last.event_id != event_id else None

        await self._change(decide)

    def open_notices(self) -> tuple[Notice, ...]:
        """The notices of all failures that are not over."""
        return tuple(self._notices.values())

    async def add_notice(self, notice: Notice) -> None:
        """Make a notice durable before it is sent; one for the same user and failure does nothing."""
        notified = partial(FailureNotified, notice=notice)
        await self._change(lambda: notified if notice.key not in self._notices else None)

    async def clear_notices(self, conversation: ConversationId) -> None:
        """Forget the notices of a conversation that works again."""
        cleared = partial(FailureCleared, conversation=conversation)
        await self._change(lambda: cleared if any(key[0] == conversation for key in self._notices) else None)

    def answered(self) -> Mapping[PublicKey, DirectMessageAnswered]:
        """The last answer to direct messages of each author, oldest first; at most `ANSWERED_KEPT`."""
        return self._answered

    async def add_answered(self, author: PublicKey, event_id: EventId) -> None:
        """Remember that a direct message is answered, before the answer is sent."""
        await self._change(lambda: partial(DirectMessageAnswered, author=author, event_id=event_id))

    def unread_answered(self) -> Mapping[PublicKey, UnreadAnswered]:
        """The last answer to an event of a kind that is not read, of each author; at most `ANSWERED_KEPT`."""
        return self._unread_answered

    async def add_unread_answered(self, author: PublicKey, event_id: EventId) -> None:
        """Remember that such an event is answered, before the answer is sent."""
        await self._change(lambda: partial(UnreadAnswered, author=author, event_id=event_id))

    def models(self) -> Mapping[Slug, ModelChosen]:
        """The newest choice of a model for each agent."""
        return self._models

    async def choose_model(
        self,
        agent: Slug,
        model: str,
        instead_of: Sequence[str],
        author: PublicKey,
        event_id: EventId,
        created_at: int,
    ) -> None:
        """Make the choice of a model durable."""
        async with self._turn:
            journal = await self._opened()
            await self._append(
                journal,
                partial(
                    ModelChosen,
                    agent=agent,
                    model=model,
                    instead_of=tuple(instead_of),
                    author=author,
                    event_id=event_id,
                    created_at=created_at,
                ),
            )

    async def close(self) -> None:
        """Close the file; the next record opens it again."""
        async with self._turn:
            journal = self._journal
            self._journal = None
            if journal is not None:
                await journal.close()

    async def _opened(self) -> DaemonLines:
        """The journal, read again if it is not open: after a failed append only the store knows its content."""
        if self._journal is None:
            self._journal, records = await self._records.open()
            self._clear()
            for record in records:
                self._fold(record)
        return self._journal

    async def _current(self) -> DaemonLines:
        """The journal, with what others have appended to it by now."""
        journal = await self._opened()
        for record in await journal.newer():
            self._fold(record)
        return journal

    async def _change(self, decide: Callable[[], _Make | None]) -> bool:
        """Append the record that is decided on, if any; it is decided again where another daemon was first.

        Returns whether there was one.
        """
        async with self._turn:
            for is_last in (*[False] * TRIES, True):
                journal = await self._current()
                make = decide()
                if make is None:
                    return False
                try:
                    await self._append(journal, make)
                except AppendConflict as fault:
                    if is_last:
                        raise
                    log.info("daemon_journal.read_again", reason=str(fault))
                else:
                    break
            return True

    async def _append(self, journal: DaemonLines, make: _Make) -> None:
        record = make(seq=journal.next_seq, at=self._clock.now())
        try:
            await journal.append([[record]])
        except AppendFailed:
            self._journal = None
            raise
        except asyncio.CancelledError:
            self._journal = None  # it may have been written: the next call reads whether it was
            await journal.close()
            raise
        self._fold(record)
        if journal.is_long:
            await self._rotate(journal)

    async def _rotate(self, journal: DaemonLines) -> None:
        """Go on in a new file; a failure only means that the present one is used on."""
        snapshot = DaemonSnapshot(
            seq=journal.next_seq - 1,
            at=self._clock.now(),
            lessons=tuple(lesson for lessons in self._lessons.values() for lesson in lessons),
            profiles=tuple(self._profiles.values()),
            keys=tuple(self._keys),
            notices=self.open_notices(),
            answered=tuple(self._answered.values()),
            unread_answered=tuple(self._unread_answered.values()),
            models=tuple(self._models.values()),
        )
        try:
            await journal.rotate(snapshot)
        except (OSError, TenexError) as fault:
            log.error("daemon_journal.not_rotated", reason=str(fault))

    def _clear(self) -> None:
        self._lessons: dict[Slug, tuple[LessonLearned, ...]] = {}
        self._profiles: dict[tuple[PublicKey, int], ProfilePublished] = {}
        self._keys: dict[str, None] = {}
        self._notices: dict[tuple[ConversationId, PublicKey, str], Notice] = {}
        self._answered: dict[PublicKey, DirectMessageAnswered] = {}
        self._unread_answered: dict[PublicKey, UnreadAnswered] = {}
        self._models: dict[Slug, ModelChosen] = {}

    def _without(self, numbers: Collection[int]) -> None:
        for agent, kept in self._lessons.items():
            self._lessons[agent] = tuple(one for one in kept if one.number not in numbers)

    def _fold_lesson(self, record: LessonLearned | LessonEdited | LessonRemoved) -> None:
        match record:
            case LessonLearned():
                self._without(record.replaces)
                self._lessons[record.agent] = (*self._lessons.get(record.agent, ()), record)[-LESSONS_KEPT:]
                self._keys[record.key] = None
                if len(self._keys) > KEYS_KEPT:
                    del self._keys[next(iter(self._keys))]
            case LessonEdited():
                for agent, kept in self._lessons.items():
                    self._lessons[agent] = tuple(_edited(one, record) for one in kept)
            case LessonRemoved():
                self._without((record.lesson,))

    def _fold(self, record: Record) -> None:
        match record:
            case DaemonSnapshot():
                self._clear()
                for lesson in record.lessons:
                    self._lessons[lesson.agent] = (*self._lessons.get(lesson.agent, ()), lesson)
                self._profiles = {(profile.pubkey, profile.kind): profile for profile in record.profiles}
                self._keys = dict.fromkeys(record.keys)
                self._notices = {notice.key: notice for notice in record.notices}
                self._answered = {answer.author: answer for answer in record.answered}
                self._unread_answered = {answer.author: answer for answer in record.unread_answered}
                self._models = {chosen.agent: chosen for chosen in record.models}
            case LessonLearned() | LessonEdited() | LessonRemoved():
                self._fold_lesson(record)
            case ProfilePublished():
                self._profiles[record.pubkey, record.kind] = record
            case DirectMessageAnswered():
                _remember(self._answered, record)
            case UnreadAnswered():
                _remember(self._unread_answered, record)
            case ModelChosen():
                self._models[record.agent] = record
            case FailureNotified(notice=notice):
                self._notices[notice.key] = notice
            case FailureCleared():
                self._notices = {key: notice for key, notice in self._notices.items() if key[0] != record.conversation}


def _edited(lesson: LessonLearned, edit: LessonEdited) -> LessonLearned:
    return replace(lesson, title=edit.title, lesson=edit.text) if lesson.number == edit.lesson else lesson


_Answer = TypeVar("_Answer", DirectMessageAnswered, UnreadAnswered)


def _remember(answers: dict[PublicKey, _Answer], answer: _Answer) -> None:
    """Put the newest answer of its author to the end, and forget the oldest beyond `ANSWERED_KEPT`."""
    answers.pop(answer.author, None)
    answers[answer.author] = answer
    if len(answers) > ANSWERED_KEPT:
        del answers[next(iter(answers))]
