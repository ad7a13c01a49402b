"""Metrics, health endpoints and traces, if the settings ask for them; their libraries are loaded only then."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from tenex import __version__
from tenex.core.errors import ConfigurationError
from tenex.core.installation import pip_install
from tenex.core.messages import Usage
from tenex.core.ports import Observer
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayStatus
from tenex.runtime.coordinator import ConversationCoordinator
from tenex.runtime.inbox import Inbox
from tenex.settings import Settings

if TYPE_CHECKING:
    from tenex.telemetry.metrics import Meter


def make_meter(
    settings: Settings,
    pool: Callable[[], RelayPool],
    actors: Callable[[], ConversationCoordinator],
    lines_dropped: Callable[[], int],
    today: Callable[[], Usage],
    mcp: Callable[[], Iterable[Mapping[str, Any]]],
    web: Callable[[], Mapping[str, Any] | None],
) -> "Meter | None":
    """The metrics if `metrics.port` is set; its sources are read at each scrape."""
    if settings.metrics.port is None:
        return None
    from tenex.telemetry.metrics import Meter

    from .gauges import Gauges

    return Meter(Gauges(pool, actors, lines_dropped, today, mcp, web))


async def open_port(
    stack: AsyncExitStack,
    settings: Settings,
    meter: "Meter",
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
    from tenex.telemetry.http import Health, StatusPort

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


def open_spans(stack: AsyncExitStack, settings: Settings) -> list[Observer]:
    """The trace exporter if `traces.endpoint` is set; flushed when the stack is unwound.

    Raises:
        ConfigurationError: the extra `otel` is not installed.
    """
    if settings.traces.endpoint is None:
        return []
    try:
        from tenex.telemetry.traces import open_traces
    except ImportError as fault:
        raise ConfigurationError(
            [f"traces.endpoint: exporting spans needs the extra `otel`. Run: {pip_install(extra='otel')}"]
        ) from fault
    traces = open_traces(settings.traces.endpoint, with_content=settings.traces.content, version=__version__)
    stack.push_async_callback(traces.close)
    return [traces]
