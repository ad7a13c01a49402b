"""Signs what was sealed and brings it to a relay: the port the outbox speaks to."""

from collections.abc import Collection, Mapping

from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome, UnsignedEvent

from .events import sign
from .keys import SecretKey
from .pool import RelayPool


class Publisher:
    """Our keys before a pool of relays."""

    def __init__(self, pool: RelayPool, keys: Mapping[PublicKey, SecretKey], kinds: Collection[int]) -> None:
        """Sign events of these kinds only: a journal may come from elsewhere and hold others."""
        self._pool = pool
        self._keys = keys
        self._kinds = kinds

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Send until the relay has answered for good: the same bytes each time, also after a restart."""
        if event.kind not in self._kinds:
            return PublishOutcome(
                accepted=False, detail=f"no message of ours is of kind {event.kind}: it is not signed"
            )
        key = self._keys.get(event.pubkey)
        if key is None:
            return PublishOutcome(accepted=False, detail=f"we do not hold the key {event.pubkey[:8]} any more")
        try:
            return await self._pool.publish(sign(event, key), relay)
        except ValueError as fault:  # an address that is no relay's, or an event no relay can take
            return PublishOutcome(accepted=False, detail=str(fault))
