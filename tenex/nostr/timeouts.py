"""The client's timeouts, and its pure calculations of time: pauses between connections, token bucket, clock skew."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tenex.core.backoff import Backoff

REFUSED_AHEAD: Final = 900.0
"""Seconds: relays commonly reject events dated more than a quarter of an hour ahead (NIP-11)."""

ONE_RELAY: Final = 3600.0
"""Seconds by which the local clock must differ from a single relay's before that relay is believed."""


def clock_ahead(readings: Sequence[float]) -> float | None:
    """Seconds by which the local clock is ahead (negative: behind), from its difference to each relay's clock.

    None unless it is known to be wrong: not if any relay agrees with it, or if relays contradict each other.
    """
    closest = min(readings, key=abs, default=0.0)
    is_agreed = all((reading > 0) == (closest > 0) for reading in readings)
    is_wrong = abs(closest) > (ONE_RELAY if len(readings) < 2 else REFUSED_AHEAD)
    return closest if is_wrong and is_agreed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTimeouts:
    """Every duration of the client, in seconds; tests shorten them."""

    retry_first: float = 0.25
    """Ceiling of the first pause before reconnecting: well under the second a user notices."""
    retry_most: float = 60.0
    retry_soon: float = 4.0
    """Ceiling of the pause while a relay has been away for less than eight times this, then an eighth of that time."""
    stable_after: float = 10.0
    """A relay that has served for this long, in one connection or several, is reconnected to without a long pause."""
    open_timeout: float = 10.0
    close_timeout: float = 2.0
    """A dead connection must not delay shutdown."""
    ping_interval: float = 20.0
    ping_timeout: float = 20.0
    """Together: a dead connection is noticed within 40 s."""
    ok_timeout: float = 10.0
    """No OK by then: the same bytes are sent again."""
    eose_timeout: float = 15.0
    """No EOSE by then: the relay does not serve stored events now."""
    auth_timeout: float = 10.0
    redo_first: float = 1.0
    """Ceiling of the first pause before a temporarily refused REQ or EVENT is sent again."""
    refused_first: float = 5.0
    """Ceiling of the first pause before a finally refused REQ is sent again: the relay's policy may change."""
    refused_most: float = 300.0
    rate_limited: float = 5.0
    """The same for `rate-limited`: at 12 events a minute one is allowed every 5 s."""
    redo_most: float = 60.0
    probe_after: float = 180.0
    """A subscription silent for this long is probed with a new REQ."""
    probe_timeout: float = 15.0
    """A REQ without an answer for this long is sent again, and then on a new connection."""
    idle_after: float = 300.0
    """A relay used only for publishing is disconnected after this long without work."""
    overlap: float = 2 * 86_400 + 3_600
    """Gift wraps are dated up to two days back (NIP-59), and clocks differ by up to an hour."""
    frames_per_second: float = 90.0
    """One embedded relay resets a connection at its 6,001st frame of a minute."""
    one_key_frames: int = 20
    """REQs and EVENTs that may follow at once where a connection has one key: Buzz takes 50 of a key in 5 s. With
    those of `one_key_frames_per_second` they are at most 40 in 5 s."""
    one_key_frames_per_second: float = 4.0
    past_first: float = 3.0
    """Stored events are read before anything is sent to a relay, for at most this long."""
    limits_timeout: float = 5.0
    """For the relay's NIP-11 document, which is optional."""


class Reconnecting:
    """Pauses between connections: longer with each loss, reset once the relay has served for long enough."""

    __slots__ = ("_backoff", "_good_until", "_served", "_timeouts")

    def __init__(self, timeouts: RelayTimeouts, rng: Random, now: float) -> None:
        self._timeouts = timeouts
        self._backoff = Backoff(timeouts.retry_first, timeouts.retry_most, rng.uniform)
        self._good_until = now
        self._served = 0.0

    @property
    def tries(self) -> int:
        """Losses since it last served for long enough."""
        return self._backoff.tries

    def lost(self, now: float, served: float) -> float:
        """Note the end of a connection that served for so many seconds; returns the pause before the next."""
        self._served += served
        if self._served >= self._timeouts.stable_after:
            self._backoff.reset()
            self._served = 0.0
            self._good_until = now
        return min(self._backoff.next(), max(self._timeouts.retry_soon, (now - self._good_until) / 8))


class TokenBucket:
    """A token bucket: holds up to `capacity` frames, refilled at `rate` a second."""

    __slots__ = ("_at", "_left", "_rate", "capacity")

    def __init__(self, rate: float, now: float, capacity: float | None = None) -> None:
        """Begin with a full bucket; its capacity is the frames of a second unless given."""
        self.capacity = rate if capacity is None else capacity
        self._rate = rate
        self._left = self.capacity
        self._at = now

    def take(self, now: float) -> float:
        """Reserve one frame; returns the seconds until it may be sent. Reservations are in order."""
        self._left = min(self.capacity, self._left + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._left / self._rate)

    def left(self, now: float) -> float:
        """How many frames could be sent now, without a reservation."""
        return min(self.capacity, self._left + (now - self._at) * self._rate)

    def hold(self, now: float, seconds: float) -> None:
        """Let no frame go for so many seconds."""
        self._left = min(self.left(now), -seconds * self._rate)
        self._at = now
