"""What changes while a page is open, as Server-Sent Events whose ids are the seqs of the journal.

One task follows the journal of a conversation for all tabs that show it, by looking at the size of its newest file, and
the newest entries are kept once for all of them. A browser that was away sends the last id it has seen, and gets what
came after it. A tab that reads too slowly loads its page again.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tenex.core.errors import StoreError, TenexError
from tenex.core.ids import ConversationId
from tenex.operations.doctor.findings import Finding
from tenex.store.record_log import Tail
from tenex.store.repository import NEWEST

from .source import Source, story_of
from .story import Entry, Story
from .talk import Summary, newest_work, summary_of

LOOK: Final = 0.3
"""Seconds between two looks at a journal that is followed: a look is two system calls."""
LOOK_AT_ALL: Final = 0.3
"""Seconds between two looks at all conversations: what waits is to be on the page within one."""
SHARE: Final = 10
"""A look at all conversations takes at most one part in so many of the time."""
DAEMON: Final = 5.0
"""Seconds between two looks whether the daemon is there."""
PING: Final = 15.0
"""Seconds without an event after which a comment is sent: a proxy closes what is silent."""
KEPT: Final = 400
"""Entries of a conversation that are kept for its tabs; a tab that missed more loads its page again."""
STREAMS: Final = 200
"""Open at a time, of all browsers."""

Fragments = Callable[[ConversationId, Entry, Summary], str]
"""Makes the HTML of an entry, and of the line of the work before it, which a message ends."""
Events = Callable[[Entry, Summary], bytes]
"""Makes the event of an entry, likewise."""
Heads = Callable[[Story, Summary], str]
"""Makes the HTML of where a conversation is, and of the line of the newest work."""


def event(name: str, data: str = "", number: int | None = None) -> bytes:
    """An event of a stream."""
    head = "" if number is None else f"id: {number}\n"
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"{head}event: {name}\n{lines}\n".encode("utf-8", "replace")


class _Followed:
    """A conversation that some tab shows: its newest entries, each made into an event once for all tabs."""

    def __init__(self, story: Story, entries: Iterable[Entry], first: int, make: Events) -> None:
        self.story = story
        self.tabs: set[Subscriber] = set()
        self.since = first if first > 1 else 0
        """Entries of every record after this one are kept."""
        self.last = 0
        """The newest record."""
        self.head = b""
        """The event of where the conversation is after it."""
        self._make = make
        self._entries: deque[Entry] = deque()
        self._events: deque[bytes] = deque()
        """Those of the entries in the same places; empty until a tab needs it."""
        self._dropped = 0
        """Entries before those that are kept."""
        self.add(entries)

    @property
    def end(self) -> int:
        """The place after the newest entry, counted from the first that was ever kept."""
        return self._dropped + len(self._entries)

    @property
    def summary(self) -> Summary:
        """The line of the work since the last message."""
        return summary_of(newest_work(list(self._entries)))

    def add(self, entries: Iterable[Entry]) -> None:
        """Keep new entries instead of the oldest."""
        for entry in entries:
            self._entries.append(entry)
            self._events.append(b"")
            if len(self._entries) > KEPT:
                self.since = self._entries.popleft().seq
                self._events.popleft()
                self._dropped += 1

    def place_after(self, seq: int) -> int:
        """Where the entries after a record begin; -1 where they are no longer all kept."""
        if seq < self.since:
            return -1
        before = sum(entry.seq <= seq for entry in self._entries)
        return self._dropped + before

    def event_at(self, place: int) -> bytes | None:
        """The event of the entry there; None where it is no longer kept."""
        index = place - self._dropped
        if index < 0:
            return None
        if not self._events[index]:
            before = newest_work(list(self._entries)[:index])
            self._events[index] = self._make(self._entries[index], summary_of(before))
        return self._events[index]


class Subscriber:
    """A tab: how far it has read its conversation, and the newest of each other event that it has not read.

    It has no queue. However slowly a tab reads, it holds one event of a kind; where it has missed entries that are no
    longer kept, it loads its page again.
    """

    def __init__(self, followed: _Followed | None = None, after: int = 0) -> None:
        self._followed = followed
        self._place = 0 if followed is None else followed.place_after(after)
        self._seen = after
        self._others: dict[str, bytes] = {}
        self._has_news = asyncio.Event()
        self._is_over = False

    def send(self, name: str, data: str = "") -> None:
        """Send an event instead of one of that name that was not read yet."""
        self._others[name] = event(name, data)
        self.wake()

    def wake(self) -> None:
        """Have it look for what is new in its conversation."""
        self._has_news.set()

    def close(self) -> None:
        """End the stream."""
        self._is_over = True
        self.wake()

    async def events(self) -> AsyncIterator[bytes]:
        """What is to be written, until the stream is over."""
        yield b"retry: 1000\n\n"
        while not self._is_over:
            item = self._next()
            if item:
                yield item
                # a write that need not wait gives the loop no time to notice that the other side is gone
                await asyncio.sleep(0)
                continue
            self._has_news.clear()
            try:
                async with asyncio.timeout(PING):
                    await self._has_news.wait()
            except TimeoutError:
                yield b": here\n\n"

    def _next(self) -> bytes:
        """The next event; empty where all is read."""
        followed = self._followed
        if followed is not None and self._place < followed.end:
            item = followed.event_at(self._place)
            if item is None:
                self._place = followed.end
                self._seen = followed.last
                return event("reload")
            self._place += 1
            return item
        if followed is not None and self._seen < followed.last:
            self._seen = followed.last
            return followed.head
        if self._others:
            return self._others.pop(next(iter(self._others)))
        return b""


class Streams:
    """The streams of all tabs."""

    def __init__(self, source: Source, fragment: Fragments, head: Heads) -> None:
        self._source = source
        self._fragment = fragment
        self._head = head
        self._followed: dict[ConversationId, _Followed] = {}
        self._followers: dict[ConversationId, asyncio.Task[None]] = {}
        self._reading = asyncio.Lock()
        """Held while a conversation is read: tabs that open together wait for what the first has read."""
        self._lists: set[Subscriber] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._daemon = ""
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether no more tabs can be served."""
        return self._is_closed or len(self._all()) >= STREAMS

    def _all(self) -> set[Subscriber]:
        return self._lists.union(*(followed.tabs for followed in self._followed.values()))

    def close(self) -> None:
        """End every stream."""
        self._is_closed = True
        for tab in self._all():
            tab.close()
        for task in self._tasks:
            task.cancel()

    async def of_all(self) -> AsyncIterator[bytes]:
        """`changed`, whenever some conversation has; `daemon`, whether it is there."""
        tab = Subscriber()
        self._lists.add(tab)
        self._begin_watch(tab)
        try:
            async for item in tab.events():
                yield item
        finally:
            self._lists.discard(tab)

    async def of_conversation(self, name: ConversationId, after: int) -> AsyncGenerator[bytes, None]:
        """`entry` for each thing that happens after that record, `head` with where it is then.

        `reload` where the tab has missed more than is kept.
        """
        try:
            async with self._reading:
                followed = self._followed.get(name) or await self._follow(name)
        except (TenexError, OSError, ValueError, LookupError) as fault:
            yield event("fault", str(fault))
            return
        tab = Subscriber(followed, after)
        followed.tabs.add(tab)
        self._begin_watch(tab)
        try:
            async for item in tab.events():
                yield item
        finally:
            followed.tabs.discard(tab)
            if not followed.tabs and self._followed.get(name) is followed:
                del self._followed[name]
                self._followers.pop(name).cancel()

    def _start(self, coroutine: Any, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- one conversation ---------------------------------------------------------------------------------------

    async def _follow(self, name: ConversationId) -> _Followed:
        records = await self._source.records(name, NEWEST)
        story, entries = await asyncio.to_thread(story_of, name, records)
        followed = _Followed(story, entries, records[0].seq if records else 0, partial(self._entry, name))
        followed.last = story.state.next_seq - 1
        followed.head = event("head", self._head(story, followed.summary), followed.last)
        tail = self._source.folder.tail(name, followed.last)
        self._followed[name] = followed
        self._followers[name] = self._start(self._run(followed, tail), "story")
        return followed

    async def _run(self, followed: _Followed, tail: Tail) -> None:
        story = followed.story
        while True:
            await asyncio.sleep(LOOK)
            try:
                records = await tail.read()
                entries = [entry for record in records for entry in story.take(record)]
            except FileNotFoundError:
                continue
            except (StoreError, OSError, ValueError, LookupError) as fault:
                for tab in followed.tabs:
                    tab.send("fault", str(fault))
                continue
            if not records:
                continue
            followed.add(entries)
            followed.last = records[-1].seq
            followed.head = event("head", self._head(story, followed.summary), followed.last)
            for tab in followed.tabs:
                tab.wake()

    def _entry(self, name: ConversationId, entry: Entry, before: Summary) -> bytes:
        return event("entry", self._fragment(name, entry, before), entry.seq)

    # ---- all conversations, and the daemon ----------------------------------------------------------------------

    def _begin_watch(self, tab: Subscriber) -> None:
        if self._daemon:
            tab.send("daemon", self._daemon)
        if self._watch is None or self._watch.done():
            self._watch = self._start(self._watch_all(), "conversations")

    async def _watch_all(self) -> None:
        """Report changes while some tab is open."""
        before: Mapping[ConversationId, int] | None = None
        problems_before: list[Finding] | None = None
        loop = asyncio.get_running_loop()
        next_look = 0.0
        while self._all():
            began = loop.time()
            if self._lists:
                with suppress(TenexError, OSError):
                    now = await self._source.folder.lengths()
                    if before is not None and now != before:
                        _send(self._lists, "changed")
                    before = now
            took = loop.time() - began
            if loop.time() >= next_look:
                next_look = loop.time() + DAEMON
                self._report_daemon("running" if await self._source.is_daemon_there() else "stopped")
                if self._lists and self._daemon == "running":
                    problems = await self._source.problems()
                    if problems_before not in (None, problems):
                        _send(self._lists, "changed")
                    problems_before = problems
            await asyncio.sleep(max(LOOK_AT_ALL, SHARE * took))
        self._daemon = ""

    def _report_daemon(self, state: str) -> None:
        if state != self._daemon:
            if self._daemon:
                _send(self._lists, "changed")
            self._daemon = state
            _send(self._all(), "daemon", state)


def _send(tabs: Iterable[Subscriber], name: str, data: str = "") -> None:
    for tab in tabs:
        tab.send(name, data)
