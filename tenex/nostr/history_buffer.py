"""The past of one relay, held until all of it is there, so that what was written first is handed on first.

    pages, newest first ──► held ──all read, or no more room, or nothing more for a while──► sorted ──► taken

Relays answer newest first, and a request and the `/stop` after it may come by different subscriptions. So all that one
connection reads of the past is gathered here before any of it is decided about.

What is new meanwhile waits here too, for `NEW_WAIT` seconds at most, so that it does not overtake what it answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from .connection import Take

MAX_BUFFERED: Final = 5_000
"""Events: more than a project writes in a week, and about 10 MB of them."""

NEW_WAIT: Final = 5.0
"""Seconds a new event waits for the past to be read: ten pages of most relays, and a person still gets an answer."""

MOST_CHARACTERS: Final = 8 * 1024 * 1024
"""Of the frames they came in; parsed they may take ten times as much memory."""

AT_ONCE: Final = 20
"""Events handed on before other tasks run again: the largest take some milliseconds each."""


def in_order(batch: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events by created_at; those of one second by id, but what answers another after it (created_at has no more)."""
    rest = sorted(batch, key=lambda raw: (raw["created_at"], str(raw.get("id"))))
    ordered: list[dict[str, Any]] = []
    for _, group in groupby(rest, key=lambda raw: raw["created_at"]):
        left: dict[str, list[dict[str, Any]]] = {}
        for raw in group:  # nothing is verified yet: a forged copy must not take the place of the genuine one
            left.setdefault(str(raw.get("id")), []).append(raw)
        answers = {name: frozenset[str]().union(*map(_answered, raws)) - {name} for name, raws in left.items()}
        while left:
            free = [name for name in left if not answers[name] & left.keys()]
            # a circle cannot be signed; if it could, ids decide
            ordered.extend(raw for name in free or list(left) for raw in left.pop(name))
    return ordered


def _answered(raw: dict[str, Any]) -> frozenset[str]:
    """The events that one refers to, as far as its tags are any."""
    tags = raw.get("tags")
    pairs = (tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, list) and len(tag) > 1)
    return frozenset(tag[1] for tag in pairs if tag[0] in ("e", "E") and isinstance(tag[1], str))


class HistoryBuffer:
    """Events of the past on their way from the readers of one relay to `take`.

    They are handed on `in_order`, when the last reader has come to its end. Where there are more than
    fit, or where nothing more has come for `patience` seconds though a reader is still at it, those that are there
    are handed on in that order among themselves, and what comes later follows. What was taken before is not held: after
    every reconnect relays send two days again, most of which is known. Nor is an identical copy of what is held.
    """

    def __init__(
        self,
        take: Take,
        patience: float,
        *,
        is_known: Callable[[dict[str, Any]], bool] = lambda _: False,
        most: int = MAX_BUFFERED,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        self._take = take
        self._is_known = is_known
        self._patience = patience
        self._most = most
        self._most_characters = most_characters
        self._readers: set[object] = set()
        self._buffered: list[dict[str, Any]] = []
        self._by_id: dict[str, list[dict[str, Any]]] = {}
        """What is held; two of one id differ, for nothing is verified yet."""
        self._characters = 0
        self._added_at = 0.0
        self._new_due: float | None = None
        """When the new events that are held are handed on, whether the past has been read or not."""
        self._is_late = False
        """The past took longer than new events wait: until it has been read they are not held any more."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._room.set()
        self._empty.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_empty(self) -> bool:
        """Tell whether everything added has been taken."""
        return self._empty.is_set()

    def expect(self, reader: object) -> None:
        """Hold what comes until this reader is done too; a second call does nothing."""
        self._readers.add(reader)
        self._note_idle()

    def done(self, reader: object) -> None:
        """Wait for this reader no longer; one that was not expected is fine."""
        self._readers.discard(reader)
        self._is_late = self._is_late and bool(self._readers)
        self._note_idle()
        self._wake.set()

    def add(self, raw: dict[str, Any], characters: int) -> Awaitable[None] | None:
        """Hold an event whose created_at is an int; what is returned waits for room."""
        if raw in self._by_id.get(
            str(raw.get("id")), ()
        ):  # a page that is read again must not postpone what it brought before
            return None
        self._added_at = asyncio.get_running_loop().time()
        return None if self._is_known(raw) else self._buffer(raw, characters)

    def add_new(self, raw: dict[str, Any], characters: int) -> Awaitable[None] | None:
        """Hand on an event that is new at the relay, or hold it while the past is read; waits as `add` does."""
        if self._is_late or self._idle.is_set():
            return self._take(raw)
        if self._is_known(raw):
            return None
        now = asyncio.get_running_loop().time()
        if not self._buffered:
            self._added_at = now
        if self._new_due is None:
            self._new_due = now + NEW_WAIT
            self._wake.set()
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

    async def handed_on(self) -> None:
        """Return once nothing is held."""
        await self._empty.wait()

    async def idle(self) -> None:
        """Return once every reader is done and nothing is held."""
        await self._idle.wait()

    async def run(self) -> None:
        """Hand events on, until cancelled."""
        while True:
            await self._until_due()
            batch, self._buffered, self._characters, self._new_due = self._buffered, [], 0, None
            self._by_id.clear()
            self._room.set()
            for number, raw in enumerate(in_order(batch), 1):
                waiting = self._take(raw)
                if waiting is not None:
                    await waiting
                elif number % AT_ONCE == 0:
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
