"""What changes while a page is open, as Server-Sent Events whose ids are the seqs of the journal.

One task follows the journal of a conversation for all tabs that show it, by looking at the size of its newest file. A
browser that was away sends the last id it has seen, and gets what came after it. A tab that does not read is let go
once its queue is full: it connects again, and loses nothing either.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.errors import StoreError, TenexError
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.record_log import Tail
from tenex.store.repository import NEWEST

from .source import Source
from .story import Entry, Story

LOOK: Final = 0.3
"""Seconds between two looks at a journal that is followed: a look is two system calls."""
LOOK_AT_ALL: Final = 1.5
"""Seconds between two looks at all conversations."""
DAEMON: Final = 5.0
"""Seconds between two looks whether the daemon is there."""
PING: Final = 15.0
"""Seconds without an event after which a comment is sent: a proxy closes what is silent."""
QUEUE: Final = 200
"""Events that wait for one tab."""
KEPT: Final = 300
"""Entries of a conversation that are kept for tabs that connect again; a tab that missed more loads its page again."""
STREAMS: Final = 200
"""Open at a time, of all browsers."""

Fragments = Callable[[ConversationId, Entry], str]
"""Makes the HTML of an entry."""
Heads = Callable[[Story], str]
"""Makes the HTML of where a conversation is."""


def event(name: str, data: str = "", number: int | None = None) -> bytes:
    """An event of a stream."""
    head = "" if number is None else f"id: {number}\n"
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"{head}event: {name}\n{lines}\n".encode("utf-8", "replace")


class Subscriber:
    """A tab: what it has not read yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._is_over = False

    def send(self, *events: bytes) -> None:
        """Queue events; where the queue is full the stream ends after what is in it."""
        for item in events:
            if not self._is_over:
                try:
                    self._queue.put_nowait(item)
                except asyncio.QueueFull:
                    self._is_over = True

    def close(self) -> None:
        """End the stream after what is queued."""
        self._is_over = True
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(b"")

    async def events(self) -> AsyncIterator[bytes]:
        """What is to be written, until the stream is over."""
        yield b"retry: 1000\n\n"
        while not (self._is_over and self._queue.empty()):
            try:
                async with asyncio.timeout(PING):
                    item = await self._queue.get()
            except TimeoutError:
                item = b": here\n\n"
            if item:
                yield item


@dataclass(slots=True)
class _Followed:
    """A conversation that some tab shows."""

    task: asyncio.Task[None]
    tabs: set[Subscriber]
    entries: deque[Entry]
    since: int
    """Entries of every record after this one are kept."""
    last: int
    """The newest record."""
    head: bytes
    """The event of where the conversation is after it."""


class Streams:
    """The streams of all tabs."""

    def __init__(self, source: Source, fragment: Fragments, head: Heads) -> None:
        self._source = source
        self._fragment = fragment
        self._head = head
        self._followed: dict[ConversationId, _Followed] = {}
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

    async def of_conversation(self, name: ConversationId, after: int) -> AsyncIterator[bytes]:
        """`entry` for each thing that happens after that record, `head` with where it is then.

        `reload` where the tab has missed more than is kept.
        """
        tab = Subscriber()
        followed = self._followed.get(name)
        if followed is None:
            try:
                followed = await self._follow(name)
            except (TenexError, OSError, ValueError, LookupError) as fault:
                yield event("fault", str(fault))
                return
        followed.tabs.add(tab)
        if after < followed.since:
            tab.send(event("reload"))
        elif after < followed.last:
            tab.send(*(self._entry(name, entry) for entry in followed.entries if entry.seq > after), followed.head)
        self._begin_watch(tab)
        try:
            async for item in tab.events():
                yield item
        finally:
            followed.tabs.discard(tab)
            if not followed.tabs and self._followed.get(name) is followed:
                followed.task.cancel()
                del self._followed[name]

    def _start(self, coroutine: Any, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- one conversation ---------------------------------------------------------------------------------------

    async def _follow(self, name: ConversationId) -> _Followed:
        records = await self._source.records(name, NEWEST)
        story, entries = await asyncio.to_thread(_story_of, name, records)
        followed = self._followed.get(name)  # another tab may have been quicker
        if followed is not None:
            return followed
        first = records[0].seq if records else 0
        kept = deque(entries, KEPT)
        is_all = len(kept) == len(entries)
        since = kept[0].seq if not is_all else first if first > 1 else 0
        last = story.state.next_seq - 1
        tail = self._source.folder.tail(name, last)
        task = self._start(self._run(name, story, tail), "story")
        head = event("head", self._head(story), last)
        followed = _Followed(task=task, tabs=set(), entries=kept, since=since, last=last, head=head)
        self._followed[name] = followed
        return followed

    async def _run(self, name: ConversationId, story: Story, tail: Tail) -> None:
        while True:
            await asyncio.sleep(LOOK)
            followed = self._followed.get(name)
            if followed is None:
                return
            try:
                records = await tail.read()
                entries = [entry for record in records for entry in story.take(record)]
            except FileNotFoundError:
                continue
            except (StoreError, OSError, ValueError, LookupError) as fault:
                for tab in followed.tabs:
                    tab.send(event("fault", str(fault)))
                continue
            if not records:
                continue
            for entry in entries:
                if len(followed.entries) == KEPT:
                    followed.since = followed.entries[0].seq
                followed.entries.append(entry)
            news = [self._entry(name, entry) for entry in entries]
            followed.last = records[-1].seq
            followed.head = event("head", self._head(story), followed.last)
            news.append(followed.head)
            for tab in list(followed.tabs):
                tab.send(*news)

    def _entry(self, name: ConversationId, entry: Entry) -> bytes:
        return event("entry", self._fragment(name, entry), entry.seq)

    # ---- all conversations, and the daemon ----------------------------------------------------------------------

    def _begin_watch(self, tab: Subscriber) -> None:
        if self._daemon:
            tab.send(event("daemon", self._daemon))
        if self._watch is None or self._watch.done():
            self._watch = self._start(self._watch_all(), "conversations")

    async def _watch_all(self) -> None:
        """Report changes while some tab is open."""
        before: Mapping[ConversationId, int] | None = None
        loop = asyncio.get_running_loop()
        next_look = 0.0
        while self._all():
            if self._lists:
                with suppress(TenexError, OSError):
                    now = await self._source.folder.lengths()
                    if before is not None and now != before:
                        _send(self._lists, event("changed"))
                    before = now
            if loop.time() >= next_look:
                next_look = loop.time() + DAEMON
                self._report_daemon("running" if await self._source.is_daemon_there() else "stopped")
            await asyncio.sleep(LOOK_AT_ALL)
        self._daemon = ""

    def _report_daemon(self, state: str) -> None:
        if state != self._daemon:
            self._daemon = state
            _send(self._all(), event("daemon", state))


def _send(tabs: Iterable[Subscriber], item: bytes) -> None:
    for tab in list(tabs):
        tab.send(item)


def _story_of(name: ConversationId, records: list[Record]) -> tuple[Story, list[Entry]]:
    story = Story(name)
    return story, [entry for record in records for entry in story.take(record)]
