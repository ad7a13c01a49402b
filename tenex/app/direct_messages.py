"""Answers direct messages, which nothing here reads: how to write to the project instead (ADR 53).

A message is answered in its own form, so that the answer is as private as the message was and the author's client shows
it. Each author gets one answer a day at most; what was answered is durable before it is sent. Strangers get none.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tenex.core.config import Role
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import PublicKey
from tenex.core.ports import Clock
from tenex.core.totals.costs import DAY
from tenex.log import get_logger
from tenex.nostr.direct import INBOX_RELAYS, DirectMessage, answer_to, inbox_relays, read_direct
from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.store.daemon_journal import DaemonJournal

log = get_logger(__name__)

TEXT: Final = (
    "Direct messages are not read here. Write a public note that mentions nostr:{npub}; the answer is a reply to it. "
    "Everyone on its relays can read both."
)
READ_PER_MINUTE: Final = 300
"""Messages whose author is looked for: a wrap takes half a ms, and anybody may send thousands."""
GUESTS_PER_DAY: Final = 50
"""Guests who get an answer: each is kept, and a stranger can write with any number of keys."""
LOOK_UP: Final = 2.0
"""Seconds for the relays on which an author wants private messages."""
INBOXES: Final = 3
"""Of those relays: as many as NIP-17 recommends."""
SEND: Final = 30.0
"""Seconds for all relays to take the answer; it is not tried again."""


class DirectMessages:
    """Receives direct messages and answers them, one after the other."""

    def __init__(
        self,
        pool: RelayPool,
        keys: Mapping[PublicKey, SecretKey],
        book: DaemonJournal,
        clock: Clock,
        *,
        role: Callable[[PublicKey], Role | None],
        npub: Callable[[], str],
        relays: Sequence[str],
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            keys: ours; may grow.
            book: remembers who was answered.
            clock: for the day.
            role: what someone may do here; None for a stranger.
            npub: the project's key, which public notes mention.
            relays: those of the settings.
        """
        self._pool = pool
        self._keys = keys
        self._book = book
        self._clock = clock
        self._role = role
        self._npub = npub
        self._relays = relays
        self._waiting: deque[tuple[DirectMessage, str]] = deque()
        self._authors: set[PublicKey] = set()
        """Whose message waits for its answer, or is being answered."""
        self._has_some = asyncio.Event()
        self._minute = 0
        self._read = 0

    def on_event(self, event: Event, relay: str) -> None:
        """Take a genuine event of `DIRECT_KINDS`; its answer is sent later."""
        minute = self._clock.now() // 60_000
        self._minute, self._read = minute, self._read + 1 if minute == self._minute else 1
        if self._read > READ_PER_MINUTE:
            return
        message = read_direct(event, self._keys)
        is_due = message is not None and self._is_due(message)
        log.debug("direct_message.received", event_id=event.id, is_answered=is_due)
        if message is not None and is_due:
            self._authors.add(message.author)
            self._waiting.append((message, relay))
            self._has_some.set()

    async def run(self) -> None:
        """Answer what waits, until cancelled."""
        while True:
            await self._has_some.wait()
            message, relay = self._waiting.popleft()
            if not self._waiting:
                self._has_some.clear()
            try:
                await self._answer(message, relay)
            except (AppendFailed, StoreError) as error:  # rather none than one for each message while the disk fails
                log.warning("direct_message.not_answered", event_id=message.event_id, reason=str(error))
            except Exception as error:  # noqa: BLE001 - it may hold what someone wrote, and must end nothing else
                log.error("direct_message.failed", event_id=message.event_id, fault=type(error).__name__)
            finally:
                self._authors.discard(message.author)

    def _is_due(self, message: DirectMessage) -> bool:
        """Whether its author may write here, and has had no answer within a day or since they wrote it."""
        role = None if message.author in self._keys else self._role(message.author)
        if role is None or message.author in self._authors:
            return False
        now = self._clock.now()
        answered = self._book.answered()
        last = answered.get(message.author)
        if last is not None:
            is_old = message.written * 1000 <= last.at or message.event_id == last.event_id
            return not is_old and not 0 <= now - last.at < DAY
        if role is not Role.GUEST:
            return True
        today = {author for author, one in answered.items() if now - one.at < DAY} | self._authors
        return sum(1 for author in today if self._role(author) is Role.GUEST) < GUESTS_PER_DAY

    async def _answer(self, message: DirectMessage, relay: str) -> None:
        await self._book.add_answered(message.author, message.event_id)
        text = TEXT.format(npub=self._npub())
        answer = answer_to(message, text, self._keys[message.to], self._clock.now() // 1000)
        relays = [relay, *self._relays, *(await self._inboxes(message.author) if message.is_wrapped else ())]
        sent = (self._send(answer, url) for url in dict.fromkeys(filter(None, relays)))
        accepted = await asyncio.gather(*sent)
        log.info("direct_message.answered", event_id=message.event_id, accepted=sum(accepted), relays=len(accepted))

    async def _inboxes(self, author: PublicKey) -> list[str]:
        found = await self._pool.fetch([{"kinds": [INBOX_RELAYS], "authors": [author], "limit": 1}], LOOK_UP)
        newest = next((event for event in found if event.kind == INBOX_RELAYS and event.pubkey == author), None)
        return inbox_relays(newest, INBOXES) if newest is not None else []

    async def _send(self, event: Event, relay: str) -> bool:
        try:
            async with asyncio.timeout(SEND):
                return (await self._pool.publish(event, relay)).accepted
        except (TimeoutError, ValueError):  # away for long, or no relay URL
            return False
