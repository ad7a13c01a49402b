"""Conversations in which the router asks to skip a gate."""

from tenex.core import records as r
from tenex.core.effects import Key, Work
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import WAITS, Router, Scenario, route, scenario_at, wish

BREAKS = ModelFailed(key=Key(Work.MODEL, 0), message="the model refused", retryable=False)


def wishing(scenario: Scenario, *gates: str) -> Scenario:
    """Let the router wish to skip these gates, and then wait."""
    (first, *_) = scenario.records(r.MessageRecorded)
    scenario.router = Router(wish(route("chores", "executor"), *gates, words=first.text), WAITS)
    scenario.settle()
    scenario.router = Router(WAITS)
    return scenario


HOUR = 3_600


def asked_now(gate: str = "verification") -> Scenario:
    """The same, at a time late enough for messages of an earlier day."""
    scenario = scenario_at(Phase.EXECUTE)
    scenario.now = type(scenario.now)(10_000 * HOUR)
    return wishing(scenario, gate)
