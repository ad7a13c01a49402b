"""Joins and leaves rooms with the project's keys, and adds others to them, by the running daemon's connections.

The relay decides, and what it answers is reported. That it accepts an event does not make a member yet: some relays
have a person decide. So its list of members (39002) is read afterwards.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tenex.core.errors import OperatorError, RelayUnavailable, RemoteError, UsageError
from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome, UnsignedEvent
from tenex.nostr.compose import Publisher
from tenex.nostr.keys import npub, parse_public_key
from tenex.nostr.room_events import BOT, MEMBERSHIP_KINDS, join_request, leave_request, put_user
from tenex.nostr.rooms import Room
from tenex.nostr.urls import normalise_url

if TYPE_CHECKING:
    from tenex.app import Application

PATIENCE: Final = 15.0
"""Seconds for the relay's answer to one event; a connection of the key may have to be made first."""
INFORMED: Final = 5.0
"""Seconds for the document of a relay."""
LISTED_WITHIN: Final = 5.0
"""Seconds in which a relay lists a new member; it may do so after its answer."""
LISTED_AGAIN: Final = 0.5
MOST_TRIES: Final = 5
"""Keys of ours with which the addition of somebody is tried."""
MOST_NAMED: Final = 20
"""Rooms or people that a sentence lists."""


class Refused(RemoteError):
    """The relay has refused."""


