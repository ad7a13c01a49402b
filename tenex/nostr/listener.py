"""What we listen for: what is addressed to our keys, and every answer in the threads we are in.

Clients drop p tags in replies, so threads are followed by their roots too (PROTOCOL, "How a conversation starts").

Never: judge who may talk; the inbox does.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.signals import Incoming

from .events import Event
from .forms import read_event
from .pool import RelayPool

KINDS: Final = (1, 11, 1111)
"""Notes, threads and comments."""
FOLLOWED: Final = 500
"""Roots followed at most, the newest active ones: five REQs of a hundred; relays allow ten to a connection."""
PER_REQ: Final = 100
RECENT: Final = 600
"""Seconds of a thread's past that are read when we begin to follow it: answers are quick, clocks differ."""
FIRST: Final = 60
"""Seconds before a first start: what was written while we connected is ours to answer, and clocks differ."""
OVERLAP: Final = 2 * 24 * 3600 + 3600
"""Seconds before our last time of receipt from which the backlog is paged: gift wraps are dated up to two days back."""


class Listener:
    """Subscribes, reads forms, hands messages on."""

    def __init__(
        self, pool: RelayPool, ours: Collection[PublicKey], slugs: Mapping[str, PublicKey], project: str | None,
        receive: Callable[[Incoming], object], now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._ours = frozenset(ours)
        self._slugs = slugs
        self._project = project
        self._receive = receive
        self._now = now
        self._roots: OrderedDict[str, None] = OrderedDict()

    def start(self, last_heard: int | None, roots: Iterable[str] = ()) -> None:
        """Subscribe; the backlog begins before `last_heard` (seconds), in a first life just before now."""
        since = max(0, last_heard - OVERLAP) if last_heard is not None else int(self._now()) - FIRST
        filters = [{"kinds": list(KINDS), "#p": sorted(self._ours)}]
        if self._project:
            filters.append({"kinds": [11], "#a": [self._project]})
        self._pool.subscribe("addressed", filters, since)
        for root in list(roots)[-FOLLOWED:]:
            self._roots[root] = None
        for batch in range((len(self._roots) + PER_REQ - 1) // PER_REQ):
            self._subscribe(batch, since)

    def follow(self, root: str) -> None:
        """Hear every answer in a thread, the newest activity last; one we follow already costs nothing."""
        if root in self._roots:
            return
        self._roots[root] = None
        if len(self._roots) > FOLLOWED:  # the oldest batch is let go of as a whole: one REQ changes, not five
            for old in list(self._roots)[:PER_REQ]:
                del self._roots[old]
            for batch in range(FOLLOWED // PER_REQ):
                self._subscribe(batch, int(self._now()) - RECENT)
        else:
            self._subscribe((len(self._roots) - 1) // PER_REQ, int(self._now()) - RECENT)

    def _subscribe(self, batch: int, since: int | None) -> None:
        roots = list(self._roots)[batch * PER_REQ : (batch + 1) * PER_REQ]
        name = f"threads {batch}"
        if not roots:
            self._pool.unsubscribe(name)
            return
        filters = [{"kinds": list(KINDS), "#e": roots}, {"kinds": [1111], "#E": roots}]
        self._pool.subscribe(name, filters, since)

    def heard(self, event: Event, relay: str) -> None:
        """Take a genuine event: read it in its form and hand it on."""
        message = read_event(event, self._ours, self._slugs, relay, self._project)
        if message is not None:
            self._receive(message)
