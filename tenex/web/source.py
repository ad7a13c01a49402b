"""What pages show, read from the store and asked of the daemon; nothing is changed."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import ModelUnavailable, StoreDamaged, StoreError, TenexError, TransientError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.inbox.received_files import INBOX
from tenex.core.ports import Clock
from tenex.core.projection import Projection, activity_of, project, why_stuck
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.operations.asks import Ask, Kind, Replied, asks_of, newest_message, replied_by, replied_to_root
from tenex.operations.doctor.daemon import problems_in_status
from tenex.operations.doctor.findings import Finding, PartProblems, fault
from tenex.operations.listing import list_rows, list_with_choices, search_with_choices
from tenex.operations.status import report_from_files
from tenex.service.client import ask, is_listening
from tenex.settings import ProjectPaths
from tenex.store.conversation_files import FOR_PEOPLE, ConversationFiles, Listed
from tenex.store.conversations import Conversations
from tenex.store.journal_reader import NEWEST, VIEW
from tenex.store.search import Choices, Filter, Found
from tenex.store.stats import Stats, total

from .lines import line_of
from .outcome import BEGUN, NO_DAEMON, NOT_SEEN, Outcome, outcome_of
from .story import Entry, Sent, Story, sent_to
from .talk import Show, chosen

ENTRIES: Final = 100
"""Of a story on a page: more would take longer to lay out than to read. Up to twice as many where work is not to be cut
into two."""
LOOKING: Final = 1.0
"""Seconds after which no earlier file of a journal is looked through; a link goes on from there."""
PATIENCE: Final = 5.0
"""Seconds for an answer of the daemon, which needs some ms."""
EFFECT: Final = 4.0
"""Seconds in which the effect of an answer is looked for: most take less than one."""
LOOK: Final = 0.1
"""Seconds between two looks for it."""
FILES: Final = 2
"""Files before the newest that are remembered: of the conversations that are looked at, some MiB each."""
ENDS: Final = 8
"""Ends of conversations that are remembered: some MiB each."""
ASKS: Final = 1_000
"""Conversations of which it is remembered what they wait for."""

FOLDERS: Final = {FOR_PEOPLE: "for people", INBOX: "sent by people"}
"""The folders of a conversation whose files its page offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """A part of a story, and where the conversation is."""

    state: Conversation
    """At the end of the file that the part is in: the newest where the part is the newest."""
    projection: Projection
    """Of that state."""
    ways: Mapping[tuple[str, str], int]
    """How often a mission or a workflow went from one node to another in the records that were read."""
    entries: Sequence[Entry]
    last: int
    """The last record on the page, for what follows."""
    earlier: int
    """What is before this record is on the page before; 0 where there is none."""
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a conversation waits for from a user, as its journal was when it had so many bytes."""

    length: int
    asks: Sequence[Ask]
    replied: Replied | None
    """The message that what a user writes next replies to."""
    stuck: Sequence[str]
    """Why it does not go on by itself, where it is held or limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a conversation: all that its pages show is made of its newest records, which are read once."""

    length: int
    """The bytes of the journal that it was read from."""
    part: StoryPage
    asks: Asks


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a conversation."""

    folder: str
    """One of `FOLDERS`."""
    file: Listed

    @property
    def origin(self) -> str:
        """Whom it is from or for."""
        return FOLDERS[self.folder]


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """What a list shows beside a row of the index: what the readable file says."""

    usage: Mapping[str, Any]
    speaker: str
    words: str


