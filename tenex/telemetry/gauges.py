"""Gauges read at each scrape: relays, conversations in memory, queues."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tenex.core.conversation import Conversation
from tenex.core.messages import NO_USAGE, Usage


class RelayReading(Protocol):
    """The status of a relay; `nostr.relay.RelayStatus` implements it."""

    @property
    def url(self) -> str:
        """ws:// or wss://, normalised."""

    @property
    def connected(self) -> bool:
        """Whether a socket is open."""

    @property
    def serves(self) -> bool:
        """Whether it is connected and serves every subscription."""

    @property
    def unresponsive_since(self) -> float | None:
        """Wall clock, seconds, since when it does not serve; None while it serves."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Each subscription it will not serve, with its reason."""

    @property
    def fault(self) -> str:
        """Why the last connection ended or could not be made."""

    @property
    def counters(self) -> Mapping[str, int]:
        """What came from it, by kind."""


class ActorReading(Protocol):
    """A conversation in memory; `runtime.actor.ConversationActor` implements it."""

    @property
    def conversation(self) -> Conversation | None:
        """Its state; None before it has been read and while suspended."""

    @property
    def is_suspended(self) -> bool:
        """Whether an append failed and its journal must be reopened."""


def _none() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Callbacks read at each scrape, on the event loop; they must not block."""

    relays: Callable[[], Iterable[RelayReading]] = _none
    actors: Callable[[], Iterable[ActorReading]] = _none
    queues: Callable[[], Mapping[str, int]] = dict
    """Name of a queue -> its length."""
    lines_dropped: Callable[[], int] = int
    today: Callable[[], Usage] = lambda: NO_USAGE
    """Usage of model calls since 00:00 UTC."""


class RuntimeSnapshot:
    """A Prometheus collector of the readings."""

    def __init__(self, readings: Readings, now: Callable[[], float]) -> None:
        self._readings = readings
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Read every gauge once."""
        yield from self._relays()
        yield from self._actors()
        today = self._readings.today()
        yield GaugeMetricFamily("tenex_today_tokens", "Tokens used since 00:00 UTC.", value=today.tokens)
        yield GaugeMetricFamily(
            "tenex_today_cost_usd",
            "Dollars spent since 00:00 UTC, as far as prices are known.",
            value=today.cost_usd or 0.0,
        )
        yield _gauge("queue_length", "Length of a queue.", "queue", self._readings.queues())
        yield CounterMetricFamily(
            "tenex_log_lines_dropped",
            "Log lines lost because the stream was not read.",
            value=self._readings.lines_dropped(),
        )

    def _relays(self) -> Iterator[Metric]:
        connected = GaugeMetricFamily("tenex_relay_connected", "Whether a relay is connected.", labels=("relay",))
        unresponsive = GaugeMetricFamily(
            "tenex_relay_unresponsive_seconds",
            "Seconds since a relay stopped serving every subscription; 0 if it serves.",
            labels=("relay",),
        )
        counted = CounterMetricFamily("tenex_relay_events", "Events and faults by relay.", labels=("relay", "kind"))
        now = self._now()
        for relay in self._readings.relays():
            since = relay.unresponsive_since
            connected.add_metric((relay.url,), relay.connected)
            unresponsive.add_metric((relay.url,), 0.0 if since is None else max(0.0, now - since))
            for kind, number in relay.counters.items():
                counted.add_metric((relay.url, kind), number)
        yield from (connected, unresponsive, counted)

    def _actors(self) -> Iterator[Metric]:
        states = Counter({"active": 0, "waiting": 0, "parked": 0, "held": 0, "limited": 0, "suspended": 0})
        runs, undelivered = 0, 0
        for actor in self._readings.actors():
            c = actor.conversation
            states[_state(c, is_suspended=actor.is_suspended)] += 1
            if c is not None:
                runs += len(c.runs)
                undelivered += sum(len(row.open) for row in c.outbox.values())
        yield _gauge("conversations", "Conversations in memory, by state.", "state", states)
        yield GaugeMetricFamily("tenex_runs", "Open runs of agents.", value=runs)
        yield GaugeMetricFamily("tenex_undelivered", "Events that no relay has accepted or refused.", value=undelivered)


def _state(c: Conversation | None, *, is_suspended: bool) -> str:
    if is_suspended:
        return "suspended"
    if c is None:
        return "active"  # being read
    if c.is_parked:
        return "parked"
    retries = [run.retry for run in c.runs.values()] if c.runs else [c.question.retry] if c.question else []
    if retries and all(retry is not None and retry.on_hold for retry in retries):
        return "limited" if all(retry.limit for retry in retries if retry is not None) else "held"
    return "active" if c.status == "active" else "waiting"


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"tenex_{name}", about, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
