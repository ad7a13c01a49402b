"""The names of members of rooms whom the settings do not name: from their profiles (kind 0), as their relay has them.

Members are strangers, who may take any name. To one that an agent or another person has, the beginning of the key is
added, so that no one is read as another.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.ports import Clock
from tenex.core.text.names import plain, short_key
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, name_in

PATIENCE: Final = 2.0
"""Seconds for a relay to send profiles: a message may wait for its author's name."""
MOST_AT_ONCE: Final = 200
"""Members of a room whose profiles are asked for, the first that have no name."""
MOST_NAMES: Final = 2_000
"""Names that are kept; the oldest are forgotten."""
AGAIN: Final = 3_600_000
"""ms after which a profile is asked for again: its author may have another name."""


class MemberNames:
    """Adds names of members to those of users, and keeps few of them."""

    def __init__(
        self,
        pool: RelayPool,
        names: dict[PublicKey, str],
        clock: Clock,
        *,
        is_named: Callable[[PublicKey], bool],
        taken: Callable[[], Iterable[str]],
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            names: of users, by key; members are added.
            clock: for the time after which a profile is read again.
            is_named: whether the settings name somebody, whose profile is subscribed to, or it is a key of ours.
            taken: the names of those and of agents.
        """
        self._pool = pool
        self._names = names
        self._clock = clock
        self._is_named = is_named
        self._taken = taken
        self._asked_at: dict[PublicKey, int] = {}

    async def learn(self, relay: str, members: Collection[PublicKey], reader: PublicKey | None) -> None:
        """Read the names of members that are not known, by the connection of a key of ours."""
        now = self._clock.now()
        due = [key for key in members if not self._is_named(key) and self._asked_at.get(key, -AGAIN) + AGAIN <= now]
        due = due[:MOST_AT_ONCE]
        if not due:
            return
        unread: list[str] = []
        wanted = [{"kinds": [METADATA], "authors": sorted(due)}]
        events = await self._pool.fetch(wanted, PATIENCE, unread, only=relay, key=reader)
        if relay not in unread:  # else they are asked for with the next look at the room
            self._asked_at |= dict.fromkeys(due, now)
        holders: dict[str, PublicKey | None] = {_form(name): key for key, name in self._names.items()}
        holders |= {_form(name): None for name in self._taken()}
        newest = {event.pubkey: event for event in reversed(events) if event.pubkey in due}
        for key, event in newest.items():
            name = name_in(event)
            if not name:
                self._names.pop(key, None)
                continue
            is_free = holders.setdefault(_form(name), key) == key
            self._names[key] = name if is_free else f"{name} ({short_key(key)})"
        self._forget()

    def _forget(self) -> None:
        while len(self._asked_at) > MOST_NAMES:
            oldest = next(iter(self._asked_at))
            del self._asked_at[oldest]
            if not self._is_named(oldest):
                self._names.pop(oldest, None)


def _form(name: str) -> str:
    """The form in which names are compared."""
    return plain(name).casefold()
