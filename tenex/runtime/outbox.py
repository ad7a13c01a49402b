"""Publishes sealed events, those of one conversation in order on each relay.

A relay that is down delays only its own lane; so does a remote signer, whose key has lanes of its own. Undelivered
events stay pending on disk, so nothing here needs to survive a restart.

Broad `except` on purpose: an internal error is not the relay's answer, so the event is retried. Later events pass it
meanwhile, because clients order by date.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tenex.core.backoff import Backoff
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.ports import Publisher, PublishOutcome, UnsignedEvent
from tenex.log import get_logger

log = get_logger(__name__)

AGAIN = (1.0, 300.0)
"""Seconds from an internal error to the next try: first, and at most; each wait doubles."""


@dataclass(slots=True)
class _Lane:
    """The lane of one conversation at one relay; that of one key where its signatures may take long."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Outbox:
    """Keeps the order of each lane in front of a publisher."""

    def __init__(self, publisher: Publisher, signs_slowly: Callable[[PublicKey], bool] = lambda _: False) -> None:
        self._publisher = publisher
        self._signs_slowly = signs_slowly
        self._lanes: dict[tuple[ConversationId, str, PublicKey | None], _Lane] = {}

    async def publish(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Wait for earlier events of the lane, then send until the relay has accepted or refused. Never raises."""
        backoff = Backoff(*AGAIN)
        while True:
            try:
                return await self._send(conversation, event, relay)
            except Exception:
                pause = backoff.next()
                log.exception("publish.failed", event_id=event.id, relay=relay, again_in=pause)
            await asyncio.sleep(pause)

    async def _send(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> PublishOutcome:
        name = (conversation, relay, event.pubkey if self._signs_slowly(event.pubkey) else None)
        lane = self._lanes.setdefault(name, _Lane())
        lane.users += 1
        try:
            async with lane.lock:  # first come, first served: asyncio's lock is fair
                return await self._publisher.publish(event, relay)
        finally:
            lane.users -= 1
            if not lane.users:
                self._lanes.pop(name, None)
