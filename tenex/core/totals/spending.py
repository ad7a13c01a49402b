"""What records cost: which of them say so, and how much."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.messages import NO_USAGE, Usage


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
    """What a record cost."""
    cost = COSTS.get(type(record))
    return cost(record) if cost is not None else NO_USAGE
