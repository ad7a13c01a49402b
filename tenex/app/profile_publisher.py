"""Publishes the profiles of our keys, and reads those of users: kinds 0, 10002, 10044 and 10050 out, kind 0 in."""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence

from tenex.core.errors import AppendFailed, RelayUnavailable, StoreError
from tenex.core.ids import PublicKey
from tenex.core.ports import Clock, UnsignedEvent
from tenex.log import get_logger
from tenex.nostr.compose import Publisher
from tenex.nostr.events import Event
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, PROFILE_KINDS, Identity, name_in, profile_events
from tenex.store.daemon_journal import DaemonJournal

log = get_logger(__name__)

PATIENCE = 5.0
"""Seconds relays have to send the profiles they have of us; a missing one is published again, dated later."""


class ProfileAnnouncer:
    """Keeps relays informed of our profiles, and knows the names of users."""

    def __init__(
        self,
        pool: RelayPool,
        publisher: Publisher,
        book: DaemonJournal,
        clock: Clock,
        relays: Sequence[str],
        identities: Sequence[Identity],
        people: Collection[PublicKey],
    ) -> None:
        self._pool = pool
        self._publisher = publisher
        self._book = book
        self._clock = clock
        self._relays = relays
        self._identities = identities
        self._people = people
        self.names: dict[PublicKey, str] = {}
        """The names of users, as far as relays know them."""
        self._named_at: dict[PublicKey, int] = {}
        self._changed = asyncio.Event()
        self._dated = 0
        """The latest date of a profile made by this process, in seconds."""

    def start(self) -> None:
        """Subscribe to the profiles of users."""
        if self._people:
            self._pool.subscribe("people", [{"kinds": [METADATA], "authors": sorted(self._people)}], 0)

    def change(self, identities: Sequence[Identity], people: Collection[PublicKey]) -> None:
        """Replace the profiles and users: `run` publishes what differs; the names of new users are requested."""
        are_new = frozenset(people) != frozenset(self._people)
        self._identities = identities
        self._people = people
        if are_new:
            self.start()
        self._changed.set()

    def on_event(self, event: Event) -> bool:
        """Handle an event if it is a user's profile; returns whether it was."""
        if event.kind != METADATA or event.pubkey not in self._people:
            return False
        if event.created_at >= self._named_at.get(event.pubkey, 0):
            self._named_at[event.pubkey] = event.created_at
            name = name_in(event)
            if name:
                self.names[event.pubkey] = name
            else:  # it was removed
                self.names.pop(event.pubkey, None)
        return True

    async def run(self) -> None:
        """Publish changed profiles once a relay is connected, and after each change.

        What an unreachable relay has not received stays pending for it, and delays no later change for the others.
        """
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._pool.connected(60.0)
                except RelayUnavailable:
                    continue
                self._changed.clear()
                group.create_task(self._publish_all(), name="publish profiles")
                await self._changed.wait()

    async def _publish_all(self) -> None:
        ours = [identity.pubkey for identity in self._identities]
        known = await self._pool.fetch([{"kinds": list(PROFILE_KINDS), "authors": ours}], PATIENCE)
        await self._publish({(e.pubkey, e.kind): e for e in reversed(known)})

    async def _publish(self, known: Mapping[tuple[PublicKey, int], Event]) -> None:
        ours = [self._book.profile(one.pubkey, kind) for one in self._identities for kind in PROFILE_KINDS]
        last = max((profile.created_at for profile in ours if profile is not None), default=0)
        # also where no relay has, or has yet, what we published
        now = max(self._clock.now() // 1000, last + 1, self._dated + 1)
        events = profile_events(self._identities, self._relays, now, known)
        self._dated = max((event.created_at for event in events), default=self._dated)
        await asyncio.gather(*map(self._publish_event, events))  # each may wait for a signer of its own

    async def _publish_event(self, event: UnsignedEvent) -> None:
        accepted = await asyncio.gather(*(self._publish_to(event, relay) for relay in self._relays))
        if not any(accepted):  # what no relay takes is not published
            return
        recorded = self._book.profile(event.pubkey, event.kind)
        if recorded is not None and recorded.created_at > event.created_at:
            return  # this one waited for a relay that was away, and there is a newer
        digest = hashlib.sha256(event.content.encode()).hexdigest()
        try:
            await self._book.published(event.pubkey, event.kind, event.id, digest, event.created_at)
        except (AppendFailed, StoreError) as error:
            log.warning("profile.not_recorded", reason=str(error))

    async def _publish_to(self, event: UnsignedEvent, relay: str) -> bool:
        outcome = await self._publisher.publish(event, relay)
        if not outcome.accepted:
            log.warning("profile.refused", relay=relay, kind=event.kind, reason=outcome.detail)
        return outcome.accepted
