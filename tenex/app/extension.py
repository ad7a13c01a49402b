"""What a feature does in a running daemon."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tenex.core.ids import PublicKey
from tenex.core.ports import Files, FileSender, Model, Observer, Quotations, Tools, UnsignedEvent
from tenex.nostr.events import Event
from tenex.nostr.keys import Key
from tenex.service.control import Handler

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Signing(Protocol):
    """Signs with our keys, those among them that are not on this machine."""

    async def sign(self, event: UnsignedEvent, key: Key) -> Event:
        """Sign an event; this may take long. Raises ValueError where it cannot be signed with this key."""

    def is_remote(self, pubkey: PublicKey) -> bool:
        """Whether signatures of a key may take long."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The parts of a daemon that are a feature's.

    It is made when store and configuration are open, before relays and conversations: later parts of the application
    are used only in callbacks.
    """

    services: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    """What runs while the daemon serves, by the name of its task."""
    opened: Callable[[], Awaitable[None]] = _nothing
    """Called once when all parts are there, before the daemon serves."""
    changed: Callable[[], object] = lambda: None
    """Called after a reload of the configuration."""
    stopping: Callable[[], Awaitable[None]] = _nothing
    """Called at an orderly stop when work has ended, while relays are still connected; must return within a second."""
    observers: Sequence[Observer] = ()
    events: Mapping[int, Callable[[Event], object]] = field(default_factory=dict)
    """What takes the events of a kind, which no other part is then given."""
    orders: Mapping[str, Handler] = field(default_factory=dict)
    """Requests that the control socket answers."""
    status: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Parts of the report of `tenex status`, as JSON."""
    gauges: Callable[[], Iterable["Metric"]] = tuple
    """Numbers that are read at each scrape, where metrics are served."""
    model: Callable[[Model], Model] | None = None
    """Makes a model that stands before the daemon's and passes on what is not its own."""
    tools: Callable[[Tools], Tools] | None = None
    """Makes what carries out calls of its own tools, and passes on all others."""
    signing: Signing | None = None
    quotations: Callable[[], Quotations] | None = None
    """Makes what finds the words that messages quote; called once the relays are there."""
    file_sender: Callable[[], FileSender] | None = None
    """Makes what uploads files for people; called when one is sent first."""
    files: Callable[[], Files] | None = None
    """Makes what loads the files that messages name; called once the relays are there."""
