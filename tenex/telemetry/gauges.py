"""How things stand at the moment somebody asks: relays, conversations in memory, queues."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tenex.core.conversation import Conversation

from .runtime_readings import Readings


class RuntimeSnapshot:
    """How things stand, at the moment of asking."""

    def __init__(self, readings: Readings, now: Callable[[], float]) -> None:
        self._readings = readings
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Read everything once."""
        yield from self._relays()
        yield from self._actors()
        today = self._readings.today()
        yield GaugeMetricFamily("tenex_today_tokens", "Tokens used since 00:00 UTC.", value=today.tokens)
        yield GaugeMetricFamily(
            "tenex_today_cost_usd",
            "Dollars spent since 00:00 UTC, as far as prices are known.",
            value=today.cost_usd or 0.0,
        )
        yield _gauge("queue_length", "How many wait in a queue.", "queue", self._readings.queues())
        yield CounterMetricFamily(
            "tenex_log_lines_dropped", "Lines lost because nobody took them.", value=self._readings.lines_dropped()
        )

    def _relays(self) -> Iterator[Metric]:
        connected = GaugeMetricFamily("tenex_relay_connected", "Whether a relay is connected.", labels=("relay",))
        deaf = GaugeMetricFamily(
            "tenex_relay_unresponsive_seconds",
            "Seconds since when a relay does not serve every subscription; 0 for one that does.",
            labels=("relay",),
        )
        counted = CounterMetricFamily("tenex_relay_events", "What came from a relay.", labels=("relay", "kind"))
        now = self._now()
        for relay in self._readings.relays():
            since = relay.unresponsive_since
            connected.add_metric((relay.url,), relay.connected)
            deaf.add_metric((relay.url,), 0.0 if since is None else max(0.0, now - since))
            for kind, number in relay.counters.items():
                counted.add_metric((relay.url, kind), number)
        yield from (connected, deaf, counted)

    def _actors(self) -> Iterator[Metric]:
        states = Counter({"active": 0, "waiting": 0, "parked": 0, "held": 0, "limited": 0, "suspended": 0})
        runs, undelivered = 0, 0
        for actor in self._readings.actors():
            c = actor.conversation
            states[_state(c, is_suspended=actor.is_suspended)] += 1
            if c is not None:
                runs += len(c.runs)
                undelivered += sum(len(row.open) for row in c.outbox.values())
        yield _gauge("conversations", "Conversations in memory, by what they are at.", "state", states)
        yield GaugeMetricFamily("tenex_runs", "Agents' parts in turns that are open.", value=runs)
        yield GaugeMetricFamily("tenex_undelivered", "Events that a relay has not answered yet.", value=undelivered)


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
