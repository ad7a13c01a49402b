"""Faults of transport: tried again after the delays of the table, then held, and the user is notified once."""


import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.effects import Key, ModelCall, Route, Work
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    model_by_phase,
    remove_agent,
    reply,
    route,
    scenario_at,
    step_until,
)

DELAYS = Limits().retry_delays
HOLD = Limits().hold_for


def down(retry_after: int | None = None) -> ModelFailed:
    """A model's server that cannot be reached."""
    return ModelFailed(key=Key(Work.MODEL, 0), message="connection refused", retryable=True, retry_after=retry_after)


def retries(scenario: Scenario) -> list[tuple[int, int, bool]]:
    """(attempt, delay, held) of every retry."""
    return [(record.attempt, record.due - record.at, record.on_hold) for record in scenario.records(r.RetryScheduled)]


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


def unreachable(scenario: Scenario) -> list[str]:
    """The notices about it."""
    return [text for text in scenario.sent_texts() if "cannot be reached" in text]


@pytest.mark.parametrize("part", ["retry", "route"])
def test_delays_come_from_the_table_and_then_the_work_is_held(part: str) -> None:
    scenario = fire(broken(part, times=6), part, times=5)
    expected = [*((n + 1, delay, False) for n, delay in enumerate(DELAYS)), *((n, HOLD, True) for n in (4, 5, 6))]
    assert retries(scenario) == expected
    assert len(unreachable(scenario)) == 1, "reported once"
    check_idle(fire(scenario, part))
    assert scenario.conversation.waiting_for == "user"


@pytest.mark.parametrize("part", ["retry", "route"])
def test_a_long_wait_a_server_asks_for_is_reported_at_once_and_once(part: str) -> None:
    """Without a word the user would wait for as many hours as the table has delays."""
    hour = 3_600_000
    times = iter([down(retry_after=hour), down(retry_after=hour), down(retry_after=1)])
    router = Router(route("execute", "executor"), WAITS) if part == "retry" else lambda _: next(times, WAITS)
    worker = model_by_phase(execute=lambda *_: next(times, reply("done")))
    scenario = scenario_at(Phase.CHAT, router, worker).settle()
    (reported,) = unreachable(scenario)
    assert "connection refused. I hold the work and try again in 60 min; `/continue` tries at once." in reported
    fire(scenario, part, times=3)
    assert retries(scenario) == [(1, hour, True), (2, hour, True), (3, DELAYS[2], False)]
    assert unreachable(scenario) == [reported]
    check_idle(scenario)


def test_time_away_is_given_back_once_to_a_run_that_waited() -> None:
    scenario = broken("retry", times=1)
    before = next(iter(scenario.conversation.runs.values()))
    began = scenario.records(r.RetryScheduled)[0].at
    scenario.now = Millis(scenario.now + 7_200_000)
    scenario.crash()
    scenario.fire("retry")
    after = next(iter(scenario.conversation.runs.values()))
    assert after.close_at - before.close_at == scenario.records(r.RetryDue)[0].at - began


def test_an_answer_ends_the_count_of_tries() -> None:
    steps = iter([down(), down(), reply("", ("read_file", {})), down(), reply("done")])
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=lambda *_: next(steps))
    ).settle()
    fire(scenario, "retry", times=3)
    assert [attempt for attempt, *_ in retries(scenario)] == [1, 2, 1]
    assert scenario.records(r.RunEnded)[-1].outcome == "finished"


def test_nothing_is_held_for_an_agent_that_has_left() -> None:
    """A reload took it out of the roster while its model was asked: it has no tools, and that would fail for ever."""
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=lambda *_: down())
    )
    step_until(scenario, lambda it: it.conversation.turn is not None)
    remove_agent(scenario, "executor")
    scenario.settle()
    assert "I could not finish: it is no longer one of the agents" in scenario.sent_texts()
    check_idle(scenario)


@pytest.mark.parametrize("part", ["retry", "route"])
def test_continue_asks_at_once_through_a_pause_and_only_that_once(part: str) -> None:
    scenario = fire(broken(part, times=6), part, times=3)
    assert retries(scenario)[-1][2], "held"
    assert not any(getattr(effect, "is_urgent", False) for effect in scenario.running.values())
    scenario.user_writes("/continue")
    assert "I try again now." in scenario.sent_texts()
    (again,) = in_flight(scenario)
    assert isinstance(again, (ModelCall, Route))
    assert again.is_urgent
    scenario.settle()
    assert len(unreachable(scenario)) == 2, "the user who asked learns that it failed again"
    scenario.fire(part)
    (later,) = in_flight(scenario)
    assert isinstance(later, (ModelCall, Route))
    assert not later.is_urgent