@dataclass(kw_only=True)
class Source:
    """Reads one data folder beside a running daemon, or without one."""

    places: ProjectPaths
    folder: Conversations
    clock: Clock
    problems_of_parts: Mapping[str, PartProblems]
    """Of what features add to the daemon's status."""
    _ends: OrderedDict[ConversationId, End] = field(default_factory=OrderedDict)
    _asks: OrderedDict[ConversationId, Asks] = field(default_factory=OrderedDict)
    _stats: dict[ConversationId, tuple[int, Stats]] = field(default_factory=dict)
    """With the bytes of the journal that each was read from."""
    _glimpses: dict[str, tuple[int, Glimpse]] = field(default_factory=dict)
    """With the time of the file that each was read from, in ns."""
    _files_before: OrderedDict[tuple[ConversationId, int], list[Record]] = field(default_factory=OrderedDict)
    """By the record with which each ends."""
    _adding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a story is read: pages that are asked for together wait for what the first has read."""

    # ---- conversations ------------------------------------------------------------------------------------------

    async def rows(self, wanted: Filter, limit: int) -> tuple[list[dict[str, Any]], list[str]]:
        """The conversations that a filter lets through, the newest first, and sentences about what was left out."""
        notices: list[str] = []
        rows = await list_rows(self.folder, wanted, limit, notice=notices.append)
        return rows, notices

    async def rows_with_choices(self, wanted: Filter) -> tuple[list[dict[str, Any]], Choices, list[str]]:
        """All conversations that a filter lets through, what they can be filtered by, and sentences likewise."""
        notices: list[str] = []
        rows, choices = await list_with_choices(self.folder, wanted, notice=notices.append)
        return rows, choices, notices

    async def search(self, query: str, wanted: Filter, limit: int) -> tuple[list[Found], Choices, list[str]]:
        """The conversations that match a query, the best first; choices and sentences likewise.

        Raises:
            UsageError: the query is empty or too long.
        """
        notices: list[str] = []
        found, choices = await search_with_choices(self.folder, query, wanted, limit, notice=notices.append)
        return found, choices, notices

    async def glimpse(self, name: str) -> Glimpse | None:
        """The last words and the usage of a conversation, by its readable file; None where that cannot be read."""
        path = self.folder.path(name) / VIEW
        try:
            changed = path.stat().st_mtime_ns
            cached = self._glimpses.get(name)
            if cached is None or cached[0] != changed:
                cached = self._glimpses[name] = (changed, await asyncio.to_thread(_glimpse, path))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return cached[1]

    async def state(self, name: ConversationId) -> Conversation:
        """The newest state of a conversation; it is shared, so only look at it.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        return (await self._end(name)).part.state

    async def story(
        self, name: ConversationId, *, before: int = 0, around: int = 0, show: Show = "all", words: str = ""
    ) -> StoryPage:
        """The newest part of a story, that before a record, or that around one; or the newest of what is looked for.

        One file of the journal is read, and the one before where that has little to show: so a part of a long story
        costs as much as of a short one. What is looked for is looked for in earlier files too, for a while.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        if show != "all" or words:
            return await self._matching(name, before, show, words)
        if not before and not around:
            return (await self._end(name)).part
        newest = await self.state(name)
        async with self._reading:
            records = await self.folder.read_file(name, around or before - 1)
            is_newest_file = bool(records) and records[-1].seq >= newest.next_seq - 1
            part, _ = await self._part(name, records, before, around, is_newest_file)
        return part

    async def _matching(self, name: ConversationId, before: int, show: Show, words: str) -> StoryPage:
        """The newest entries before a record that a reader wants to see."""
        newest = (await self._end(name)).part
        entries: list[Entry] = []
        earlier = before or newest.last + 1
        deadline = asyncio.get_running_loop().time() + LOOKING
        while earlier:
            async with self._reading:
                records = await self.folder.read_file(name, earlier - 1)
                _, all_entries = await asyncio.to_thread(story_of, name, records)
            there = chosen((entry for entry in all_entries if entry.seq < earlier), show, words)
            entries = [*there, *entries]
            earlier = records[0].seq + 1 if isinstance(records[0], SnapshotRecord) else 0
            if len(entries) > ENTRIES:
                entries = entries[-ENTRIES:]
                earlier = entries[0].seq
            if len(entries) == ENTRIES or asyncio.get_running_loop().time() > deadline:
                break
        return replace(newest, entries=entries, earlier=earlier, is_newest=not before)

    async def entry(self, name: ConversationId, seq: int) -> Entry | None:
        """The entry of a record, whole; None where that has none.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        _, entries = await asyncio.to_thread(story_of, name, await self.folder.read_file(name, seq))
        return next((entry for entry in entries if entry.seq == seq), None)

    async def _end(self, name: ConversationId) -> End:
        """The end of a conversation, read again where its journal has grown."""
        length = await self.folder.size(name)
        end = self._ends.get(name)
        if end is None or end.length != length:
            async with self._reading:
                end = await self._read_end(name)
        self._ends.move_to_end(name)
        return end

    async def _read_end(self, name: ConversationId) -> End:
        """The end of a conversation as it is now; what another page has just read is taken."""
        length = await self.folder.size(name)
        end = self._ends.get(name)
        if end is not None and end.length == length:
            return end
        records = await self.folder.read_file(name, NEWEST)
        part, records = await self._part(name, records, 0, 0, True)
        asks = asks_of(part.state, records)
        if isinstance(records[0], SnapshotRecord) and _lacks_message(asks, records):
            records = await self._with_file_before(name, records)
            asks = asks_of(part.state, records)
        replied = replied_by(part.state, newest_message(records)) or replied_to_root(part.state)
        stuck = why_stuck(activity_of(part.state))
        self._asks[name] = Asks(length=length, asks=asks, replied=replied, stuck=stuck)
        end = self._ends[name] = End(length=length, part=part, asks=self._asks[name])
        for cache, most in ((self._ends, ENDS), (self._asks, ASKS)):
            if len(cache) > most:
                cache.popitem(last=False)
        return end

    async def _part(
        self, name: ConversationId, records: list[Record], before: int, around: int, is_newest_file: bool
    ) -> tuple[StoryPage, list[Record]]:
        """A part of a story, and the records that it was made of: also those of the file before, if there are few."""
        part = await asyncio.to_thread(_part, name, records, before, around, is_newest_file)
        if len(part.entries) < ENTRIES // 2 and part.earlier:
            records = await self._with_file_before(name, records)
            part = await asyncio.to_thread(_part, name, records, before, around, is_newest_file)
        return part, records

    async def _with_file_before(self, name: ConversationId, records: list[Record]) -> list[Record]:
        """The records of a file, after those of the file before it, which never changes."""
        snapshot, *others = records
        key = (name, snapshot.seq)
        if key not in self._files_before:
            self._files_before[key] = await self.folder.read_file(name, snapshot.seq)
            if len(self._files_before) > FILES:
                self._files_before.popitem(last=False)
        return [*self._files_before[key], *others]

    async def asks(self, name: ConversationId) -> Asks:
        """What a conversation waits for from a user.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        asks = self._asks.get(name)
        if asks is None or asks.length != await self.folder.size(name):
            asks = (await self._end(name)).asks
        return asks

    async def outcome(self, name: ConversationId, after: int, events: Sequence[str], kind: Kind) -> Outcome:
        """What becomes of an answer that was published, in the records after `after`; waited for some seconds.

        `events` are the ids of its events, `kind` is what it answers.
        """
        if not await self.is_daemon_there():
            return NO_DAEMON
        tail = self.folder.tail(name, after)
        records: list[Record] = []
        try:
            async with asyncio.timeout(EFFECT):
                while True:
                    records += await tail.read()
                    outcome = outcome_of(events, kind, records)
                    if outcome is not None:
                        return outcome
                    await asyncio.sleep(LOOK)
        except (OSError, StoreError):  # a TimeoutError is an OSError
            return NOT_SEEN

    async def begins(self, name: ConversationId) -> Outcome:
        """What becomes of a message that begins a conversation; its first record is waited for some seconds."""
        if not await self.is_daemon_there():
            return NO_DAEMON
        try:
            async with asyncio.timeout(EFFECT):
                while True:
                    with suppress(OSError, TenexError):
                        if await self.folder.size(name):
                            return BEGUN
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            return NOT_SEEN

    async def files(self, name: ConversationId) -> list[StoredFile]:
        """The files of a conversation that its page offers: those for people, then those that people have sent."""

        def listed() -> list[StoredFile]:
            return [
                StoredFile(folder=folder, file=file)
                for folder in FOLDERS
                for file in ConversationFiles(self.folder.path(name) / folder).listed()
            ]

        return await asyncio.to_thread(listed)

    async def file(self, name: ConversationId, folder: str, file: str) -> Path | None:
        """Where a file is that `files` lists; None where there is none."""
        if folder not in FOLDERS:
            return None
        return await asyncio.to_thread(ConversationFiles(self.folder.path(name) / folder).path_of, file)

    async def records(self, name: ConversationId, holding: int) -> list[Record]:
        """The records of the file that holds a record.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        return await self.folder.read_file(name, holding)

    async def sent(self, name: ConversationId, seq: int) -> Sent | None:
        """What the run was sent that the record `seq` began; None where that record began none.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        records = await self.folder.read_file(name, seq)
        run = next((str(getattr(record, "run", "")) for record in records if record.seq == seq), "")
        return await asyncio.to_thread(sent_to, name, records, run) if run else None

    async def stats(self, name: ConversationId) -> Stats:
        """What a conversation has taken; its whole journal is read, once while it does not change.

        Raises:
            TenexError: it cannot be read, or there is none.
        """
        length = await self.folder.size(name)
        cached = self._stats.get(name)
        if cached is None or cached[0] != length:
            records, _ = await self.folder.read_left(name)
            cached = self._stats[name] = (length, await asyncio.to_thread(Stats.of, name, records))
        return cached[1]

    async def all_stats(self) -> tuple[Stats, list[str]]:
        """What all conversations have taken together, and the names of those that cannot be read."""
        each: list[Stats] = []
        unread: list[str] = []
        async with self._adding:  # a second page waits for what the first has read
            for name in await self.folder.lengths():
                try:
                    each.append(await self.stats(name))
                except TenexError:
                    unread.append(name)
        return total(each), unread

    # ---- the daemon ---------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """The report of `tenex status`: the daemon's own, else one made of the files, with the reason."""
        try:
            report: dict[str, Any] = await ask(self.places.socket, "status", patience=PATIENCE)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            state, fault = "stopped", f"no daemon listens at {self.places.socket}"
        except TimeoutError:
            state, fault = "unresponsive", f"no answer from {self.places.socket} within {PATIENCE:g} s"
        except (OSError, TenexError) as error:
            state, fault = "unknown", str(error)
        else:
            return report
        report = await report_from_files(self.places, self.folder, self.clock.now())
        return {**report, "state": state, "fault": fault}

    async def problems(self) -> list[Finding]:
        """What does not work and only a person can fix, as the daemon reports it; without what keeps conversations."""
        place = str(self.places.socket)
        try:
            report: dict[str, Any] = await ask(self.places.socket, "status", patience=PATIENCE)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return [fault("no daemon is running, so nothing goes on", place, "`tenex run` starts one", TransientError)]
        except (OSError, TenexError) as error:  # TimeoutError is an OSError
            why = str(error) or f"no answer within {PATIENCE:g} s"
            return [fault(f"the daemon does not answer: {why}", place, "`tenex doctor` looks why", TransientError)]
        problems = problems_in_status(report, self.problems_of_parts)
        return [problem for problem in problems if problem.error is not ModelUnavailable]

    async def is_daemon_there(self) -> bool:
        """Whether a daemon accepts connections at its control socket."""
        return await is_listening(self.places.socket, patience=PATIENCE)


