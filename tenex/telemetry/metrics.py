"""Prometheus metrics: counters and histograms from appended records, gauges read at each scrape.

Tokens and cost are counted from records too, each record once. The registry is the meter's own.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, get_args

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.costs import ROUTER, run_agent
from tenex.core.ids import RunId
from tenex.core.messages import Usage

from .durations import Interval, Intervals, Stage
from .gauges import Readings, RuntimeSnapshot

log = structlog.get_logger(__name__)

NAMES: Final = 200
"""Distinct models, agents and tools with a label of their own; the rest is `other`, which bounds the series."""

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 86_400)
"""From an instant model's step to a user who answers tomorrow."""

_DISK_SECONDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
"""From a flush into a disk's cache to one over a network."""

_END_OF_HOLD: Final = (r.ModelResponded, r.ModelReprompted, r.RunEnded, r.Routed, r.RouteRejected, r.Stopped)
"""Records that end a hold: an answer of any kind, or a stop."""


class Meter:
    """Counts; an `Observer` of all conversations."""

    def __init__(self, readings: Readings, *, now: Callable[[], float] = time.time) -> None:
        """Begin at zero.

        Args:
            readings: sources of the gauges.
            now: the wall clock, in seconds.
        """
        # a second series per metric that nothing reads
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self._intervals = Intervals()
        self._models, self._agents, self._tools = _Names(), _Names(), _Names()
        self._held: set[tuple[str, RunId | None]] = set()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"tenex_{name}", about, labels, registry=registry)

        spender = ("model", "agent")
        self._messages = counter("messages", "Messages and commands admitted.", "kind")
        self._cycles = counter("cycles_started", "Cycles started.")
        self._opened = counter("turns_opened", "Turns opened.", "phase")
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
        self._tool_refusals = counter("tool_refusals", "Tool calls the gate refused.")
        self._rejections = counter("router_rejections", "Answers of the router that were rejected.", "counted")
        self._waits = counter("waits", "Times a conversation started to wait for a user.", "reason")
        self._limits = counter("limits_hit", "Limits that stopped a conversation until a user continues it.", "limit")
        self._retries = counter("model_retries", "Model calls that failed and are retried.")
        self._holds = counter("model_holds", "Times work was put on hold because its model was unavailable.")
        self._ended = counter("cycles_ended", "Cycles that ended.")
        stages = Histogram(
            "tenex_stage_seconds",
            "Durations by stage (tenex.telemetry.durations).",
            ("stage",),
            registry=registry,
            buckets=_SECONDS,
        )
        self._stages = {stage: stages.labels(stage) for stage in get_args(Stage)}
        self._disk = Histogram(
            "tenex_journal_seconds",
            "Seconds of an append, including the wait for a thread, and of its flush.",
            ("work",),
            registry=registry,
            buckets=_DISK_SECONDS,
        )
        registry.register(RuntimeSnapshot(readings, now))
        ProcessCollector(registry=registry)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def timed(self, work: str, seconds: float) -> None:
        """Observe the duration of disk work; called from any thread."""
        self._disk.labels(work).observe(seconds)

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Count the records (`core.ports.Observer`)."""
        try:
            for interval in self._intervals.on_records(conversation, records):
                self._ended_interval(interval)
            for record in records:
                self._count(conversation, record)
        except Exception:  # a metric must not break a conversation
            log.exception("meter.failed", conversation=conversation.id)

    def _ended_interval(self, interval: Interval) -> None:
        self._stages[interval.stage].observe(interval.seconds)
        match interval.stage:
            case "turn":
                self._closed.labels(interval.phase, interval.outcome).inc()
            case "run":
                self._runs.labels(self._agents[interval.agent], interval.outcome).inc()
            case "tool":  # a known name: calls of unknown tools never start
                self._tool_calls.labels(self._tools[interval.tool], _boolean_label(interval.outcome == "ok")).inc()

    def _count(self, c: Conversation, record: r.Record) -> None:  # noqa: C901 one case a record: flat
        match record:
            case r.ModelResponded():
                self._spend(record.step.usage, record.step.model, run_agent(record.run), "answered")
            case r.Routed():
                self._spend(record.usage, record.model, ROUTER, "accepted")
            case r.RouteRejected():
                self._rejections.labels(_boolean_label(record.counted)).inc()
                self._spend(record.usage, record.model, ROUTER, "rejected")
            case r.ModelReprompted() | r.RunEnded():
                self._spend(record.usage, record.model, run_agent(record.run), "refused")
            case r.ModelCallCancelled():
                agent = ROUTER if record.run is None else run_agent(record.run)
                self._spend(record.usage, record.model, agent, "cancelled")
            case r.RetryScheduled(limit=""):
                self._retry(c, record)
            case r.MessageRecorded():
                self._messages.labels("message").inc()
            case r.CommandGiven():
                self._messages.labels("command").inc()
            case r.CycleStarted():
                self._cycles.inc()
            case r.Ended():
                self._ended.inc()
            case r.Waiting():
                self._waits.labels(record.reason).inc()
            case r.LimitReached():
                self._limits.labels(record.limit).inc()
            case r.TurnOpened():
                self._opened.labels(record.phase).inc()
            case r.ToolCallRejected():
                self._tool_refusals.inc()
        if self._held and isinstance(record, _END_OF_HOLD):
            self._held.discard((c.id, getattr(record, "run", None)))

    def _retry(self, c: Conversation, record: r.RetryScheduled) -> None:
        self._retries.inc()
        what = (c.id, record.run)
        if record.on_hold and what not in self._held:
            self._held.add(what)
            self._holds.inc()
        agent = ROUTER if record.run is None else run_agent(record.run)
        # a call that failed in transport has ended, charged or not
        self._spend(record.usage, record.model, agent, "unavailable", calls=max(1, record.usage.calls))

    def _spend(self, usage: Usage, model: str, agent: str, outcome: str, *, calls: int | None = None) -> None:
        number = usage.calls if calls is None else calls
        if not number:
            return
        who = (self._models[model or "unknown"], self._agents[agent])
        self._calls.labels(*who, outcome).inc(number)
        self._tokens.labels(*who, "input").inc(max(0, usage.input_tokens))
        self._tokens.labels(*who, "output").inc(max(0, usage.output_tokens))
        for work, tokens in (("read", usage.cache_read_tokens), ("write", usage.cache_write_tokens)):
            if tokens > 0:  # most providers report none
                self._cached.labels(*who, work).inc(tokens)
        if usage.cost_usd is not None and usage.cost_usd >= 0:  # a counter must not decrease
            self._cost.labels(*who).inc(usage.cost_usd)
        elif usage.input_tokens or usage.output_tokens:
            self._unpriced.labels(who[0]).inc(number)


def _boolean_label(is_so: bool) -> str:
    return "true" if is_so else "false"


class _Names(dict[str, str]):
    """Label values; beyond `NAMES` distinct ones, a new one becomes `other`."""

    def __missing__(self, name: str) -> str:
        if len(self) >= NAMES:
            return "other"
        self[name] = name
        return name
