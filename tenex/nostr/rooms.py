"""The rooms that our keys are members of: groups of a relay (NIP-29), which Buzz calls channels.

A relay of rooms says in its document (NIP-11) that it has them, and with which key it signs what it says of them: 39000
(name and sort of a room), 39001 (who is in charge), 39002 (its members), 44100 and 44101 (a key has joined or left, of
Buzz). Events of these kinds by any other key are ignored, since anybody could make themselves a member.

    look at a relay: 39002 that name our keys ─► 39000 of those rooms ─► a REQ of its own for each room

That is done when a relay is connected, when it says that a key of ours has joined or left, and once a minute, because
not every relay says so. A REQ names one room, because relays such as Buzz's give what is new in a room only to those.

What was written in a room is held until the room is known, and an unknown author is looked for once more among the
members. So a first message never gets an answer in the wrong place.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.core.people.trust import chat_of
from tenex.core.port_values import UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.text.foreign import INVISIBLE
from tenex.core.values import replace
from tenex.log import get_logger

from .deletions import DELETIONS, ROOM_DELETION
from .events import Event
from .filters import Filter, names_a_room
from .interactions import EXTENSION, PRESS, ShownPrompt, shown_prompt
from .pool import RelayPool
from .reactions import REACTION
from .threading import KINDS
from .threading.base import ThreadingScheme, element, first_value, group_of, is_hex64, tags_named
from .threading.chats import CHAT
from .threading.room_threads import READ_IN_ROOMS, ROOM_THREADS, ROOM_TOP
from .threading.split import clean_text

log = get_logger(__name__)

METADATA: Final = 39000
ADMINS: Final = 39001
MEMBERS: Final = 39002
JOINED: Final = 44100
LEFT: Final = 44101
ROOM_KINDS: Final = frozenset({METADATA, ADMINS, MEMBERS, JOINED, LEFT})
"""What a relay says of rooms."""

PATIENCE: Final = 5.0
"""Seconds for what a relay says of a room; a message waits no longer for it."""
LOOKING: Final = 20.0
"""Seconds for the list of our rooms, which nothing waits for: at a start many requests are sent before it."""
SOON: Final = 5.0
"""Seconds after which a relay that has not answered is looked at again."""
AGAIN: Final = 60.0
"""Seconds after which a relay is looked at again."""
MEMBERS_AGAIN: Final = 2.0
"""Seconds after which the members of a room are asked for again for an author who is none of them."""
MOST_HELD: Final = 100
"""Messages that wait for what a relay says of a room; others are then read as outside of rooms."""
MOST_LOOK_UPS: Final = 20
"""Rooms that are looked up at the same time for messages: a stranger can name any number."""
MOST_KNOWN: Final = 2_000
"""Rooms that are remembered; those that a key of ours is in are never forgotten."""
MOST_ROOMS: Final = 400
"""Of one relay: each has a subscription."""
MOST_PROMPTS: Final = 500
"""Messages in which relays show a prompt in words that are remembered, the newest."""
MOST_MEMBERS: Final = 5000
"""Of one room that are kept."""
MOST_FOUND: Final = 1000
"""Rooms of one relay among which one is looked for by its name."""
BEFORE: Final = 60
"""Seconds before joining a room from which it is read: the message that asks us in may be older, and clocks differ."""


class Answers(StrEnum):
    """Where answers go in rooms that have threads."""

    THREAD = "thread"
    """Into the thread below the message."""
    CHANNEL = "channel"
    """To the top of the room, where the message was written there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRules:
    """What the operator has set for rooms."""

    only: frozenset[str] = frozenset()
    """The ids and names of the rooms that are read; empty for all that our keys are in."""
    members_may_write: bool = True
    """Whether members of a room are guests in it."""
    answers: Answers = Answers.THREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room as its relay describes it."""

    relay: str
    id: str
    name: str = ""
    is_private: bool = False
    has_threads: bool = False
    """Whether clients show threads in it: its 39000 names the sort of the room."""
    is_direct: bool = False
    """Whether it is for direct messages: all that people write in it is for our keys there."""
    moderators: frozenset[PublicKey] = frozenset()
    """Who is in charge of it: they add others to a private room, and delete what others wrote."""
    members: Mapping[PublicKey, str] = field(default_factory=dict)
    """Their roles."""
    ours: tuple[PublicKey, ...] = ()
    """Our keys that are members."""
    reader: PublicKey | None = None
    """The key whose connection is shown the room; None for the usual one."""


Place = tuple[str, str]
"""A relay, canonical, and the id of a room."""

LearnNames = Callable[[str, Collection[PublicKey], PublicKey | None], Awaitable[None]]
"""Reads the names of members at a relay, by the connection of a key of ours; None for the usual one."""


async def _no_names(_relay: str, _members: Collection[PublicKey], _reader: PublicKey | None) -> None:
    """Learn none."""


class Rooms:
    """Knows the rooms of all relays, and keeps a subscription for each that a key of ours is in."""

    def __init__(
        self,
        pool: RelayPool,
        own_keys: Callable[[], Collection[PublicKey]],
        rules: Callable[[], RoomRules],
        now: Callable[[], float] = time.time,
        identity: PublicKey | None = None,
        is_named: Callable[[PublicKey], bool] = lambda _: False,
        learn_names: LearnNames = _no_names,
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            own_keys: the keys of the project and its agents.
            rules: what the operator has set.
            now: the wall clock, in seconds.
            identity: the key of the pool's usual connections.
            is_named: whether somebody may write wherever they are.
            learn_names: reads the names of members, before a room is read and a new member's message.
        """
        self._pool = pool
        self._identity = identity
        self._is_named = is_named
        self._learn_names = learn_names
        self._own_keys = own_keys
        self._rules = rules
        self._now = now
        self._rooms: dict[Place, Room] = {}
        """All that were looked up; `ours` names no key where none of ours is a member."""
        self._asked_at: dict[Place, float] = {}
        self._read: dict[Place, PublicKey | None] = {}
        """The rooms with a subscription, and the key whose own connection has it; None for the usual one."""
        self._no_room: dict[Place, str] = {}
        """Why rooms have no subscription."""
        self._prompts: dict[str, ShownPrompt] = {}
        self._prompts_read: set[Place] = set()
        """The rooms of which those that were there before are read."""
        self._held: dict[Place, list[Callable[[], None]]] = {}
        self._due: set[str] = set()
        """The relays that are to be looked at."""
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._since = int(now())
        self._looking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._looked_at: dict[str, float] = {}
        """When the rooms of each relay were last read, all of them."""
        self._pauses: dict[str, float] = {}
        """Seconds until each relay that has left something unanswered since then is looked at again."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reporting: dict[str, tuple[frozenset[PublicKey], bool]] = {}
        """Our keys whose joining and leaving each relay reports, and whether to a connection of each."""

    # ---- what is known ----

    def listed(self) -> list[Room]:
        """The rooms that a key of ours is in, in order of relay and name."""
        mine = (room for room in self._rooms.values() if room.ours)
        return sorted(mine, key=lambda room: (room.relay, room.name.casefold(), room.id))

    def is_read(self, relay: str, room_id: str) -> bool:
        """Whether a room has a subscription."""
        return (relay, room_id) in self._read

    def why_not_read(self, room: Room) -> str:
        """Why a room has no subscription; "" where it has one, or is about to."""
        place = (room.relay, room.id)
        if place in self._read:
            return ""
        return self._no_room.get(place, "") if self._is_chosen(room) else "left out by `rooms.only`"

    def known(self, relay: str, room_id: str) -> Room | None:
        """A room as its relay has described it last, whether or not a key of ours is in it."""
        return self._rooms.get((relay, room_id))

    def may_be_wanted(self, raw: Mapping[str, Any], relay: str) -> bool:
        """Whether a raw event of another key may be for us because of the room it was sent to."""
        if not self._read or raw["kind"] not in _SAID:
            return False
        if raw["pubkey"] == self._pool.rooms_key(relay) and raw["kind"] == CHAT:
            return any(tag[:1] == ["interaction"] for tag in raw["tags"])
        if raw["kind"] == ROOM_DELETION and self._moderates_a_room(raw["pubkey"], relay):
            return True
        if not self._rules().members_may_write:
            return False
        is_of_one_event = raw["kind"] in DELETIONS or (raw["kind"] == REACTION and not names_a_room(raw))
        if is_of_one_event:  # nothing is looked up for a stranger's
            return self.is_member(raw["pubkey"], relay)
        names = (tag[1] for tag in raw["tags"] if len(tag) > 1 and tag[0] == "h")
        return any((relay, name) in self._read for name in names)

    def is_member(self, author: PublicKey, relay: str) -> bool:
        """Whether an author is a member of a room of a relay that is read, and members may write."""
        may_write = self._rules().members_may_write
        return may_write and any(place[0] == relay for place in self._places_of(author))

    def is_guest(self, author: PublicKey, chat: str) -> bool:
        """Whether somebody may write in a chat (`trust.chat_of`) because it is a room that they are a member of."""
        if not chat or not self._rules().members_may_write:
            return False
        return any(chat == chat_of({"group": id_, "relays": (relay,)}) for relay, id_ in self._places_of(author))

    def _places_of(self, member: PublicKey) -> Iterator[Place]:
        """The rooms with a subscription that somebody is a member of."""
        return (place for place in self._read if member in self._rooms[place].members)

    def ours_in(self, relay: str, room_id: str) -> tuple[PublicKey, ...]:
        """Our keys that are members of a room, as its relay says."""
        room = self._rooms.get((relay, room_id))
        return room.ours if room is not None else ()

    def fallback(self, event: UnsignedEvent, relay: str) -> PublicKey | None:
        """Another key of ours that may write in the room of an event that was refused there: the project's first."""
        room_id = next((tag[1] for tag in event.tags if tag[0] == "h" and len(tag) > 1), "")
        ours = sorted(self.ours_in(relay, room_id), key=lambda key: key != self._identity)
        return next((key for key in ours if key != event.pubkey), None)

    def moderates(self, event: Event, relay: str) -> bool:
        """Whether an event in a room is by who may delete what others wrote there: its relay says so."""
        room = self._rooms.get((relay, group_of(event)))
        is_of_relay = event.pubkey == self._pool.rooms_key(relay)
        return room is not None and (is_of_relay or event.pubkey in room.moderators)

    def _moderates_a_room(self, author: PublicKey, relay: str) -> bool:
        """Whether an author moderates a room of a relay that is read."""
        is_of_relay = author == self._pool.rooms_key(relay)
        return is_of_relay or any(author in self._rooms[place].moderators for place in self._read if place[0] == relay)

    def as_addressed(self, message: InboundMessage, event: Event, relay: str) -> InboundMessage:
        """A message as one to our key in the room, where that is for direct messages and a person wrote it.

        With several of our keys there it is for the orchestrator, as where the project's alone is.
        """
        room = self._rooms.get((relay, group_of(event)))
        if room is None or not room.is_direct or not room.ours or message.by_machine or message.edits is not None:
            return message
        is_for_agent = len(room.ours) == 1 and room.ours[0] != self._identity
        mentions = message.mentions or (room.ours if is_for_agent else ())
        return replace(message, starts=True, is_direct=True, mentions=mentions)

    def scheme_of(self, event: Event, relay: str) -> ThreadingScheme | None:
        """How messages of the room of an event are read and answered, if it is one with threads."""
        room = self._rooms.get((relay, group_of(event)))
        if room is None or not room.has_threads:
            return None
        return ROOM_TOP if self._rules().answers is Answers.CHANNEL else ROOM_THREADS

    def is_left_out(self, event: Event, relay: str) -> bool:
        """Whether the operator has left out the room that an event was written in."""
        room = self._rooms.get((relay, group_of(event)))
        return room is not None and bool(room.ours) and not self._is_chosen(room)

    # ---- what comes ----

    def on_relay(self, relay: str) -> None:
        """Look at a relay: its document has been read, or it was seen that it takes one key to a connection."""
        self._due.add(relay)
        self._wake.set()

    def changed(self) -> None:
        """Look at all relays: our keys or the settings may be others."""
        self._reporting.clear()
        self._due.update(url for url in self._pool.urls if self._pool.rooms_key(url))
        self._wake.set()

    def on_event(self, event: Event, relay: str) -> bool:
        """Take what a relay says of rooms, and of prompts in them; whether the event was of that sort."""
        is_by_relay = event.pubkey == self._pool.rooms_key(relay)
        if event.kind in ROOM_KINDS and is_by_relay:
            self.on_relay(relay)
        prompt = shown_prompt(event) if is_by_relay else None
        if prompt is not None:
            self._prompts[event.id] = prompt
            if len(self._prompts) > MOST_PROMPTS:
                del self._prompts[next(iter(self._prompts))]
        is_vote = is_by_relay and event.kind == PRESS  # a reply in words, which is read itself
        return event.kind in ROOM_KINDS or prompt is not None or is_vote

    @property
    def prompts(self) -> Mapping[str, ShownPrompt]:
        """The prompts that relays have shown in words, by the ids of these messages."""
        return self._prompts

    def when_known(self, event: Event, relay: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` once the room of an event is known, and whether its author is a member of it."""
        place = (relay, group_of(event))
        if self._group is None or not place[1] or not self._is_to_ask(place, event.pubkey):
            deliver()
            return
        if place not in self._held and len(self._held) >= MOST_LOOK_UPS:
            deliver()
            return
        waiting = self._held.setdefault(place, [])
        waiting.append(deliver)
        if len(waiting) == 1:
            self._group.create_task(self._look_up(place), name=f"room {place[1][:36]}")
        elif len(waiting) > MOST_HELD:
            self._release(place)

    def _is_to_ask(self, place: Place, author: PublicKey) -> bool:
        """Whether the relay is to be asked before a message of this author in this room is read."""
        if place[0] not in self._pool.urls:
            return False
        if place not in self._asked_at:
            return True
        is_new = place in self._read and author not in self._rooms[place].members
        return is_new and self._rules().members_may_write and not self._is_named(author)

    async def _look_up(self, place: Place) -> None:
        relay, room_id = place
        if place in self._asked_at:
            await asyncio.sleep(max(0.0, self._asked_at[place] + MEMBERS_AGAIN - self._now()))
        try:
            async with asyncio.timeout(PATIENCE):
                await self._pool.informed(relay)
                if self._pool.rooms_key(relay):
                    room = self._rooms.get(place)
                    await self._describe(relay, [room_id], PATIENCE, room.reader if room is not None else None)
        except TimeoutError:
            log.info("room.unknown", relay=relay, room=room_id)
        self._asked_at[place] = self._now()
        self._release(place)
        self._forget()

    def _forget(self) -> None:
        """Forget the room that was asked for first and that no key of ours is in, of too many."""
        if len(self._asked_at) <= MOST_KNOWN:
            return
        ours = {place for place, room in self._rooms.items() if room.ours}
        oldest = next((place for place in self._asked_at if place not in ours), None)
        if oldest is not None:
            del self._asked_at[oldest]
            self._rooms.pop(oldest, None)

    def _release(self, place: Place) -> None:
        for deliver in self._held.pop(place, []):
            deliver()

    # ---- looking at relays ----

    async def run(self) -> None:
        """Keep the rooms of all relays current until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while True:
                    try:
                        async with asyncio.timeout(AGAIN):
                            await self._wake.wait()
                    except TimeoutError:
                        self._due.update(url for url in self._pool.urls if self._pool.rooms_key(url))
                    self._wake.clear()
                    due = self._due
                    self._due = set()
                    await asyncio.gather(*map(self.look_at, due))
        finally:
            self._group = None

    def start(self, since: int) -> None:
        """Read the rooms that a relay is first found to have from this second on."""
        self._since = since

    async def find(self, relay: str, text: str) -> list[Room]:
        """The rooms of a relay with an id or a name, as far as the relay shows them to our keys.

        Raises:
            TimeoutError: the relay did not answer.
        """
        text = " ".join(text.split())
        named = [room for room in self.listed() if room.relay == relay and text in (room.id, room.name)]
        if named:
            return named
        unread: list[str] = []
        wanted: list[Filter] = [{"kinds": [METADATA], "limit": MOST_FOUND}]
        events = await self._pool.fetch(wanted, PATIENCE, unread, only=relay)
        if relay in unread:
            raise TimeoutError
        described = self._newest(events, relay)
        room_ids = [room_id for room_id, event in described.items() if text in (room_id, _name_in(event))]
        await self._describe(relay, room_ids[:MOST_LOOK_UPS], PATIENCE, None)
        rooms = (self._rooms.get((relay, room_id)) for room_id in room_ids)
        return [room for room in rooms if room is not None]

    async def look_at(self, relay: str) -> None:
        """Read again which rooms of a relay our keys are in; then those are read, and no others."""
        async with self._looking[relay]:
            await self._look_at(relay)

    async def _look_at(self, relay: str) -> None:
        if not self._pool.rooms_key(relay):
            return
        looked_at = self._now()
        rooms = await self._joined(relay, None)
        if rooms is None:
            self._look_again(relay)
            return
        self._subscribe_to_membership(relay)  # after the first answer: now it is known whether a connection has one key
        seen_by: dict[str, PublicKey | None] = dict.fromkeys(rooms)
        is_by_key = self._pool.takes_one_key(relay)
        others = [key for key in sorted(self._own_keys()) if key != self._identity] if is_by_key else []
        is_whole = True
        for key, own in zip(others, await asyncio.gather(*(self._joined(relay, key) for key in others)), strict=True):
            is_whole = is_whole and own is not None
            seen_by = {**dict.fromkeys(own or (), key), **seen_by}

        for reader in dict.fromkeys(seen_by.values()):
            room_ids = sorted(room_id for room_id, by in seen_by.items() if by == reader)
            is_whole = await self._describe(relay, room_ids[:MOST_ROOMS], LOOKING, reader) and is_whole
        for place, room in list(self._rooms.items()):
            if place[0] == relay and room.ours and place[1] not in seen_by and is_whole:
                log.info("room.left", relay=relay, room=room.id)
                self._rooms[place] = Room(relay=relay, id=room.id, name=room.name, has_threads=room.has_threads)
        await self._read_prompts(relay)
        self._follow(relay)
        if not is_whole:  # what is read of a room that is found later begins where all were last known
            self._look_again(relay)
            return
        self._looked_at[relay] = looked_at
        self._pauses.pop(relay, None)

    async def _read_prompts(self, relay: str) -> None:
        """Read the words in which a relay has shown prompts, however old: people may answer them at any time."""
        if EXTENSION not in self._pool.limits(relay).extensions:
            return
        signer = self._pool.rooms_key(relay)
        for place, room in list(self._rooms.items()):
            if place[0] != relay or not room.ours or place in self._prompts_read or not self._is_chosen(room):
                continue
            unread: list[str] = []
            wanted: list[Filter] = [{"kinds": [CHAT], "authors": [signer], "#h": [room.id], "limit": MOST_PROMPTS}]
            events = await self._pool.fetch(wanted, PATIENCE, unread, only=relay, key=room.reader)
            if relay not in unread:
                self._prompts_read.add(place)
            for event in reversed(events):
                self.on_event(event, relay)

    def _look_again(self, relay: str) -> None:
        """Look at a relay that has not answered everything soon, and ever later."""
        pause = self._pauses.get(relay, SOON)
        self._pauses[relay] = min(2 * pause, AGAIN)
        if relay in self._timers:
            self._timers[relay].cancel()
        self._timers[relay] = asyncio.get_running_loop().call_later(pause, self.on_relay, relay)

    async def _joined(self, relay: str, key: PublicKey | None) -> list[str] | None:
        """The rooms of a relay that our keys are in; a private one is shown to its members only, so each key asks.

        None where it did not answer.
        """
        members = [key] if key is not None else sorted(self._own_keys())
        wanted = [{"kinds": [MEMBERS], "#p": members}]
        unread: list[str] = []
        events = await self._pool.fetch(wanted, LOOKING, unread, only=relay, key=key)
        return None if unread and relay in unread else list(self._newest(events, relay))

    def _subscribe_to_membership(self, relay: str) -> None:
        """Have a relay report which of our keys join and leave: each to the connection that has the key."""
        keys = frozenset(self._own_keys())
        is_by_key = self._pool.takes_one_key(relay)
        if self._reporting.get(relay) == (keys, is_by_key):
            return
        self._reporting[relay] = (keys, is_by_key)
        kinds = [JOINED, LEFT]
        wanted: list[Filter] = [{"kinds": [*kinds, MEMBERS], "#p": sorted(keys)}]
        try:
            if is_by_key:
                self._pool.unsubscribe_at(relay, _MEMBERSHIP)
                for key in sorted(keys):
                    self._pool.subscribe_at(relay, _MEMBERSHIP, [{"kinds": kinds, "#p": [key]}], None, key)
            else:
                self._pool.subscribe_at(relay, _MEMBERSHIP, wanted, None)
        except ValueError:  # no room: the relay is looked at once a minute all the same
            log.info("rooms.membership_not_reported", relay=relay)

    async def _describe(self, relay: str, room_ids: list[str], patience: float, key: PublicKey | None) -> bool:
        """Ask a relay for the members and the sort of rooms, with the connection of a key; whether it has answered."""
        if not room_ids:
            return True
        filters: list[Filter] = [{"kinds": [METADATA, ADMINS, MEMBERS], "#d": room_ids}]
        unread: list[str] = []
        events = await self._pool.fetch(filters, patience, unread, only=relay, key=key)
        if relay in unread:
            return False
        own_keys = self._own_keys()
        described = self._newest([event for event in events if event.kind == METADATA], relay)
        counted = self._newest([event for event in events if event.kind == MEMBERS], relay)
        admins = self._newest([event for event in events if event.kind == ADMINS], relay)
        for room_id in room_ids:
            self._asked_at[relay, room_id] = self._now()
            metadata = described.get(room_id)
            members = _members_of(counted[room_id]) if room_id in counted else {}
            sort = first_value(metadata, "t") if metadata is not None else ""
            moderators = {member for member, role in members.items() if role in _MODERATING}
            self._rooms[relay, room_id] = Room(
                relay=relay,
                id=room_id,
                name=_name_in(metadata) if metadata is not None else "",
                is_private=metadata is not None and any(tag[:1] == ("private",) for tag in metadata.tags),
                has_threads=bool(sort),
                is_direct=sort == "dm",
                members=members,
                moderators=frozenset(moderators.union(_members_of(admins[room_id]) if room_id in admins else ())),
                ours=tuple(sorted(member for member in members if member in own_keys)),
                reader=key,
            )
        rooms = [self._rooms[relay, room_id] for room_id in room_ids]
        strangers = {member: None for room in rooms if room.ours for member in room.members if member not in own_keys}
        await self._learn_names(relay, strangers.keys(), key)
        return True

    def _newest(self, events: Collection[Event], relay: str) -> dict[str, Event]:
        """The newest event of each room that the relay itself has signed."""
        signer = self._pool.rooms_key(relay)
        newest: dict[str, Event] = {}
        for event in events:
            room_id = first_value(event, "d")
            is_newer = room_id not in newest or event.created_at > newest[room_id].created_at
            if event.pubkey == signer and room_id and is_newer:
                newest[room_id] = event
        return newest

    def _is_chosen(self, room: Room) -> bool:
        only = self._rules().only
        return not only or room.id in only or room.name in only

    def _follow(self, relay: str) -> None:
        """Subscribe to the rooms that our keys are in, and to no others."""
        wanted = {place: room for place, room in self._rooms.items() if place[0] == relay and room.ours}
        wanted = {place: room for place, room in wanted.items() if self._is_chosen(room)}
        for place, reader in list(self._read.items()):
            if place[0] == relay and (place not in wanted or reader != wanted[place].reader):
                self._pool.unsubscribe_at(relay, f"room {place[1]}")
                del self._read[place]
        since = int(self._looked_at[relay]) - BEFORE if relay in self._looked_at else self._since
        for place, room in wanted.items():
            if place in self._read:
                continue
            filters: list[Filter] = [{"kinds": sorted(_SAID), "#h": [room.id]}]
            try:
                self._pool.subscribe_at(relay, f"room {room.id}", filters, since, room.reader)
            except ValueError:
                if place not in self._no_room:
                    log.warning("room.not_read", relay=relay, room=room.id, why=_NO_ROOM)
                self._no_room[place] = _NO_ROOM
                continue
            self._no_room.pop(place, None)
            self._read[place] = room.reader
            log.info("room.read", relay=relay, room=room.id)


_MEMBERSHIP: Final = "rooms"
_NO_ROOM: Final = "the relay takes no more subscriptions"
_MODERATING: Final = frozenset({"owner", "admin"})
"""Roles in the list of members."""
_SAID: Final = frozenset({*KINDS, *READ_IN_ROOMS, REACTION, PRESS, *DELETIONS})
"""The kinds of what people do in rooms."""


def _name_in(metadata: Event) -> str:
    return " ".join(INVISIBLE.sub("", clean_text(first_value(metadata, "name"))).split())[:100]


def _members_of(event: Event) -> dict[PublicKey, str]:
    """The members that a 39002 names, with their roles: the fourth element of a tag, or what NIP-29 has as third."""
    tags = [tag for tag in tags_named(event, "p") if is_hex64(tag[1])][:MOST_MEMBERS]
    return {PublicKey(tag[1]): element(tag, 3) or element(tag, 2) for tag in tags}
