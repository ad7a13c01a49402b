"""Brings sealed events to relays, those of one conversation in order on each relay.

A relay that is down holds up only its own row of a conversation. What is not delivered is still pending on disk, so
nothing is kept here that a restart would lose.

This is one of the places with a broad `except`: a fault of ours on the way to a relay is no answer of that relay, so
the event is tried again. Meanwhile it lets the others pass, for one that always fails must not hold up all that
follow; clients order by date.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from tenex.core.ids import ConversationId
from tenex.core.ports import Publisher, PublishOutcome, UnsignedEvent

log = structlog.get_logger(__name__)

AGAIN = (1.0, 300.0)
"""Seconds after a fault of ours until the next try: the first, and at most; each wait is twice the one before."""


@dataclass(slots=True)
class _Lane:
    """The queue of one conversation at one relay."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Outbox:
    """Order in front of a publisher."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lanes: dict[tuple[ConversationId, str], _Lane] = {}

    async def publish(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Wait for those before it at this relay, then send until the relay has answered for good. Never raises."""
        wait, most = AGAIN
        while True:
            try:
                return await self._send(conversation, event, relay)
            except Exception:
                log.exception("publish.failed", event_id=event.id, relay=relay, again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, most)

    async def _send(self, conversation: ConversationId, event: UnsignedEvent, relay: str) -> PublishOutcome:
        lane = self._lanes.setdefault((conversation, relay), _Lane())
        lane.users += 1
        try:
            async with lane.lock:  # first come, first served: asyncio's lock is fair
                return await self._publisher.publish(event, relay)
        finally:
            lane.users -= 1
            if not lane.users:
                self._lanes.pop((conversation, relay), None)
