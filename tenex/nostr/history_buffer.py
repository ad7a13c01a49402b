"""Buffers the stored events of one relay until all are read, so that they are delivered in the order of writing.

    pages, newest first ──► buffered ──all read, or full, or nothing more for a while──► sorted ──► delivered

Relays answer newest first, and a request and the `/stop` after it may arrive by different subscriptions. So all stored
events that one connection reads are collected here before any of them is handled.

New events that arrive meanwhile wait here too, for at most `NEW_WAIT` seconds, so that none overtakes what it answers.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

MAX_BUFFERED: Final = 5_000
"""Events: more than a project writes in a week, and about 10 MB of them."""

NEW_WAIT: Final = 5.0
"""Seconds a new event waits for stored ones to be read: ten pages of most relays, and users still get an answer."""

MOST_CHARACTERS: Final = 8 * 1024 * 1024
"""Of the frames that held the events; parsed they may take ten times as much memory."""

AT_ONCE: Final = 20
"""Events delivered before other tasks run again: the largest take some milliseconds each."""


def in_order(batch: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort events by created_at; within one second by id, but an answer after what it answers."""
    rest = sorted(batch, key=lambda raw: (raw["created_at"], str(raw.get("id"))))
    ordered: list[dict[str, Any]] = []
    for _, group in groupby(rest, key=lambda raw: raw["created_at"]):
        ordered.extend(_answers_last(group))
    return ordered


def _answers_last(group: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Order events that are sorted by id: first those that answer none of the others, then their answers, and so on.

    Takes time in proportion to the tags, also for a chain in which each event answers the one before.
    """
    left: dict[str, list[dict[str, Any]]] = {}
    for raw in group:  # nothing is verified yet: a forged copy must not replace the genuine event
        left.setdefault(str(raw.get("id")), []).append(raw)
    waits_for: dict[str, int] = {}
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for name, raws in left.items():
        answered = {other for raw in raws for other in _answered(raw) if other in left and other != name}
        waits_for[name] = len(answered)
        for other in answered:
            answers[other].append(name)
    free = [name for name in left if not waits_for[name]]
    while left:
        # a cycle cannot be signed; if it could, ids decide
        released = free or list(left)
        free = []
        for name in released:
            yield from left.pop(name)
            for answer in answers[name]:
                waits_for[answer] -= 1
                if not waits_for[answer]:
                    free.append(answer)
        free.sort()


def _answered(raw: dict[str, Any]) -> frozenset[str]:
    """The ids an event refers to in well-formed e and E tags."""
    tags = raw.get("tags")
    pairs = (tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, list) and len(tag) > 1)
    return frozenset(tag[1] for tag in pairs if tag[0] in ("e", "E") and isinstance(tag[1], str))


class HistoryBuffer:
    """Passes stored events from the readers of one relay to `take`, and new ones to `take_new`.

    They are delivered `in_order` once the last reader is done. If the buffer is full, or nothing has arrived for
    `patience` seconds although a reader is not done, the buffered ones are delivered in that order; others follow.
    Events that are known are not buffered: after every reconnect relays send two days again. Nor are identical copies.
    """

    def __init__(
        self,
        take: Callable[[dict[str, Any]], None],
        patience: float,
        *,
        take_new: Callable[[dict[str, Any]], None] | None = None,
        is_known: Callable[[dict[str, Any]], bool] = lambda _: False,
        most: int = MAX_BUFFERED,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        self._take = take
        self._take_new = take_new or take
        self._is_known = is_known
        self._patience = patience
        self._most = most
        self._most_characters = most_characters
        self._readers: set[object] = set()
        self._buffered: list[dict[str, Any]] = []
        self._by_id: dict[str, list[dict[str, Any]]] = {}
        """The buffered events; two of one id differ, because nothing is verified yet."""
        self._new: set[str] = set()
        """The ids of those that are new at the relay."""
        self._characters = 0
        self._added_at = 0.0
        self._new_due: float | None = None
        """When buffered new events are delivered, whether all stored ones have been read or not."""
        self._is_late = False
        """Reading took longer than new events wait: until it ends they are no longer buffered."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._room.set()
        self._empty.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_empty(self) -> bool:
        """Whether everything added has been delivered."""
        return self._empty.is_set()

    def expect(self, reader: object) -> None:
        """Buffer events until this reader is done too; a second call does nothing."""
        self._readers.add(reader)
        self._note_idle()

    def done(self, reader: object) -> None:
        """Stop waiting for this reader; one that was not expected is ignored."""
        self._readers.discard(reader)
        self._is_late = self._is_late and bool(self._readers)
        self._note_idle()
        self._wake.set()

    def add(self, raw: dict[str, Any], characters: int) -> Awaitable[None] | None:
        """Buffer a stored event whose created_at is an int; an awaitable that is returned waits for room."""
        if raw in self._by_id.get(str(raw.get("id")), ()):  # a page that is read again must not postpone delivery
            return None
        self._added_at = asyncio.get_running_loop().time()
        return None if self._is_known(raw) else self._buffer(raw, characters)

    def add_new(self, raw: dict[str, Any], characters: int, *, is_new: bool = True) -> Awaitable[None] | None:
        """Deliver an event that is new at the relay, or buffer it while stored ones are read; waits as `add` does.

        `is_new` is False if the relay may have sent a stored one where only new ones were asked for.
        """
        if self._is_late or self._idle.is_set():
            deliver = self._take_new if is_new else self._take
            deliver(raw)
            return None
        if self._is_known(raw):
            return None
        now = asyncio.get_running_loop().time()
        if not self._buffered:
            self._added_at = now
        if self._new_due is None:
            self._new_due = now + NEW_WAIT
            self._wake.set()
        if is_new:
            self._new.add(str(raw.get("id")))
        return self._buffer(raw, characters)

    def _buffer(self, raw: dict[str, Any], characters: int) -> Awaitable[None] | None:
        self._buffered.append(raw)
        self._by_id.setdefault(str(raw.get("id")), []).append(raw)
        self._characters += characters
        self._empty.clear()
        self._note_idle()
        if len(self._buffered) == 1:
            self._wake.set()
        if not self._is_full():
            return None
        self._room.clear()
        self._wake.set()
        return self._until_room()

    async def delivered(self) -> None:
        """Return once the buffer is empty."""
        await self._empty.wait()

    async def idle(self) -> None:
        """Return once every reader is done and the buffer is empty."""
        await self._idle.wait()

    async def run(self) -> None:
        """Deliver events until cancelled."""
        while True:
            await self._until_due()
            batch = self._buffered
            self._buffered = []
            self._characters = 0
            self._new_due = None
            new = self._new
            self._new = set()
            self._by_id.clear()
            self._room.set()
            for number, raw in enumerate(in_order(batch), 1):
                deliver = self._take_new if str(raw.get("id")) in new else self._take
                deliver(raw)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            if not self._buffered:
                self._empty.set()
                self._note_idle()

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            left: float | None = None
            if self._buffered:
                if not self._readers or self._is_full():
                    return
                due = self._added_at + self._patience
                left = (due if self._new_due is None else min(due, self._new_due)) - loop.time()
                if left <= 0:
                    self._is_late = self._new_due is not None
                    return
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()

    def _note_idle(self) -> None:
        if self._empty.is_set() and not self._readers:
            self._idle.set()
        else:
            self._idle.clear()

    async def _until_room(self) -> None:
        await self._room.wait()

    def _is_full(self) -> bool:
        return len(self._buffered) >= self._most or self._characters >= self._most_characters
