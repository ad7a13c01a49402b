"""One run's whispers: what it does and what it writes, a few times a second, to whoever is there to hear.

begins ──► says what it does ──► the newest text, now and then ──► stops, and is silent from then on
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Final, ParamSpec, Protocol, TypeVar

import structlog

from tenex.core.ids import PublicKey
from tenex.core.ports import Clock, EphemeralStatus, UnsignedEvent
from tenex.nostr.ephemeral import EphemeralPublisher, text_event, typing_event
from tenex.nostr.events import Event, sign
from tenex.nostr.keys import SecretKey
from tenex.nostr.urls import is_loopback

log = structlog.get_logger(__name__)

GRACE: Final = 0.1
"""Seconds before anything is said of new work: what is over by then was over before anybody could have seen it."""
NEAR: Final = 0.35
"""Seconds between two whispers of a run to relays on this machine: about as fast as one reads along."""
FAR: Final = 1.0
"""The same where a relay is elsewhere: some allow sixty ephemeral events a minute."""
REFRESH: Final = 20.0
"""Seconds after which what an agent does is said again, for whoever has come since; clients forget after a minute."""
LEAD: Final = 60
"""Seconds a whisper may be dated ahead, so that two of the same second stay two, in order."""

P = ParamSpec("P")
T = TypeVar("T")


class EphemeralSink(Protocol):
    """Relays that hear now or never (`nostr.pool.RelayPool`)."""

    def has_room(self, relay: str) -> bool:
        """Tell whether an event would go out at once."""
        ...

    def offer(self, event: Event, relay: str) -> bool:
        """Send without waiting; False where it was dropped."""
        ...

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109  (part of the port)
        """Return once a relay is there; `RelayUnavailable` after `timeout` seconds."""
        ...


def harmless(function: Callable[P, T]) -> Callable[P, T | None]:
    """Let no fault of a whisper reach the work it tells of: it gives None instead."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as fault:  # nothing depends on a whisper, and those who call are the actor and the model
            log.warning("whisper.failed", fault=type(fault).__name__, where=function.__name__)
            log.debug("whisper.failed", exc_info=fault)
            return None

    return guarded


class StatusChannel:
    """The relays a conversation is whispered to, and the keys it is signed with."""

    def __init__(
        self, ears: EphemeralSink, voices: Mapping[PublicKey, SecretKey], relays: Sequence[str], clock: Clock
    ) -> None:
        self._ears = ears
        self._voices = voices
        self._relays = relays
        self._clock = clock
        self._stamp = 0
        self.interval = NEAR if all(map(is_loopback, relays)) else FAR

    @property
    def has_room(self) -> bool:
        """Whether somebody would hear."""
        return any(map(self._ears.has_room, self._relays))

    def stamp(self, *, later: bool = False) -> int:
        """The second it is; `later` than all such stamps before, so that clients keep the order."""
        now = self._clock.now() // 1000
        if later:
            self._stamp = min(max(now, self._stamp + 1), now + LEAD)
        return max(now, self._stamp)

    def tell(self, event: UnsignedEvent) -> bool:
        """Sign and send; False where nobody heard, or the key is not ours any more."""
        key = self._voices.get(event.pubkey)
        if key is None or not self.has_room:
            return False
        signed = sign(event, key)
        heard = [self._ears.offer(signed, relay) for relay in self._relays]  # all of them, not only the first to hear
        return any(heard)


class RunIndicator:
    """The whispers of one run."""

    def __init__(self, who: EphemeralPublisher, channel: StatusChannel) -> None:
        self._who = who
        self._channel = channel
        self._doing = self._said = ""
        """What the run does, and what was last said of that."""
        self._text = self._told = ""
        """The text being written, and as much of it as was told."""
        self._number = 0
        self._call: object = None
        """Whose text counts; the call before it may still be ending."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + GRACE

    def does(self, doing: str, *, is_writing: bool) -> None:
        """Take note of what the run does now."""
        if not is_writing:
            self._call, self._text, self._told = None, "", ""
        if doing != self._doing:
            self._doing = doing
            self._soon()

    def writes(self) -> EphemeralStatus:
        """Hear a model call that begins; what earlier ones still say is ignored."""
        self._call = call = object()
        self._text = self._told = ""

        @harmless
        def whisper(text: str) -> None:
            if self._call is call and text != self._text:
                self._text = text
                self._soon()

        return whisper

    def stop(self) -> None:
        """Be silent from now on, and say so at once where something was said."""
        self._call = None
        if self._timer is not None:
            self._timer.cancel()
        if self._said:
            self._channel.tell(typing_event(self._who, "", self._channel.stamp(later=True)))
        self._doing = self._said = ""

    def _soon(self) -> None:
        when = max(self._next, self._loop.time())
        if self._timer is None or self._timer.when() > when:
            self._wake_at(when)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._speak)

    @harmless
    def _speak(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._next = now + self._channel.interval
        is_dirty = True
        if self._channel.has_room:
            is_new = self._doing != self._said
            if is_new or not self._has_text:
                self._say()
            if self._has_text:
                self._tell()
            is_dirty = self._doing != self._said or self._has_text
        self._wake_at(self._next if is_dirty else now + REFRESH)

    @property
    def _has_text(self) -> bool:
        return bool(self._text) and self._text != self._told

    def _say(self) -> None:
        doing = self._doing
        if self._channel.tell(typing_event(self._who, doing, self._channel.stamp(later=True))):
            self._said = doing

    def _tell(self) -> None:
        text = self._text
        event = text_event(self._who, text, self._told, self._number + 1, self._channel.stamp())
        if self._channel.tell(event):
            self._told = text
            self._number += 1
