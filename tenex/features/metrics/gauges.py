"""Gauges read at each scrape: relays, conversations in memory, queues, the usage of the day."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tenex.core.conversation import Conversation
from tenex.core.messages import Usage
from tenex.core.projection import condition_of, undelivered
from tenex.nostr.pool import RelayPool
from tenex.runtime.actor import ConversationActor


class Gauges(Collector):
    """A Prometheus collector. Its sources are read on the event loop; they must not block."""

    def __init__(
        self,
        pool: Callable[[], RelayPool],
        actors: Callable[[], Iterable[ConversationActor]],
        lines_dropped: Callable[[], int],
        today: Callable[[], Usage],
        mcp: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
        web: Callable[[], Mapping[str, Any] | None] = lambda: None,
        *,
        more: Callable[[], Iterable[Metric]] = tuple,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._pool = pool
        self._actors = actors
        self._lines_dropped = lines_dropped
        self._today = today
        self._mcp = mcp
        self._web = web
        self._more = more
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Read every gauge once."""
        yield from self._relays()
        actors = list(self._actors())
        known = [c for actor in actors if (c := actor.conversation) is not None]
        states = Counter({"active": 0, "waiting": 0, "parked": 0, "held": 0, "limited": 0, "suspended": 0})
        states.update("suspended" if actor.is_suspended else _state(actor.conversation) for actor in actors)
        open_events = sum(sum(undelivered(c).values()) for c in known)
        today = self._today()
        yield _labelled("conversations", "Conversations in memory, by state.", "state", states)
        yield _gauge("runs", "Open runs of agents.", sum(len(c.work.runs) for c in known))
        yield _gauge("undelivered", "Events that no relay has accepted or refused.", open_events)
        yield _gauge("today_tokens", "Tokens used since 00:00 UTC.", today.tokens)
        about = "Dollars spent since 00:00 UTC, as far as prices are known."
        yield _gauge("today_cost_usd", about, today.cost_usd or 0.0)
        queued = sum(actor.waiting for actor in actors)
        yield _gauge("queued_signals", "Signals that conversations have not decided yet.", queued)
        about = "Log lines lost because the stream was not read."
        yield CounterMetricFamily("tenex_log_lines_dropped", about, value=self._lines_dropped())
        yield from self._mcp_servers()
        yield from self._pages()
        yield from self._more()

    def _pages(self) -> Iterator[Metric]:
        pages = self._web()
        running = GaugeMetricFamily("tenex_pages_running", "Whether the pages of `web.enabled` are served.")
        losses = CounterMetricFamily("tenex_pages_losses", "Times that the process of the pages ended.")
        if pages is not None:
            running.add_metric((), pages["state"] == "running")
            losses.add_metric((), pages["losses"])
        yield from (running, losses)

    def _mcp_servers(self) -> Iterator[Metric]:
        servers = list(self._mcp())
        ready = {server["name"]: server["state"] == "ready" for server in servers}
        yield _labelled("mcp_server_ready", "Whether an MCP server runs and answers.", "server", ready)
        for what, about in (
            ("calls", "Calls of tools of MCP servers."),
            ("failures", "Calls of tools of MCP servers without an answer."),
            ("losses", "Connections to MCP servers that broke, and starts that failed."),
        ):
            counted = CounterMetricFamily(f"tenex_mcp_{what}", about, labels=("server",))
            for server in servers:
                counted.add_metric((server["name"],), server.get(what, 0))
            yield counted

    def _relays(self) -> Iterator[Metric]:
        relays = self._pool().status()
        now = self._now()
        unserved_since = {relay.url: relay.unresponsive_since or now for relay in relays}
        about = "Seconds since a relay stopped serving every subscription; 0 if it serves."
        yield _labelled(
            "relay_connected", "Whether a relay is connected.", "relay", {one.url: one.connected for one in relays}
        )
        unresponsive = {url: max(0.0, now - since) for url, since in unserved_since.items()}
        yield _labelled("relay_unresponsive_seconds", about, "relay", unresponsive)
        counted = CounterMetricFamily("tenex_relay_events", "Events and faults by relay.", labels=("relay", "kind"))
        for relay in relays:
            for kind, number in relay.counters.items():
                counted.add_metric((relay.url, kind), number)
        yield counted


def _state(conversation: Conversation | None) -> str:
    """The condition; what waits for a user to write is `waiting`, whether or not its cycle has ended."""
    if conversation is None:
        return "active"  # being read
    condition = condition_of(conversation)
    return condition if condition in ("active", "parked", "held", "limited") else "waiting"


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tenex_{name}", about, value=value)


def _labelled(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"tenex_{name}", about, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