class Membership:
    """Answers the requests of `tenex rooms join`, `leave` and `invite`."""

    def __init__(self, app: "Application") -> None:
        self._app = app

    async def join(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Take `agents` (names; all keys of the project if there are none) into `room` at `relay`.

        Returns `room` and `keys`, with the outcome of each: joined, already, asked (a person has to accept) or refused.

        Raises:
            UsageError: no such room, relay or agent.
            RelayUnavailable: the relay does not answer.
        """
        room = await self._room(asked)
        keys = self._keys(asked)
        new = {name: key for name, key in keys.items() if key not in room.members}
        answers = await asyncio.gather(*(self._until_accepted(room, self._ways_in(room, key)) for key in new.values()))
        outcomes = dict(zip(new, answers, strict=True))
        accepted = {keys[name] for name, (outcome, _) in outcomes.items() if outcome.accepted}
        members = await self._members_with(room, accepted)

        def facts(name: str, key: PublicKey) -> dict[str, Any]:
            if name not in outcomes:
                return self._fact(name, key, "already")
            outcome, by = outcomes[name]
            state = "refused" if not outcome.accepted else "joined" if key in members else "asked"
            return self._fact(name, key, state, outcome.detail, by)

        return self._report(room, [facts(name, key) for name, key in keys.items()])

    async def leave(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Have `agents` (names; all keys of the project that are in it if there are none) leave `room` at `relay`.

        Returns `room` and `keys`, with the outcome of each: left, refused, or absent, where it was no member.

        Raises:
            UsageError: no such room, relay or agent.
            RelayUnavailable: the relay does not answer.
        """
        room = await self._room(asked)
        keys = self._keys(asked)
        if not asked.get("agents"):
            keys = {name: key for name, key in keys.items() if key in room.members}
        leaving = {name: key for name, key in keys.items() if key in room.members}
        events = [leave_request(key, room.id, self._now()) for key in leaving.values()]
        answers = await asyncio.gather(*(self._publish(room, event) for event in events))
        outcomes = dict(zip(leaving, answers, strict=True))
        await self._app.rooms.look_at(room.relay)

        def facts(name: str, key: PublicKey) -> dict[str, Any]:
            if name not in outcomes:
                return self._fact(name, key, "absent")
            outcome = outcomes[name]
            return self._fact(name, key, "left" if outcome.accepted else "refused", outcome.detail)

        return self._report(room, [facts(name, key) for name, key in keys.items()])

    async def invite(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Add `who` (a key of anyone, or a name of ours) to `room` at `relay`, with a `role` if one is given.

        Returns `room` and `keys`, with one outcome: joined, already, or asked.

        Raises:
            UsageError: no such room, relay or key.
            RelayUnavailable: the relay does not answer.
            Refused: none of our keys may add anyone; says who may.
        """
        room = await self._room(asked)
        name, key = self._who(str(asked.get("who", "")))
        role = str(asked.get("role") or "") or (BOT if room.has_threads and key in self._app.keys else "")
        if key in room.members and role in ("", room.members[key]):
            return self._report(room, [self._fact(name, key, "already")])
        helpers = self._helpers(room)
        if not helpers:
            raise Refused(f"No key of the project is in {_shown(room)}. {self._who_may(room, key)}")
        now = self._now()
        tries = [put_user(helper, room.id, key, role, now) for helper in helpers]
        outcome, by = await self._until_accepted(room, tries)
        if not outcome.accepted:
            raise Refused(f"{room.relay} refused: {outcome.detail}. {self._who_may(room, key)}")
        members = await self._members_with(room, {key})
        return self._report(room, [self._fact(name, key, "joined" if key in members else "asked", outcome.detail, by)])

    # ---- what is asked for ----

    async def _room(self, asked: Mapping[str, Any]) -> Room:
        text = str(asked.get("room", "")).strip()
        relays = await self._relays(str(asked.get("relay") or ""))
        try:
            rooms = [room for relay in relays for room in await self._app.rooms.find(relay, text)]
        except TimeoutError as error:
            raise RelayUnavailable(f"{', '.join(relays)} did not say which rooms there are. Try again.") from error
        if len(rooms) == 1:
            return rooms[0]
        if rooms:
            listed = ", ".join(f"{room.id} at {room.relay}" for room in rooms[:MOST_NAMED])
            raise UsageError(f"{len(rooms)} rooms have this name: {listed}. Give the id, and --relay.")
        raise UsageError(
            f"{', '.join(relays)} shows no room with the id or name {text[:100]!r}. To a private room somebody in "
            f"charge of it adds the project: {self._app.project.npub}."
        )

    async def _relays(self, wanted: str) -> list[str]:
        pool = self._app.pool
        try:
            async with asyncio.timeout(INFORMED):
                await asyncio.gather(*(pool.informed(relay) for relay in pool.urls))
        except TimeoutError:
            pass  # one that is away has no rooms now
        relays = [relay for relay in pool.urls if pool.rooms_key(relay)]
        if not relays:
            raise UsageError("No relay of the settings has rooms (NIP-29), or it is away. See `tenex status`.")
        if not wanted:
            return relays
        try:
            relay = normalise_url(wanted)
        except ValueError as error:
            raise UsageError(f"--relay: {error}.") from error
        if relay not in relays:
            raise UsageError(f"{relay} is no relay of the settings that has rooms. These are: {', '.join(relays)}.")
        return [relay]

    def _keys(self, asked: Mapping[str, Any]) -> dict[str, PublicKey]:
        """The keys that are asked for, by name; all of the project's if none is."""
        ours = {name: key.public for name, key in self._app.current.now.keys.items()}
        names = list(dict.fromkeys(map(str, asked.get("agents") or ours)))
        unknown = [name for name in names if name not in ours]
        if unknown:
            raise UsageError(f"There is no agent {unknown[0][:100]!r}. There are: {', '.join(sorted(ours))}.")
        return {name: ours[name] for name in names}

    def _who(self, text: str) -> tuple[str, PublicKey]:
        own = self._app.current.now.keys.get(text)
        if own is not None:
            return text, own.public
        try:
            key = parse_public_key(text)
        except (ValueError, OperatorError) as error:
            raise UsageError(f"This is neither a key (npub1…) nor a name of the project's: {error}") from error
        return self._name(key), key

    # ---- what is sent ----

    def _ways_in(self, room: Room, key: PublicKey) -> list[UnsignedEvent]:
        """What brings a key of ours into a room: by itself, else by another of ours that is in charge there."""
        now = self._now()
        role = BOT if room.has_threads else ""
        alone = [join_request(key, room.id, now)]
        if room.has_threads:  # Buzz's: who adds themselves may choose the role
            alone.insert(0, put_user(key, room.id, key, role, now))
        others = [helper for helper in room.ours if helper in room.moderators]
        return alone + [put_user(helper, room.id, key, role, now) for helper in others]

    def _helpers(self, room: Room) -> list[PublicKey]:
        """Our keys that may be allowed to add somebody: those in charge first."""
        helpers = sorted(room.ours, key=lambda key: (key not in room.moderators, key))
        if not room.is_private:
            helpers.append(self._app.project.public)
        return list(dict.fromkeys(helpers))[:MOST_TRIES]

    async def _until_accepted(self, room: Room, tries: Sequence[UnsignedEvent]) -> tuple[PublishOutcome, PublicKey]:
        """Send events one by one until the relay accepts one; else its first answer, which is to the usual way."""
        refusal: tuple[PublishOutcome, PublicKey] | None = None
        for event in tries:
            outcome = await self._publish(room, event)
            if outcome.accepted:
                return outcome, event.pubkey
            refusal = refusal or (outcome, event.pubkey)
        assert refusal is not None
        return refusal

    async def _publish(self, room: Room, event: UnsignedEvent) -> PublishOutcome:
        app = self._app
        try:
            async with asyncio.timeout(PATIENCE):
                return await Publisher(app.pool, app.keys, MEMBERSHIP_KINDS, app.sign).publish(event, room.relay)
        except TimeoutError:
            return PublishOutcome(accepted=False, detail=f"no answer within {PATIENCE:g} s")

    async def _members_with(self, room: Room, keys: set[PublicKey]) -> frozenset[PublicKey]:
        """The members of a room once the relay lists these, which it may do later or never."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LISTED_WITHIN
        while True:
            await self._app.rooms.look_at(room.relay)
            now = self._app.rooms.known(room.relay, room.id) or room
            if keys <= now.members.keys() or loop.time() > until:
                return frozenset(now.members)
            await asyncio.sleep(LISTED_AGAIN)

    def _now(self) -> int:
        return self._app.clock.now() // 1000

    # ---- what is reported ----

    def _name(self, key: PublicKey) -> str:
        if key in self._app.keys:
            return self._app.name_of(key)
        return self._app.names.get(key) or npub(key)

    def _who_may(self, room: Room, key: PublicKey) -> str:
        others = [self._name(each) for each in sorted(room.moderators) if each not in self._app.keys]
        who = ", ".join(others[:MOST_NAMED]) or "The admins of the room"
        return f"{who} can add {npub(key)} in a client of the relay."

    def _fact(
        self, name: str, key: PublicKey, state: str, answer: str = "", by: PublicKey | None = None
    ) -> dict[str, Any]:
        helper = self._app.name_of(by) if by is not None and by != key else ""
        return {"name": name, "key": key, "state": state, "answer": answer, "by": helper}

    def _report(self, room: Room, keys: list[dict[str, Any]]) -> dict[str, Any]:
        rooms = self._app.rooms
        now = rooms.known(room.relay, room.id) or room
        facts = {"id": room.id, "name": now.name or room.name, "relay": room.relay, "members": len(now.members)}
        return {"room": {**facts, "read": rooms.is_read(room.relay, room.id)}, "keys": keys}


def _shown(room: Room) -> str:
    return f"{room.name or room.id} at {room.relay}"
