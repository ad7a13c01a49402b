"""Prometheus metrics: counters and histograms from appended records. The registry is the meter's own.

Tokens and cost are counted from records too, each record once. Gauges are collectors that the caller adds.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.history.facts import Fact, FactKind, facts_of
from tenex.core.ids import RunId
from tenex.log import get_logger

from .durations import Interval, Intervals, Stage

log = get_logger(__name__)

NAMES: Final = 200
"""Distinct models, agents and tools with a label of their own; the rest is `other`, which bounds the series."""

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 86_400)
"""From an instant model's step to a user who answers tomorrow."""

_DISK_SECONDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
"""From a flush into a disk's cache to one over a network."""

_TAKEOVER_SECONDS: Final = (1, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300)
"""Around the 20 s after which a lease is taken over."""

_ANSWERS: Final = frozenset({"yes", "no", "expired", "unattended"})


class _Count(NamedTuple):
    """Facts of which only the number counts."""

    name: str
    about: str
    kind: FactKind
    outcomes: frozenset[str] | None = None
    """Those that count; None for every one."""
    label: str = ""
    """The name of the metric's label; "" for none."""
    value: Callable[[Fact], object] = lambda fact: fact.outcome
    """What the label says."""


_COUNTED: Final = (
    _Count("messages", "Messages and commands admitted.", "message", None, "kind", lambda fact: fact.kind),
    _Count("messages", "Messages and commands admitted.", "command", None, "kind", lambda fact: fact.kind),
    _Count("cycles_started", "Cycles started.", "cycle", frozenset({"began"})),
    _Count("cycles_ended", "Cycles that ended.", "cycle", frozenset({"ended"})),
    _Count("turns_opened", "Turns opened.", "turn", frozenset({"began"}), "phase", lambda fact: fact.phase),
    _Count("tool_refusals", "Tool calls the gate refused.", "tool", frozenset({"refused"})),
    _Count(
        "router_rejections",
        "Answers of the router that were rejected.",
        "route",
        frozenset({"rejected", "stale"}),
        "counted",
        lambda fact: fact.outcome == "rejected",
    ),
    _Count("waits", "Times a conversation started to wait for a user.", "wait", None, "reason"),
    _Count("approvals_requested", "Times a person was asked to allow calls.", "permission", frozenset({"asked"})),
    _Count("approvals_answered", "Answers to that, or that none came.", "permission", _ANSWERS, "outcome"),
    _Count("limits_hit", "Limits that stopped a conversation until a user continues it.", "limit", None, "limit"),
)

_END_OF_HOLD: Final = (r.ModelResponded, r.ModelReprompted, r.RunEnded, r.Routed, r.RouteRejected, r.Stopped)
"""Records that end a hold: an answer of any kind, or a stop."""


