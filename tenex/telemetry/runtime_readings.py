"""How things stand now, as the other parts can tell: what `gauges` and `health` read.

Protocols, so that the relay's and the actor's own values fit without being translated.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tenex.core.conversation import Conversation
from tenex.core.messages import NO_USAGE, Usage


class RelayReading(Protocol):
    """How things stand with a relay; `nostr.relay.RelayStatus` is one."""

    @property
    def url(self) -> str:
        """ws:// or wss://, normalised."""
        ...

    @property
    def connected(self) -> bool:
        """Whether a socket is open."""
        ...

    @property
    def serves(self) -> bool:
        """Whether it is connected and serves every subscription."""
        ...

    @property
    def unresponsive_since(self) -> float | None:
        """Wall clock, seconds, since when it does not serve; None while it does."""
        ...

    @property
    def refused(self) -> tuple[str, ...]:
        """Each subscription it will not serve, with its reason."""
        ...

    @property
    def fault(self) -> str:
        """Why the last connection ended or could not be made."""
        ...

    @property
    def counters(self) -> Mapping[str, int]:
        """What came from it, by kind."""
        ...


class ActorReading(Protocol):
    """A conversation in memory; `flow.actor.ConversationActor` is one."""

    @property
    def conversation(self) -> Conversation | None:
        """Its state; None before it has been read, and while frozen."""
        ...

    @property
    def is_suspended(self) -> bool:
        """Whether its journal has to be read again first."""
        ...


def _none() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What is read when the numbers are asked for; called on the event loop, and must not block."""

    relays: Callable[[], Iterable[RelayReading]] = _none
    actors: Callable[[], Iterable[ActorReading]] = _none
    queues: Callable[[], Mapping[str, int]] = dict
    """Name of a queue -> how many wait in it."""
    lines_dropped: Callable[[], int] = int
    today: Callable[[], Usage] = lambda: NO_USAGE
    """What model calls have cost since 00:00 UTC."""
