"""Shows in rooms with threads who works on an answer: kind 20002, which clients such as Buzz's show for eight seconds.

    state after an append ──► which keys work on which thread ──► one event of each key every three seconds

A key that works on several threads shows itself in them by turns, so that it never sends more. No event ends it: the
last is sent before the answer, which removes it in clients.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.ports import Clock, OutgoingMessage
from tenex.core.projection import router_of, run_state
from tenex.core.records import Record
from tenex.nostr.events import sign
from tenex.nostr.keys import Key, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.room_events import typing_in_room
from tenex.nostr.threading.base import Tag
from tenex.nostr.threading.room_threads import ROOM_THREADS, ROOM_TOP

from .typing_indicators import GRACE, IDLE, suppress_errors

INTERVAL: Final = 3.0
"""Seconds between two events of a key, as Buzz's clients send them."""

_SCHEMES: Final = {scheme.name: scheme for scheme in (ROOM_THREADS, ROOM_TOP)}

Place = tuple[Tag, ...]
"""The tags of an event that shows a key at work: the room, and the thread."""


class RoomTyping:
    """Publishes who works in threads of rooms. An `Observer`."""

    def __init__(
        self,
        pool: RelayPool,
        keys: Mapping[PublicKey, Key],
        clock: Clock,
        speaker: PublicKey,
        *,
        is_on: bool = True,
    ) -> None:
        """Prepare.

        Args:
            pool: the relays.
            keys: ours by public key; may change later. Of one that a remote signer holds nothing is sent.
            clock: for dates.
            speaker: the project's key, which works while the orchestrator reads a user's message.
            is_on: whether anything is sent.
        """
        self._pool = pool
        self._keys = keys
        self._clock = clock
        self._speaker = speaker
        self._is_on = is_on
        self._typists: dict[tuple[str, PublicKey], _Typist] = {}

    @suppress_errors
    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:  # noqa: ARG002
        """Begin and end what the state after this append shows."""
        scheme = _SCHEMES.get(str(conversation.identity.address.get("form")))
        if scheme is None or not self._is_on:
            return
        id_ = conversation.id
        address = conversation.identity.address
        draft = OutgoingMessage(
            speaker=self._speaker,
            text="",
            created_at=0,
            address=address,
            reply_to=conversation.delivery.origin,
        )
        place = scheme.place_of(draft)
        working = _working(conversation, self._speaker)
        for (relay, key), typist in list(self._typists.items()):
            if key not in working or relay not in address.get("relays", ()):
                self._end(id_, relay, key, typist)
        for relay in address.get("relays", ()):
            for key in working:
                typist = self._typists.setdefault((relay, key), _Typist(self._sender(relay, key)))
                typist.begin(id_, place)

    @suppress_errors
    def forget(self, conversation: ConversationId) -> None:
        """End what is shown of a conversation with which another worker goes on."""
        for (relay, key), typist in list(self._typists.items()):
            self._end(conversation, relay, key, typist)

    async def run(self) -> None:
        """Show nothing more once this is cancelled."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for typist in self._typists.values():
                typist.close()
            self._typists.clear()

    def _end(self, conversation: ConversationId, relay: str, key: PublicKey, typist: "_Typist") -> None:
        if typist.end(conversation):
            del self._typists[relay, key]

    def _sender(self, relay: str, public: PublicKey) -> Callable[[Place], None]:
        @suppress_errors
        def send(place: Place) -> None:
            key = self._keys.get(public)
            if isinstance(key, SecretKey):
                self._pool.offer_rarely(sign(typing_in_room(public, place, self._clock.now() // 1000), key), relay)

        return send


class _Typist:
    """One key at one relay: shows itself in its places by turns."""

    def __init__(self, send: Callable[[Place], object]) -> None:
        self._send = send
        self._places: dict[ConversationId, Place] = {}
        """The next one first."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, conversation: ConversationId, place: Place) -> None:
        """Show it at a place, soon and from now on; a conversation that is shown keeps its turn."""
        self._places[conversation] = place
        if self._timer is None:
            self._timer = self._loop.call_later(GRACE, self._show)

    def end(self, conversation: ConversationId) -> bool:
        """Show it no more there; whether it is shown nowhere now."""
        self._places.pop(conversation, None)
        if not self._places:
            self.close()
        return not self._places

    def close(self) -> None:
        """Show nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _show(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._show)
        conversation = next(iter(self._places))
        place = self._places.pop(conversation)
        self._places[conversation] = place
        self._send(place)


def _working(conversation: Conversation, project: PublicKey) -> set[PublicKey]:
    """The keys that work on what a user waits for."""
    router = router_of(conversation)
    working = {run.pubkey for run in conversation.work.runs.values() if run_state(run) not in IDLE}
    if router is not None and router.state not in IDLE and not conversation.cycle.turns_since_user:
        working.add(project)
    return working
