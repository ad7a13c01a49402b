"""The port for metrics and health."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack

from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayStatus
from tenex.runtime.inbox import Inbox
from tenex.settings import Settings

from .http import Health, StatusPort
from .meter import Meter


async def open_port(
    stack: AsyncExitStack,
    settings: Settings,
    meter: Meter,
    probe: Callable[[], Awaitable[str]],
    pool: RelayPool,
    inbox: Inbox,
    store_fault: Callable[[], str],
) -> None:
    """Serve metrics and health until the stack is unwound.

    Args:
        stack: closes the port.
        settings: have the port.
        meter: the numbers.
        probe: whether the disk is writable.
        pool: the relays.
        inbox: closed while the daemon starts or stops.
        store_fault: why a shared store cannot be used; empty where it can, or there is none.

    Raises:
        ConfigurationError: the port is in use.
    """
    assert settings.metrics.port is not None

    def faults() -> list[str]:
        fault = store_fault()
        return [*([fault] if fault else []), *unreachable(pool.status(), is_serving=not inbox.is_closed)]

    health = Health(probe=probe, unreachable=faults)
    port = StatusPort(health, meter.text, settings.metrics.hosts)
    await port.open(settings.metrics.host, settings.metrics.port)
    stack.push_async_callback(port.close)


def unreachable(relays: Iterable[RelayStatus], *, is_serving: bool) -> list[str]:
    """Why users cannot reach the daemon, as sentences; empty if a relay serves every subscription."""
    faults = [] if is_serving else ["messages are not admitted: the daemon starts or stops"]
    relays = [relay for relay in relays if not relay.publish_only]
    if any(relay.serves for relay in relays):
        return faults
    for relay in relays:
        if relay.refused:
            faults.append(f"{relay.url} refuses: {'; '.join(relay.refused)}")
        elif relay.connected:
            faults.append(f"{relay.url} is connected and does not serve")
        else:
            faults.append(f"{relay.url} is not connected{f': {relay.fault}' if relay.fault else ''}")
    return faults if relays else [*faults, "there is no relay in the settings"]
