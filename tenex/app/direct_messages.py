"""Reads direct messages and hands on what they say, with where their people look for the answers (ADR 64).

    event ──► opened, in turn ──► in the order of writing ──► inbox relays looked up ──► `Inbox`, as a note is

Wraps have dates that mean nothing, so all that waits is opened before any of it is handed on. What is in no journal yet
is fetched again by the next start, as with notes.

What cannot be read (public notes, invitations, rooms of many people) gets one answer a day that says so; strangers get
none.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tenex.core.config import Role
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import Clock, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.totals.costs import DAY
from tenex.log import get_logger
from tenex.nostr.addresses import is_private
from tenex.nostr.compose import Publisher
from tenex.nostr.deletions import DELETION, deleted_events
from tenex.nostr.direct import DirectMessage, answer_to, read_direct
from tenex.nostr.events import Event
from tenex.nostr.keys import Key, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import ENCRYPTION_KEY, INBOX_RELAYS, RELAY_LIST, encryption_key_in, inbox_relays
from tenex.nostr.reactions import read_reaction
from tenex.nostr.threading.direct import DIRECT, LEGACY, MOST_PEOPLE, room_name, room_people
from tenex.nostr.urls import normalise_url
from tenex.store.daemon_journal import DaemonJournal

log = get_logger(__name__)

TEXT: Final = (
    "Only text and files are read in direct messages, in chats of at most {people} people. Nothing was done. "
    "Please write it as text, or in a smaller chat."
)
WAITING_MOST: Final = 16 * 1024 * 1024
"""Characters of messages that wait to be opened; anybody may send thousands, and more are dropped."""
AT_ONCE: Final = 50
"""Messages that are opened between two pauses, some 25 ms."""
PAUSE: Final = 0.05
"""Seconds: wraps of strangers take a third of the time at most."""
LONGEST: Final = 2.0
"""Seconds after which what is open is handed on, whatever else waits: a flood of wraps may never end."""
GUESTS_PER_DAY: Final = 50
"""Guests who get an answer to what is not read: each is kept, and a stranger can write with any number of keys."""
LOOK_UP: Final = 2.0
"""Seconds for the relays on which people want private messages."""
KNOWN_FOR: Final = 600_000
"""ms after which they are looked up again, while a message uses those that are known."""
KNOWN_MOST: Final = 1_000
"""People whose relays are known."""
INBOXES: Final = 3
"""Relays of a person: as many as NIP-17 recommends."""
SEND: Final = 30.0
"""Seconds for all relays to take an answer to what is not read; it is not tried again."""


async def take_all(_: EventId) -> bool:
    """Take every message: no other daemon is there."""
    return True


class DirectMessages:
    """Receives direct messages, one after the other."""

    def __init__(
        self,
        pool: RelayPool,
        publisher: Publisher,
        keys: Mapping[PublicKey, Key],
        book: DaemonJournal,
        clock: Clock,
        *,
        role: Callable[[PublicKey], Role | None],
        slugs: Callable[[], Mapping[str, PublicKey]],
        relays: Sequence[str],
        receive: Callable[[InboundMessage, bool], object],
        delete: Callable[[EventId, PublicKey], object],
        take: Callable[[EventId], Awaitable[bool]] = take_all,
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            publisher: sends answers to what is not read.
            keys: ours; may grow.
            book: remembers who got such an answer.
            clock: for the day.
            role: what someone may do here; None for a stranger.
            slugs: the agents' keys by the names users may write.
            relays: those of the settings.
            receive: takes every message, and whether it is new at its relay.
            delete: takes the ids that an author deleted.
            take: whether no other daemon of the project answers this one.
        """
        self._take_event = take
        self._pool = pool
        self._publisher = publisher
        self._keys = keys
        self._book = book
        self._clock = clock
        self._role = role
        self._slugs = slugs
        self._relays = [normalise_url(relay) for relay in relays]
        self._receive = receive
        self._delete = delete
        self._waiting: deque[tuple[Event, str, bool]] = deque()
        self._characters = 0
        self._has_some = asyncio.Event()
        self._dropped = 0
        self._inboxes: OrderedDict[PublicKey, list[str]] = OrderedDict()
        """Where people look for private messages; empty where nothing says so."""
        self._encryption_keys: dict[PublicKey, PublicKey] = {}
        """Of those among them who are also written to by another key than their own."""
        self._looked_up_at: dict[PublicKey, int] = {}
        """When each was looked up, in ms."""

    def on_event(self, event: Event, relay: str, *, is_new: bool) -> None:
        """Take a genuine event of `DIRECT_KINDS`; it is read later."""
        if self._characters + len(event.content) > WAITING_MOST:
            self._dropped += 1
            if self._dropped & (self._dropped - 1) == 0:  # the first, and each time there are twice as many
                log.warning("direct_message.dropped", dropped=self._dropped)
            return
        self._waiting.append((event, relay, is_new))
        self._characters += len(event.content)
        self._has_some.set()

    async def run(self) -> None:
        """Read what waits, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._has_some.wait()
                opened = await self._open()
                for message, relay, is_new in sorted(opened, key=lambda each: each[0].event.created_at):
                    await self._unharmed(self._take(message, relay, group, is_new=is_new), message.event.id)

    async def _unharmed(self, work: Awaitable[None], event_id: str) -> None:
        """Await work on one message; what it raises is logged, without what it says, and ends nothing else."""
        try:
            await work
        except (AppendFailed, StoreError) as error:  # rather no answer than one for each message while the disk fails
            log.warning("direct_message.not_answered", event_id=event_id, reason=str(error))
        except Exception as error:  # noqa: BLE001 - it may hold what someone wrote
            log.error("direct_message.failed", event_id=event_id, fault=type(error).__name__)

    async def _open(self) -> list[tuple[DirectMessage, str, bool]]:
        """Open all that waits, also what comes meanwhile; only what those wrote who may.

        Stored ones come a few at a time (`HistoryBuffer`), so after them a moment is waited for more.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + LONGEST
        opened: list[tuple[DirectMessage, str, bool]] = []
        count = 0
        is_new = True
        while loop.time() < ends:
            if not self._waiting and not is_new:
                await asyncio.sleep(PAUSE)
            if not self._waiting:
                break
            event, relay, is_new = self._waiting.popleft()
            self._characters -= len(event.content)
            message = read_direct(event, self._keys)
            is_wanted = message is not None and self._role_of(message.author) is not None
            log.debug("direct_message.received", event_id=event.id, is_wanted=is_wanted)
            if message is not None and is_wanted:
                opened.append((message, relay, is_new))
            count += 1
            if count % AT_ONCE == 0:
                await asyncio.sleep(PAUSE)
        if not self._waiting:
            self._has_some.clear()
        return opened

    def _role_of(self, author: PublicKey) -> Role | None:
        return None if author in self._keys else self._role(author)

    async def _take(self, message: DirectMessage, relay: str, group: asyncio.TaskGroup, *, is_new: bool) -> None:
        event = message.event
        if event.kind == DELETION:
            for deleted in deleted_events(event):
                self._delete(deleted, event.pubkey)
            return
        people = room_people(event)
        if not message.is_read or len(people) > MOST_PEOPLE:
            if self._is_due(message):
                await self._book.add_answered(message.author, event.id)
                answering = self._unharmed(self._answer(message, relay), event.id)
                group.create_task(answering, name="answer to a direct message")
            return
        read = self._read(message, relay)
        if read is None:
            return
        others = [PublicKey(person) for person in sorted(people) if person not in self._keys]
        inboxes = await self._inboxes_of(others, group) if message.is_wrapped else {}
        if message.encryption_key is not None:
            self._encryption_keys[message.author] = message.encryption_key
        keys = {str(person): str(self._encryption_keys[person]) for person in others if person in self._encryption_keys}
        where = {"inboxes": inboxes, "encryption_keys": keys} if keys else {"inboxes": inboxes}
        self._receive(
            replace(
                read,
                room=room_name(people),
                address={**read.address, **where},
                origin={**read.origin, **where},
            ),
            is_new,
        )

    def _read(self, message: DirectMessage, relay: str) -> InboundMessage | None:
        reaction = read_reaction(message.event, self._keys, relay)
        if reaction is not None:
            form = DIRECT.name if message.is_wrapped else LEGACY.name
            return replace(reaction, origin={**reaction.origin, "form": form, "author": message.author})
        scheme = DIRECT if message.is_wrapped else LEGACY
        return scheme.read(message.event, self._keys, self._slugs(), relay, None)

    # ---- where people look for private messages ----

    async def _inboxes_of(self, people: Sequence[PublicKey], group: asyncio.TaskGroup) -> dict[str, list[str]]:
        """The relays of each person, as known, or once they are; what was known for long is looked up meanwhile."""
        unknown = [person for person in people if person not in self._inboxes]
        if unknown:
            await self._look_up(unknown)
        now = self._clock.now()
        stale = [person for person in people if now - self._looked_up_at.get(person, now) >= KNOWN_FOR]
        if stale:
            self._looked_up_at.update(dict.fromkeys(stale, now))
            group.create_task(self._look_up(stale), name="inbox relays")
        return {str(person): self._inboxes[person] for person in people if self._inboxes.get(person)}

    async def _look_up(self, people: Sequence[PublicKey]) -> None:
        """Find where each person is written to: relays of kind 10050, else where they read (NIP-65); and the key."""
        wanted = [INBOX_RELAYS, RELAY_LIST, ENCRYPTION_KEY]
        found = await self._pool.fetch([{"kinds": wanted, "authors": list(people)}], LOOK_UP)
        for person in people:
            theirs = [event for event in reversed(found) if event.pubkey == person]
            for key in (encryption_key_in(event) for event in theirs if event.kind == ENCRYPTION_KEY):
                self._encryption_keys.pop(person, None)
                if key is not None and key != person:
                    self._encryption_keys[person] = key
            lists = (event for event in theirs if event.kind != ENCRYPTION_KEY)
            newest = {event.kind: self._usable(inbox_relays(event)) for event in lists}
            relays = newest.get(INBOX_RELAYS) or newest.get(RELAY_LIST) or self._inboxes.get(person, [])
            if not newest.get(INBOX_RELAYS):
                used = "relays where they read (kind 10002)" if relays else "the relay of the message"
                log.info("direct_message.no_inbox_relays", author=person[:8], used=used)
            self._inboxes.pop(person, None)  # to the end, as the newest
            self._inboxes[person] = relays
            self._looked_up_at[person] = self._clock.now()
        while len(self._inboxes) > KNOWN_MOST:
            forgotten, _ = self._inboxes.popitem(last=False)
            del self._looked_up_at[forgotten]
            self._encryption_keys.pop(forgotten, None)

    def _usable(self, relays: Collection[str]) -> list[str]:
        """The first few that are relays, and at public addresses or in the settings: anybody may name any."""
        usable: dict[str, None] = {}
        for relay in relays:
            try:
                url = normalise_url(relay)
            except ValueError:
                continue
            if url in self._relays or not is_private(url):
                usable[url] = None
        return list(usable)[:INBOXES]

    # ---- what is not read ----

    def _is_due(self, message: DirectMessage) -> bool:
        """Whether its author has had no answer of this kind within a day, or since they wrote it."""
        now = self._clock.now()
        answered = self._book.answered()
        last = answered.get(message.author)
        if last is not None:
            is_old = message.event.created_at * 1000 <= last.at or message.event.id == last.event_id
            return not is_old and not 0 <= now - last.at < DAY
        if self._role(message.author) is not Role.GUEST:
            return True
        today = {author for author, answer in answered.items() if now - answer.at < DAY}
        return sum(1 for author in today if self._role(author) is Role.GUEST) < GUESTS_PER_DAY

    async def _answer(self, message: DirectMessage, relay: str) -> None:
        if not await self._take_event(message.event.id):
            return
        key = self._keys[message.to]
        assert isinstance(key, SecretKey), "it has decrypted the message"
        answer = answer_to(message, TEXT.format(people=MOST_PEOPLE), key, self._clock.now() // 1000)
        relays = [relay, *self._relays]
        if message.is_wrapped:
            if message.author not in self._inboxes:
                await self._look_up([message.author])
            relays = self._inboxes[message.author] or relays
        accepted = await asyncio.gather(*(self._send(answer, url) for url in dict.fromkeys(filter(None, relays))))
        log.info("direct_message.answered", event_id=message.event.id, accepted=sum(accepted), relays=len(accepted))

    async def _send(self, answer: UnsignedEvent, relay: str) -> bool:
        try:
            async with asyncio.timeout(SEND):
                return (await self._publisher.publish(answer, relay)).accepted
        except TimeoutError:  # away for long
            return False
