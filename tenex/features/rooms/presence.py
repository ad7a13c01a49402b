"""Shows the project's keys in rooms with threads: that they are there (20001), and whom they answer where (10100).

    every five seconds: which keys are in which rooms ─► what of it each relay has not been told

A profile (10100) is compared with the one that the relay has before it is signed, so a restart publishes none again.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tenex.core.errors import AppendFailed, StoreError
from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.log import get_logger
from tenex.nostr.compose import Publisher
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.profiles import MAX_NAME_BYTES
from tenex.nostr.room_events import AGENT_PROFILE, PRESENCE, agent_profile, presence
from tenex.nostr.threading.split import clip

if TYPE_CHECKING:
    from tenex.app import Application

log = get_logger(__name__)

LOOK_AGAIN: Final = 5.0
"""Seconds between two looks at who is in which room, which need no relay."""
PULSE: Final = 60.0
"""Seconds after which a key says again that it is there; Buzz's relay keeps it for 180."""
REFUSED_AGAIN: Final = 300.0
"""Seconds after which a profile that a relay has refused is sent again."""
PATIENCE: Final = 10.0
"""Seconds in which a relay sends the profiles that it has."""
FAREWELL: Final = 1.0
"""Seconds that a stop waits for relays to hear that our keys leave."""

_Place = tuple[str, PublicKey]
"""A relay, and a key of ours that is in a room there."""


class RoomPresence:
    """Keeps relays with rooms of threads informed of our keys."""

    def __init__(self, app: "Application") -> None:
        self._app = app
        self._told_at: dict[_Place, float] = {}
        """When each relay was told last that a key is there, on the loop's clock."""
        self._known: dict[str, Mapping[PublicKey, Event]] = {}
        """The profiles that each relay had when it was looked at."""
        self._published: dict[_Place, str] = {}
        """The content of the profile that the relay has."""
        self._refused_at: dict[_Place, float] = {}
        self._is_leaving = False

    async def run(self) -> None:
        """Publish what has changed, and once a minute that our keys are there, until cancelled."""
        while True:
            places = self._places()
            for place in places:
                self._show(place)
            await self._publish_profiles(places)
            await asyncio.sleep(LOOK_AGAIN)

    async def leave(self) -> None:
        """Say that our keys leave, where it was said that they are there."""
        publisher = self._publisher()
        self._is_leaving = True
        now = self._app.clock.now() // 1000
        events = [(presence(key, now, is_there=False), relay) for relay, key in self._told_at]
        self._told_at.clear()
        if not events:
            return
        try:
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*(publisher.publish(event, relay) for event, relay in events))
        except TimeoutError:
            log.info("presence.not_ended", relays=sorted({relay for _, relay in events}))

    def _places(self) -> dict[_Place, list[str]]:
        """The rooms with threads that our keys are in and that are read, by relay and key."""
        rooms = self._app.rooms
        places: dict[_Place, list[str]] = {}
        for room in rooms.listed():
            if room.has_threads and rooms.is_read(room.relay, room.id):
                for key in room.ours:
                    places.setdefault((room.relay, key), []).append(room.id)
        return places

    def _show(self, place: _Place) -> None:
        relay, public = place
        key = self._app.keys.get(public)
        now = asyncio.get_running_loop().time()
        is_due = now >= self._told_at.get(place, -PULSE) + PULSE
        if (
            self._is_leaving or not is_due or not isinstance(key, SecretKey)
        ):  # a remote signer is not asked every minute
            return
        event = sign(presence(public, self._app.clock.now() // 1000, is_there=True), key)
        if self._app.pool.offer_rarely(event, relay):
            self._told_at[place] = now

    async def _publish_profiles(self, places: Mapping[_Place, list[str]]) -> None:
        left = {place: list[str]() for place in self._published if place not in places}
        profiles = {place: self._profile(place, rooms) for place, rooms in {**left, **places}.items()}
        wanted = {place: event for place, event in profiles.items() if event is not None}
        changed = {place: event for place, event in wanted.items() if self._is_due(place, event)}
        for relay in dict.fromkeys(relay for relay, _ in changed):
            if relay not in self._known:
                await self._look_up(relay, [key for at, key in wanted if at == relay])
        due = [(place, event) for place, event in changed.items() if place[0] in self._known]
        await asyncio.gather(*(self._publish(place, event) for place, event in due))

    def _profile(self, place: _Place, rooms: list[str]) -> UnsignedEvent | None:
        configured = self._app.current.now
        identity = next((each for each in configured.identities if each.pubkey == place[1]), None)
        if identity is None:
            return None
        people = configured.people
        everyone = people.is_open or configured.settings.rooms.writers == "members"
        only = None if everyone else people.owners | people.members
        return agent_profile(
            identity.pubkey, clip(identity.name, MAX_NAME_BYTES), only, rooms, self._app.clock.now() // 1000
        )

    def _is_due(self, place: _Place, event: UnsignedEvent) -> bool:
        waits_until = self._refused_at.get(place, -REFUSED_AGAIN) + REFUSED_AGAIN
        return self._published.get(place) != event.content and asyncio.get_running_loop().time() >= waits_until

    async def _look_up(self, relay: str, keys: list[PublicKey]) -> None:
        unread: list[str] = []
        wanted = [{"kinds": [AGENT_PROFILE], "authors": sorted(keys)}]
        events = await self._app.pool.fetch(wanted, PATIENCE, unread, only=relay)
        if relay in unread:
            return  # it is asked again
        known = {event.pubkey: event for event in reversed(events)}
        self._known[relay] = known
        self._published |= {(relay, key): event.content for key, event in known.items()}

    async def _publish(self, place: _Place, event: UnsignedEvent) -> None:
        relay, key = place
        if self._published.get(place) == event.content:  # it was there already
            return
        book = self._app.daemon_journal
        recorded = book.profile(key, AGENT_PROFILE)
        known = self._known[relay].get(key)
        dates = [each.created_at + 1 for each in (recorded, known) if each is not None]
        event = unsigned_event(key, max([event.created_at, *dates]), AGENT_PROFILE, event.tags, event.content)
        outcome = await self._publisher().publish(event, relay)
        if not outcome.accepted:
            log.warning("room_profile.refused", relay=relay, reason=outcome.detail)
            self._refused_at[place] = asyncio.get_running_loop().time()
            return
        self._published[place] = event.content
        digest = hashlib.sha256(event.content.encode()).hexdigest()
        try:
            await book.published(key, AGENT_PROFILE, event.id, digest, event.created_at)
        except (AppendFailed, StoreError) as error:
            log.warning("profile.not_recorded", reason=str(error))

    def _publisher(self) -> Publisher:
        return Publisher(self._app.pool, self._app.keys, (AGENT_PROFILE, PRESENCE), self._app.sign)
