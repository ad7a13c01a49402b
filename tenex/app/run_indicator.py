"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Final, ParamSpec, Protocol, TypeVar

import structlog

from tenex.core.ids import PublicKey
from tenex.core.ports import Clock, OnText, UnsignedEvent
from tenex.nostr.ephemeral import EphemeralPublisher, text_event, typing_event
from tenex.nostr.events import Event, sign
from tenex.nostr.keys import SecretKey
from tenex.nostr.urls import is_loopback

log = structlog.get_logger(__name__)

GRACE: Final = 0.1
"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""
LOCAL_INTERVAL: Final = 0.35
"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""
REMOTE_INTERVAL: Final = 1.0
"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""
REFRESH: Final = 20.0
"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""
LEAD: Final = 60
"""Typing indicators of one run: what it does and the text it writes, published a few times a second.

started ──► activity ──► the newest text, throttled ──► stopped: nothing is published after that
"""

P = ParamSpec("P")
T = TypeVar("T")


class EphemeralSink(Protocol):
    """Relays that take an event at once or not at all (`nostr.pool.RelayPool`)."""

    def has_room(self, relay: str) -> bool:
        """Tell whether an event would go out at once."""
        ...

    def offer(self, event: Event, relay: str) -> bool:
        """Send without waiting; False where it was dropped."""
        ...

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109  (part of the port)
        """Return once a relay is there; `RelayUnavailable` after `timeout` seconds."""
        ...


def suppress_errors(function: Callable[P, T]) -> Callable[P, T | None]:
    """Log what the function raises and return None: no work depends on a typing indicator."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as fault:  # the callers are the actor and the model
            log.warning("typing_indicator.failed", fault=type(fault).__name__, where=function.__name__)
            log.debug("typing_indicator.failed", exc_info=fault)
            return None

    return guarded


class StatusChannel:
    """The relays that get a conversation's ephemeral events, and the keys that sign them."""

    def __init__(
        self, sink: EphemeralSink, keys: Mapping[PublicKey, SecretKey], relays: Sequence[str], clock: Clock
    ) -> None:
        self._sink = sink
        self._keys = keys
        self._relays = relays
        self._clock = clock
        self._stamp = 0
        self.interval = LOCAL_INTERVAL if all(map(is_loopback, relays)) else REMOTE_INTERVAL

    @property
    def has_room(self) -> bool:
        """Whether a relay would take an event now."""
        return any(map(self._sink.has_room, self._relays))

    def stamp(self, *, later: bool = False) -> int:
        """The second it is; `later` than all such stamps before, so that clients keep the order."""
        now = self._clock.now() // 1000
        if later:
            self._stamp = min(max(now, self._stamp + 1), now + LEAD)
        return max(now, self._stamp)

    def send(self, event: UnsignedEvent) -> bool:
        """Sign and send; False if no relay took it or the key is no longer configured."""
        key = self._keys.get(event.pubkey)
        if key is None or not self.has_room:
            return False
        signed = sign(event, key)
        taken = [self._sink.offer(signed, relay) for relay in self._relays]  # every relay, not only the first
        return any(taken)


class RunIndicator:
    """Publishes the activity and text of one run."""

    def __init__(self, who: EphemeralPublisher, channel: StatusChannel) -> None:
        self._who = who
        self._channel = channel
        self._activity = self._sent_activity = ""
        """What the run does now, and what was last published of it."""
        self._text = self._sent_text_so_far = ""
        """The text being written, and as much of it as was published."""
        self._number = 0
        self._call: object = None
        """Whose text counts; the call before it may still be ending."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + GRACE

    def set_activity(self, activity: str, *, is_writing: bool) -> None:
        """Set what the run does now; it is published soon."""
        if not is_writing:
            self._call, self._text, self._sent_text_so_far = None, "", ""
        if activity != self._activity:
            self._activity = activity
            self._schedule()

    def open_text(self) -> OnText:
        """Return the callback for a model call that starts; text of earlier calls is ignored from now on."""
        self._call = call = object()
        self._text = self._sent_text_so_far = ""

        @suppress_errors
        def on_text(text: str) -> None:
            if self._call is call and text != self._text:
                self._text = text
                self._schedule()

        return on_text

    def stop(self) -> None:
        """Publish that the run stopped, if anything was published, and nothing after that."""
        self._call = None
        if self._timer is not None:
            self._timer.cancel()
        if self._sent_activity:
            self._channel.send(typing_event(self._who, "", self._channel.stamp(later=True)))
        self._activity = self._sent_activity = ""

    def _schedule(self) -> None:
        when = max(self._next, self._loop.time())
        if self._timer is None or self._timer.when() > when:
            self._schedule_at(when)

    def _schedule_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._publish)

    @suppress_errors
    def _publish(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._next = now + self._channel.interval
        is_dirty = True
        if self._channel.has_room:
            is_new = self._activity != self._sent_activity
            if is_new or not self._has_text:
                self._send_activity()
            if self._has_text:
                self._send_text()
            is_dirty = self._activity != self._sent_activity or self._has_text
        self._schedule_at(self._next if is_dirty else now + REFRESH)

    @property
    def _has_text(self) -> bool:
        return bool(self._text) and self._text != self._sent_text_so_far

    def _send_activity(self) -> None:
        activity = self._activity
        if self._channel.send(typing_event(self._who, activity, self._channel.stamp(later=True))):
            self._sent_activity = activity

    def _send_text(self) -> None:
        text = self._text
        event = text_event(self._who, text, self._sent_text_so_far, self._number + 1, self._channel.stamp())
        if self._channel.send(event):
            self._sent_text_so_far = text
            self._number += 1
