"""The subscriptions of the daemon: events addressed to its keys, and every answer in its threads.

Clients drop p tags in replies, so threads are followed by their roots too (docs/protocol.md, "What is read").
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage

from .client_requests import AGENT_CHANGE, STOP_REQUEST, read_stop
from .deletions import DELETION
from .events import Event
from .filters import DIRECT_KINDS, Filter
from .interactions import read_press, to_prompts
from .pool import RelayPool
from .reactions import REACTION, read_reaction
from .rooms import Rooms
from .threading import KINDS, read_event
from .threading.comments import COMMENT, THREAD
from .unread_kinds import UNREAD_KINDS

FOLLOWED: Final = 500
"""Roots followed at most, the newest active ones: five REQs of a hundred; relays allow ten to a connection."""
PER_REQ: Final = 100
BATCHES: Final = FOLLOWED // PER_REQ
RECENT: Final = 600
"""Seconds of a thread's past that are read at least when it is first followed: the clock of its author may be ahead of
those who answer."""
BEFORE: Final = 60
"""Seconds before a thread's first message from which its past is read, for the same reason."""
FIRST: Final = 60
"""Seconds before a first start: messages written while the daemon connected are answered, and clocks differ."""
OVERLAP: Final = 2 * 24 * 3600 + 3600
"""Seconds before the last receipt from which the backlog is read: gift wraps are dated up to two days back."""


class Listener:
    """Subscribes, reads events in their threading schemes, and passes the messages on."""

    def __init__(
        self,
        pool: RelayPool,
        own_keys: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        project: str | None,
        receive: Callable[[InboundMessage], object],
        now: Callable[[], float] = time.time,
        people: Collection[PublicKey] = (),
        receive_new: Callable[[InboundMessage], object] | None = None,
        rooms: Rooms | None = None,
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            own_keys: the keys of the project and its agents.
            slugs: the agents' keys by the names users may write.
            project: the address of the project's event, if there is one.
            receive: takes every message.
            now: the wall clock, in seconds.
            people: users whose notes are read even if they mention a key only in the text, which no filter can match.
            receive_new: takes messages that are new at their relay in its place.
            rooms: knows the rooms of relays (NIP-29) that our keys are in.
        """
        self._pool = pool
        self._own_keys = frozenset(own_keys)
        self._slugs = slugs
        self._project = project
        self._receive = receive
        self._receive_new = receive_new or receive
        self._now = now
        self._people = frozenset(people)
        self._rooms = rooms
        self._batches: dict[int, set[str]] = {}  # the roots of each REQ; the batch filled last comes last

    def start(self, last_received: int | None, roots: Iterable[str] = ()) -> None:
        """Subscribe; the backlog begins before `last_received` (seconds), at a first start just before now."""
        since = max(0, last_received - OVERLAP) if last_received is not None else int(self._now()) - FIRST
        self._subscribe_addressed(since)
        if self._rooms is not None:
            self._rooms.start(since)
        newest = list(roots)[-FOLLOWED:]
        for batch, first in enumerate(range(0, len(newest), PER_REQ)):
            self._batches[batch] = set(newest[first : first + PER_REQ])
            self._subscribe(batch, since)

    def change(
        self,
        own_keys: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        people: Collection[PublicKey] = (),
        project: str | None = None,
    ) -> None:
        """Listen for other keys, and another project, from now on; followed threads stay followed."""
        is_same_people = frozenset(people) == self._people
        is_new = frozenset(own_keys) != self._own_keys or not is_same_people or project != self._project
        self._own_keys, self._slugs, self._people = frozenset(own_keys), slugs, frozenset(people)
        self._project = project
        if is_new:
            self._subscribe_addressed(int(self._now()) - FIRST)
            for batch in self._batches:  # whose reactions are read
                self._subscribe(batch, int(self._now()) - FIRST)

    def _subscribe_addressed(self, since: int) -> None:
        own_keys = sorted(self._own_keys)
        filters: list[Filter] = [
            {"kinds": [*KINDS, *sorted(UNREAD_KINDS)], "#p": own_keys},
            {"kinds": [COMMENT], "#P": own_keys},  # comments under our own notes, also those that answer others
        ]
        if self._project:
            filters.append({"kinds": [THREAD], "#a": [self._project]})
        if self._people:
            people = sorted(self._people)
            filters.append({"kinds": [kind for kind in KINDS if kind != COMMENT], "authors": people})
            filters.append({"kinds": [COMMENT], "authors": people})
            filters.append({"kinds": [DELETION], "authors": people})
            filters.append({"kinds": [REACTION, STOP_REQUEST, AGENT_CHANGE], "authors": people, "#p": own_keys})
            if self._project:  # a request to stop everything names no agent
                filters.append({"kinds": [STOP_REQUEST], "authors": people, "#a": [self._project]})
        filters.append({"kinds": sorted(DIRECT_KINDS), "#p": own_keys})
        self._pool.subscribe("addressed", filters, since)

    def follow(self, root: str, since: int | None = None) -> None:
        """Receive every answer in a thread, also those written before the thread was known.

        Args:
            root: the thread; nothing happens if it is followed already.
            since: seconds; the date of its first message, None if unknown.
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
        filters: list[Filter] = [{"kinds": [*KINDS, DELETION], "#e": roots}, {"kinds": [COMMENT], "#E": roots}]
        if self._people:  # of anyone they would be the likes of a whole network
            filters.append({"kinds": [REACTION, STOP_REQUEST], "authors": sorted(self._people), "#e": roots})
        self._pool.subscribe(f"threads {batch}", filters, since)

    def on_event(self, event: Event, relay: str) -> None:
        """Read a genuine event in its threading scheme and pass the message on."""
        self._read(event, relay, self._receive)

    def on_new_event(self, event: Event, relay: str) -> None:
        """Read an event that is new at its relay; as `on_event`."""
        self._read(event, relay, self._receive_new)

    def _read(self, event: Event, relay: str, receive: Callable[[InboundMessage], object]) -> None:
        if self._rooms is None:
            self._pass_on(event, relay, receive)
        else:
            self._rooms.when_known(event, relay, partial(self._pass_on, event, relay, receive))

    def _pass_on(self, event: Event, relay: str, receive: Callable[[InboundMessage], object]) -> None:
        if self._rooms is not None and self._rooms.is_left_out(event, relay):
            return
        in_room = self._rooms.scheme_of(event, relay) if self._rooms is not None else None
        message = read_event(event, self._own_keys, self._slugs, relay, self._project, in_room)
        if message is not None and self._rooms is not None:
            message = self._rooms.as_addressed(message, event, relay)
        message = message or read_reaction(event, self._own_keys, relay) or read_stop(event, self._own_keys, relay)
        message = message or read_press(event, self._own_keys, relay)
        if message is not None:
            receive(to_prompts(message, self._rooms.prompts) if self._rooms is not None else message)