class Meter:
    """Counts; an `Observer` of all conversations."""

    def __init__(self, *gauges: Collector) -> None:
        """Begin at zero; `gauges` are read at each scrape."""
        # a second series per metric that nothing reads
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self._intervals = Intervals()
        self._models, self._agents, self._tools = _Names(), _Names(), _Names()
        self._held: set[tuple[str, RunId | None]] = set()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"tenex_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, label: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"tenex_{name}", about, (label,), registry=registry, buckets=buckets)

        spender = ("model", "agent")
        self._counters: dict[str, Counter] = {}
        self._counted: dict[FactKind, list[_Count]] = {}
        for count in _COUNTED:
            if count.name not in self._counters:
                self._counters[count.name] = counter(count.name, count.about, *filter(None, [count.label]))
            self._counted.setdefault(count.kind, []).append(count)
        self._closed = counter("turns_closed", "Turns closed; the outcome is its agents' worst.", "phase", "outcome")
        self._runs = counter("runs_ended", "Runs of agents that ended.", "agent", "outcome")
        self._calls = counter("model_calls", "Model calls that ended.", *spender, "outcome")
        self._tokens = counter("model_tokens", "Tokens, of failed and refused calls too.", *spender, "direction")
        self._cached = counter(
            "model_cache_tokens", "Tokens of the input that a prompt cache held or stored.", *spender, "work"
        )
        self._cost = counter("model_cost_usd", "US dollars, where the price is known.", *spender)
        self._unpriced = counter("model_calls_unpriced", "Model calls whose price is not known.", "model")
        self._tool_calls = counter("tool_calls", "Tool calls that ran.", "tool", "ok")
        self._retries = counter("model_retries", "Model calls that failed and are retried.")
        self._holds = counter("model_holds", "Times work was put on hold because its model was unavailable.")
        stages = histogram("stage_seconds", "Durations by stage (tenex.telemetry.durations).", "stage", _SECONDS)
        self._stages = {stage: stages.labels(stage) for stage in get_args(Stage)}
        about = "Seconds of an append, including the wait for a thread, and of its flush."
        self._disk = histogram("journal_seconds", about, "work", _DISK_SECONDS)
        for gauge in gauges:
            registry.register(gauge)
        ProcessCollector(registry=registry)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def timed(self, work: str, seconds: float) -> None:
        """Observe the duration of disk work; called from any thread."""
        self._disk.labels(work).observe(seconds)

    def of_store(self) -> Callable[[str, float], None]:
        """What counts what happens in a store that several daemons share; only with such a store are there metrics."""
        lost = Counter("tenex_lease_lost", "Conversations lost to other daemons.", registry=self.registry)
        conflicts = Counter("tenex_append_conflicts", "Appends after those of another writer.", registry=self.registry)
        takeovers = Histogram(
            "tenex_takeover_seconds",
            "Seconds from the last sign of a daemon that died until this one goes on with a conversation of it.",
            registry=self.registry,
            buckets=_TAKEOVER_SECONDS,
        )

        def happened(what: str, seconds: float) -> None:
            match what:
                case "lease_lost":
                    lost.inc()
                case "append_conflict":
                    conflicts.inc()
                case "takeover":
                    takeovers.observe(seconds)

        return happened

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Count the records (`core.ports.Observer`)."""
        try:
            for interval in self._intervals.on_records(conversation, records):
                self._time(interval)
            for record in records:
                self._count(conversation, record)
        except Exception:  # a metric must not break a conversation
            log.exception("meter.failed", conversation=conversation.id)

    def _time(self, interval: Interval) -> None:
        self._stages[interval.stage].observe(interval.seconds)
        match interval.stage:
            case "turn":
                self._closed.labels(interval.phase, interval.outcome).inc()
            case "run":
                self._runs.labels(self._agents[interval.agent], interval.outcome).inc()
            case "tool":  # a known name: calls of unknown tools never start
                self._tool_calls.labels(self._tools[interval.tool], _label(interval.outcome == "ok")).inc()

    def _count(self, c: Conversation, record: r.Record) -> None:
        for fact in facts_of(record):
            for count in self._counted.get(fact.kind, ()):
                if count.outcomes is None or fact.outcome in count.outcomes:
                    counter = self._counters[count.name]
                    (counter.labels(_label(count.value(fact))) if count.label else counter).inc()
            self._spend(fact)
        if isinstance(record, r.RetryScheduled):
            if record.limit:  # no model was called
                return
            self._retries.inc()
            if record.on_hold and (c.id, record.run) not in self._held:
                self._held.add((c.id, record.run))
                self._holds.inc()
        elif self._held and isinstance(record, _END_OF_HOLD):
            self._held.discard((c.id, getattr(record, "run", None)))

    def _spend(self, fact: Fact) -> None:
        usage = fact.usage
        # a call that failed in transport has ended, charged or not
        calls = max(1, usage.calls) if fact.outcome == "unavailable" else usage.calls
        if not calls:
            return
        who = (self._models[fact.model or "unknown"], self._agents[fact.spender])
        outcome = "rejected" if fact.outcome == "stale" else fact.outcome
        self._calls.labels(*who, outcome).inc(calls)
        self._tokens.labels(*who, "input").inc(max(0, usage.input_tokens))
        self._tokens.labels(*who, "output").inc(max(0, usage.output_tokens))
        for work, tokens in (("read", usage.cache_read_tokens), ("write", usage.cache_write_tokens)):
            if tokens > 0:  # most providers report none
                self._cached.labels(*who, work).inc(tokens)
        if usage.cost_usd is not None and usage.cost_usd >= 0:  # a counter must not decrease
            self._cost.labels(*who).inc(usage.cost_usd)
        elif usage.input_tokens or usage.output_tokens:
            self._unpriced.labels(who[0]).inc(calls)


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Names(dict[str, str]):
    """Label values; beyond `NAMES` distinct ones, a new one becomes `other`."""

    def __missing__(self, name: str) -> str:
        if len(self) >= NAMES:
            return "other"
        self[name] = name
        return name