def folded(name: ConversationId, records: Sequence[Record]) -> Conversation:
    """The state after some records.

    Raises:
        StoreDamaged: they do not follow one another.
    """
    try:
        return fold(name, records)
    except (ValueError, LookupError) as fault:
        raise StoreDamaged(f"The journal of {name[:12]} cannot be read: {fault}") from fault


def _lacks_message(asks: Sequence[Ask], records: Sequence[Record]) -> bool:
    """Whether a message that can be answered is in an earlier file."""
    return newest_message(records) is None or any(ask.replied is None for ask in asks)


def story_of(name: ConversationId, records: Sequence[Record]) -> tuple[Story, list[Entry]]:
    """The story of a file's records, and its entries.

    Raises:
        StoreDamaged: they do not follow one another.
    """
    story = Story(name)
    try:
        entries = [entry for record in records for entry in story.take(record)]
    except (ValueError, LookupError) as fault:
        raise StoreDamaged(f"The journal of {name[:12]} cannot be read: {fault}") from fault
    if not records:
        raise UsageError(f"Conversation {name[:12]} has no record yet.")
    return story, entries


def _part(name: ConversationId, records: Sequence[Record], before: int, around: int, is_newest_file: bool) -> StoryPage:
    story, entries = story_of(name, records)
    begins_later = isinstance(records[0], SnapshotRecord)
    if before:
        entries = [entry for entry in entries if entry.seq < before]
    first, end = max(0, len(entries) - ENTRIES), len(entries)
    if around:
        middle = next((place for place, entry in enumerate(entries) if entry.seq >= around), len(entries))
        first = max(0, middle - ENTRIES // 2)
        end = first + ENTRIES
    least = max(0, first - ENTRIES)
    while first > least and entries[first].is_work:  # work stays in one piece
        first -= 1
    while first > 0 and entries[first - 1].seq == entries[first].seq:  # several entries of one record stay together
        first -= 1
    chosen = entries[first:end]
    is_whole_end = end >= len(entries) and not before
    has_earlier = first > 0 or begins_later
    start = chosen[0].seq if chosen and first > 0 else records[0].seq + 1
    return StoryPage(
        state=story.state,
        projection=project(story.state),
        ways=story.ways,
        entries=chosen,
        last=story.state.next_seq - 1 if is_whole_end else chosen[-1].seq if chosen else start,
        earlier=start if has_earlier else 0,
        is_newest=is_newest_file and is_whole_end,
    )


def _glimpse(path: Path) -> Glimpse:
    view = json.loads(path.read_bytes())
    messages = view["messages"]
    last = messages[-1] if messages else {}
    return Glimpse(usage=view["usage"], speaker=str(last.get("from", "")), words=line_of(str(last.get("text", ""))))
