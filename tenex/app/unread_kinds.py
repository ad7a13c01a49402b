"""Answers events of kinds that are not read, such as pictures and voices that mention us: what is understood (ADR 65).

Each author gets one answer a day at most; what was answered is durable before it is sent. Strangers, programs and our
own keys get none.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from tenex.core.config import Role
from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import Clock
from tenex.core.totals.costs import DAY
from tenex.log import get_logger
from tenex.nostr.events import Event, Sign, sign_here
from tenex.nostr.keys import Key
from tenex.nostr.pool import RelayPool
from tenex.nostr.threading.base import expiration_of, group_of
from tenex.nostr.unread_kinds import PUBLIC_MESSAGE, UNREAD_KINDS, UnreadEvent, answer_to, read_unread
from tenex.store.daemon_journal import DaemonJournal

from .direct_messages import take_all

log = get_logger(__name__)

TEXT: Final = "I read text and cannot read {what}. Write what you want as a reply to this."
TEXT_OF_MESSAGE: Final = (
    "I cannot read {what}. Write a public note that mentions nostr:{npub}; the answer is a reply to it."
)
GUESTS_PER_DAY: Final = 50
"""Guests who get an answer: each is kept, and a stranger can write with any number of keys."""
SEND: Final = 30.0
"""Seconds for all relays to take the answer; it is not tried again."""


class UnreadKinds:
    """Receives events of kinds that are not read and answers them, one after the other."""

    def __init__(
        self,
        pool: RelayPool,
        keys: Mapping[PublicKey, Key],
        book: DaemonJournal,
        clock: Clock,
        *,
        role: Callable[[PublicKey], Role | None],
        npub: Callable[[], str],
        relays: Sequence[str],
        take: Callable[[EventId], Awaitable[bool]] = take_all,
        sign: Sign = sign_here,
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
            take: whether no other daemon of the project answers this one.
            sign: signs with our keys.
        """
        self._take = take
        self._sign = sign
        self._pool = pool
        self._keys = keys
        self._book = book
        self._clock = clock
        self._role = role
        self._npub = npub
        self._relays = relays
        self._waiting: deque[tuple[UnreadEvent, str]] = deque()
        self._authors: set[PublicKey] = set()
        """Whose event waits for its answer, or is being answered."""
        self._has_some = asyncio.Event()

    def on_event(self, event: Event, relay: str) -> None:
        """Take a genuine event of `UNREAD_KINDS`; its answer is sent later."""
        unread = read_unread(event, self._keys)
        is_due = unread is not None and self._is_due(unread.event)
        log.debug("unread_kind.received", event_id=event.id, kind=event.kind, is_answered=is_due)
        if unread is not None and is_due:
            self._authors.add(event.pubkey)
            self._waiting.append((unread, relay))
            self._has_some.set()

    async def run(self) -> None:
        """Answer what waits, until cancelled."""
        while True:
            await self._has_some.wait()
            unread, relay = self._waiting.popleft()
            if not self._waiting:
                self._has_some.clear()
            try:
                await self._answer(unread, relay)
            except (AppendFailed, StoreError) as error:  # rather none than one for each event while the disk fails
                log.warning("unread_kind.not_answered", event_id=unread.event.id, reason=str(error))
            except Exception as error:  # noqa: BLE001 - it may hold what someone wrote, and must end nothing else
                log.error("unread_kind.failed", event_id=unread.event.id, fault=type(error).__name__)
            finally:
                self._authors.discard(unread.event.pubkey)

    def _is_due(self, event: Event) -> bool:
        """Whether its author may write here and wrote it within a day, and had no answer within a day or since."""
        role = self._role(event.pubkey)
        if role is None or event.pubkey in self._authors:
            return False
        now = self._clock.now()
        expires_at = expiration_of(event)
        if event.created_at * 1000 < now - DAY or (expires_at is not None and expires_at * 1000 <= now):
            return False
        answered = self._book.unread_answered()
        last = answered.get(event.pubkey)
        if last is not None:
            is_old = event.created_at * 1000 <= last.at or event.id == last.event_id
            return not is_old and not 0 <= now - last.at < DAY
        if role is not Role.GUEST:
            return True
        today = {author for author, one in answered.items() if now - one.at < DAY} | self._authors
        return sum(1 for author in today if self._role(author) is Role.GUEST) < GUESTS_PER_DAY

    async def _answer(self, unread: UnreadEvent, relay: str) -> None:
        event = unread.event
        await self._book.add_unread_answered(event.pubkey, event.id)
        if not await self._take(event.id):
            return
        text = TEXT_OF_MESSAGE if event.kind == PUBLIC_MESSAGE else TEXT
        text = text.format(what=UNREAD_KINDS[event.kind], npub=self._npub())
        unsigned = answer_to(unread, text, relay, self._clock.now() // 1000)
        try:
            async with asyncio.timeout(SEND):
                answer = await self._sign(unsigned, self._keys[unread.to])
        except TimeoutError:
            log.warning("unread_kind.not_answered", event_id=event.id, reason="its key's signer does not answer")
            return
        relays = [relay] if group_of(event) else [relay, *self._relays]
        accepted = await asyncio.gather(*(self._send(answer, url) for url in dict.fromkeys(filter(None, relays))))
        log.info("unread_kind.answered", event_id=event.id, accepted=sum(accepted), relays=len(accepted))

    async def _send(self, event: Event, relay: str) -> bool:
        try:
            async with asyncio.timeout(SEND):
                return (await self._pool.publish(event, relay)).accepted
        except (TimeoutError, ValueError):  # away for long, or no relay URL
            return False
