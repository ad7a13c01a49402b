"""Conversations whose models cannot be reached for some time."""

from tenex.core.effects import Key, Work
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import WAITS, Router, Scenario, in_flight, model_by_phase, reply, route, scenario_at


def down(retry_after: int | None = None) -> ModelFailed:
    """A model's server that cannot be reached."""
    return ModelFailed(key=Key(Work.MODEL, 0), message="connection refused", retryable=True, retry_after=retry_after)


def broken(part: str, *, times: int) -> Scenario:
    """A scenario whose agent (`retry`) or router (`route`) cannot be reached that often."""
    left = iter([down()] * times)
    if part == "route":
        return scenario_at(Phase.CHAT, lambda _: next(left, WAITS)).settle()
    router = Router(route("execute", "executor"), WAITS)
    worker = model_by_phase(execute=lambda *_: next(left, reply("done")))
    return scenario_at(Phase.CHAT, router, worker).settle()


def fire(scenario: Scenario, part: str, *, times: int = 1) -> Scenario:
    """The next tries are due."""
    for _ in range(times):
        assert in_flight(scenario) == [], "while it waits nothing is asked"
        scenario.fire(part)
        scenario.settle()
    return scenario
