"""Costs in records: which records hold one, how much, which model was paid, and for whom."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.ids import RunId, Slug
from tenex.core.messages import NO_USAGE, Usage

DAY: Final = 86_400_000
"""ms. A day begins at 00:00 UTC: everywhere at the same moment, and always as long as any other."""

ROUTER: Final = Slug("orchestrator")
"""Who spends what a router's answer costs; no agent of the roster bears that name."""


def _of_step(record: r.ModelResponded) -> Usage:
    return record.step.usage


def _stated(record: Any) -> Usage:
    usage: Usage = record.usage
    return usage


COSTS: Final[dict[type[r.Record], Callable[[Any], Usage]]] = {
    r.ModelResponded: _of_step,
    r.ModelReprompted: _stated,
    r.ModelCallCancelled: _stated,
    r.RetryScheduled: _stated,
    r.RunEnded: _stated,
    r.RouteRejected: _stated,
    r.Routed: _stated,
}
"""The classes of record that carry a cost; kinds of conversation add theirs by `counts_usage`."""


def counts_usage(record: type[r.Record]) -> None:
    """Have the `usage` of these records of a kind count."""
    COSTS[record] = _stated


def cost_of(record: r.Record) -> Usage:
    """The cost a record holds; `NO_USAGE` for the many without one."""
    cost = COSTS.get(type(record))
    return cost(record) if cost is not None else NO_USAGE


def model_of(record: r.Record) -> str:
    """The model that was asked; empty where it is not known."""
    return record.step.model if isinstance(record, r.ModelResponded) else str(getattr(record, "model", ""))


def spender_of(record: r.Record) -> Slug:
    """The agent, or what else its record names, that it was paid for; what belongs to neither is the router's."""
    if record.spender:
        return Slug(record.spender)
    run = getattr(record, "run", None)
    return ROUTER if run is None else run_agent(run)


def run_agent(run: RunId) -> Slug:
    """Whose run it is: a run's id is `<turn id>.<slug>`, or `<turn id>/<seq>.<slug>`."""
    return Slug(run.partition(".")[2])


def worker_of(run: RunId | None) -> str:
    """Who works in a run, for a sentence; the router where there is no run."""
    return f"the {ROUTER}" if run is None else run_agent(run)
