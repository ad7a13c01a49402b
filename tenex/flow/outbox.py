"""Brings sealed events to relays, those of one conversation in order on each relay.

A relay that is down holds up only its own row of a conversation. What is not delivered is still pending on disk, so
nothing is kept here that a restart would lose.

Never: change an event; its id was fixed before it was journaled.
"""

import asyncio
from dataclasses import dataclass, field

from tenex.core.ids import ConversationId
from tenex.core.ports import Publisher, PublishOutcome, UnsignedEvent


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
        """Wait for those before it at this relay, then send until the relay has answered for good."""
        lane = self._lanes.setdefault((conversation, relay), _Lane())
        lane.users += 1
        try:
            async with lane.lock:  # first come, first served: asyncio's lock is fair
                return await self._publisher.publish(event, relay)
        finally:
            lane.users -= 1
            if not lane.users:
                self._lanes.pop((conversation, relay), None)
