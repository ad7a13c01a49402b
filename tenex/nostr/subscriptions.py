"""What we listen for: what is addressed to our keys, and every answer in the threads we are in.

Clients drop p tags in replies, so threads are followed by their roots too (PROTOCOL, "How a conversation starts").
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage

from .events import Event
from .filters import Filter
from .pool import RelayPool
from .threading import read_event

KINDS: Final = (1, 11, 1111)
"""Notes, threads and comments."""
FOLLOWED: Final = 500
"""Roots followed at most, the newest active ones: five REQs of a hundred; relays allow ten to a connection."""
PER_REQ: Final = 100
BATCHES: Final = FOLLOWED // PER_REQ
RECENT: Final = 600
"""Seconds of a thread's past that are read at least when we begin to follow it: the clock of who opened it may be
ahead of those who answer."""
BEFORE: Final = 60
"""Seconds before a thread's first message from which its past is read, for the same reason."""
FIRST: Final = 60
"""Seconds before a first start: what was written while we connected is ours to answer, and clocks differ."""
OVERLAP: Final = 2 * 24 * 3600 + 3600
"""Seconds before our last time of receipt from which the backlog is paged: gift wraps are dated up to two days back."""


class Listener:
    """Subscribes, reads forms, hands messages on."""

    def __init__(
        self,
        pool: RelayPool,
        ours: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        project: str | None,
        receive: Callable[[InboundMessage], object],
        now: Callable[[], float] = time.time,
        people: Collection[PublicKey] = (),
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            ours: our keys.
            slugs: the agents' keys by the names people may call them.
            project: the address of the project's event, where there is one.
            receive: takes every message.
            now: the wall clock, in seconds.
            people: whose notes are read even where they name us only in their text, which no filter can ask for.
        """
        self._pool = pool
        self._ours = frozenset(ours)
        self._slugs = slugs
        self._project = project
        self._receive = receive
        self._now = now
        self._people = frozenset(people)
        self._batches: dict[int, set[str]] = {}  # the roots of each REQ; the batch filled last comes last

    def start(self, last_heard: int | None, roots: Iterable[str] = ()) -> None:
        """Subscribe; the backlog begins before `last_heard` (seconds), in a first life just before now."""
        since = max(0, last_heard - OVERLAP) if last_heard is not None else int(self._now()) - FIRST
        self._subscribe_addressed(since)
        newest = list(roots)[-FOLLOWED:]
        for batch, first in enumerate(range(0, len(newest), PER_REQ)):
            self._batches[batch] = set(newest[first : first + PER_REQ])
            self._subscribe(batch, since)

    def change(
        self, ours: Collection[PublicKey], slugs: Mapping[str, PublicKey], people: Collection[PublicKey] = ()
    ) -> None:
        """Listen for other keys from now on; the threads that are followed stay so."""
        is_new = frozenset(ours) != self._ours or frozenset(people) != self._people
        self._ours, self._slugs, self._people = frozenset(ours), slugs, frozenset(people)
        if is_new:
            self._subscribe_addressed(int(self._now()) - FIRST)

    def _subscribe_addressed(self, since: int) -> None:
        filters: list[Filter] = [{"kinds": list(KINDS), "#p": sorted(self._ours)}]
        if self._project:
            filters.append({"kinds": [11], "#a": [self._project]})
        if self._people:
            filters.append({"kinds": [1, 11], "authors": sorted(self._people)})
        self._pool.subscribe("addressed", filters, since)

    def follow(self, root: str, since: int | None = None) -> None:
        """Hear every answer in a thread, also those that came before we knew of it.

        Args:
            root: the thread; one we follow already costs nothing.
            since: seconds; when its first message says it was written. None if that is not known.
        """
        if any(root in roots for roots in self._batches.values()):
            return
        if not self._batches or len(self._batches[self._last()]) >= PER_REQ:
            if len(self._batches) < BATCHES:
                free = len(self._batches)
            else:
                free = next(iter(self._batches))  # the oldest batch is released whole: one REQ changes, not five
                del self._batches[free]
            self._batches[free] = set()
        batch = self._last()
        self._batches[batch].add(root)
        recent = int(self._now()) - RECENT
        self._subscribe(batch, recent if since is None else max(0, min(recent, since - BEFORE)))

    def _last(self) -> int:
        return next(reversed(self._batches))

    def _subscribe(self, batch: int, since: int) -> None:
        roots = sorted(self._batches[batch])
        filters = [{"kinds": list(KINDS), "#e": roots}, {"kinds": [1111], "#E": roots}]
        self._pool.subscribe(f"threads {batch}", filters, since)

    def on_event(self, event: Event, relay: str) -> None:
        """Take a genuine event: read it in its form and hand it on."""
        message = read_event(event, self._ours, self._slugs, relay, self._project)
        if message is not None:
            self._receive(message)
