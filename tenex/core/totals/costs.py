"""Costs in records: how much, which model was paid, and for whom."""

from typing import Final

from tenex.core.ids import RunId, Slug
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.records import ModelResponded, Record

DAY: Final = 86_400_000
"""ms. A day begins at 00:00 UTC: everywhere at the same moment, and always as long as any other."""

ROUTER: Final = Slug("orchestrator")
"""Who spends what a router's answer costs; no agent of the roster bears that name."""


def cost_of(record: Record) -> Usage:
    """The cost a record holds; `NO_USAGE` for the many without one."""
    usage = record.step.usage if isinstance(record, ModelResponded) else getattr(record, "usage", NO_USAGE)
    return usage if isinstance(usage, Usage) else NO_USAGE


def model_of(record: Record) -> str:
    """The model that was asked; empty where it is not known."""
    return record.step.model if isinstance(record, ModelResponded) else str(getattr(record, "model", ""))


def spender_of(record: Record) -> Slug:
    """The agent, or what else its record names, that it was paid for; what belongs to neither is the router's."""
    if record.spender:
        return Slug(record.spender)
    run = getattr(record, "run", None)
    return ROUTER if run is None else run_agent(run)


def run_agent(run: RunId) -> Slug:
    """Whose run it is: a run's id is `<turn id>.<slug>`, or `<turn id>/<seq>.<slug>`."""
    return Slug(run.partition(".")[2])
