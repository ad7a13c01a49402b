"""Faults of transport: tried again after the delays of the table, then held, and the user is notified once."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation
from tenex.core.effects import Key, ModelCall, Route, Work
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelStep, Usage
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
    rules,
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


COST = Usage(input_tokens=70, output_tokens=30, cost_usd=0.5)


def failed(message: str = "The answer was filtered.", *, retryable: bool = False, **more: Any) -> ModelFailed:
    """What a content filter leaves, or a fault of transport; the scenario puts the real key in."""
    return ModelFailed(key=Key(Work.MODEL, 0), message=message, retryable=retryable, **more)


def answering(*answers: ModelStep | ModelFailed, limits: Limits | None = None) -> Scenario:
    """A scenario in which the executor's model has given these answers, the last one again and again."""
    left = list(answers)

    def router(question: dict[str, Any]) -> Any:
        return WAITS if question["turns"] else route("execute", "executor")

    def worker(conversation: Conversation, call: ModelCall) -> ModelStep | ModelFailed:
        return left.pop(0) if len(left) > 1 else left[0]

    return Scenario(router, worker, config=rules(limits=limits)).converse("build it")


def retry(scenario: Scenario) -> Scenario:
    """The next try is due."""
    scenario.fire("retry")
    return scenario.settle()


def test_an_agent_whose_answers_stay_useless_fails_with_the_reason_and_all_calls_are_paid() -> None:
    scenario = answering(failed(usage=COST))
    ended = scenario.records(r.RunEnded)[0]
    assert (ended.outcome, ended.error) == ("failed", "The answer was filtered.")
    assert all("The answer was filtered. Answer again" in one.text for one in scenario.records(r.ModelReprompted))
    assert scenario.conversation.status == "waiting"
    routed = Usage(input_tokens=10, output_tokens=5)
    assert scenario.conversation.usage == COST + COST + COST + routed + routed


@pytest.mark.parametrize(
    ("last", "words", "cost"),
    [(reply("done"), "done", 15), (failed(usage=COST, model="last"), "I could not finish: The answer was", 100)],
)
def test_what_is_sent_carries_all_that_the_run_cost_and_each_record_its_model(last: Any, words: str, cost: int) -> None:
    """The tags of an answer, or of a failure, are what was paid for it, failed and refused calls included."""
    gone = failed("cut off", retryable=True, usage=COST, model="small")
    refused = failed(usage=COST, model="big")
    scenario = retry(answering(gone, refused, refused, last))
    (sent,) = [record for record in scenario.records(r.MessageSent) if record.text.startswith(words)]
    assert dict(tag for tag in sent.tags if len(tag) == 2)["llm-total-tokens"] == str(300 + cost)
    kinds = (r.RetryScheduled, r.ModelReprompted, r.RunEnded)
    models = [record.model for kind in kinds for record in scenario.records(kind) if record.model]
    assert models == ["small", "big", "big", *(["last"] if cost == 100 else [])]


@pytest.mark.parametrize("tool", ["write_file", "complete"])
def test_a_call_whose_arguments_cannot_be_used_is_refused_with_the_reason(tool: str) -> None:
    broken = CallRequest(id=CallId("b"), tool=tool, fault="The arguments of the call are no JSON.")
    scenario = answering(ModelStep(calls=(broken,), model="m"), reply("done another way"))
    assert [refusal.sentence for refusal in scenario.records(r.ToolCallRejected)] == [
        "The arguments of the call are no JSON."
    ]
    assert not scenario.ran
    assert [ended.text for ended in scenario.records(r.RunEnded)] == ["done another way"]


def test_a_run_that_reaches_the_limit_of_the_cycle_ends_and_the_user_is_asked() -> None:
    """A run of fifty steps must not spend many times what a cycle may."""
    scenario = Scenario(
        lambda question: route("execute", "executor"),
        lambda conversation, call: reply("", ("read_file", {"path": "a"})),
        config=rules(limits=Limits(tokens_per_cycle=60)),
    ).converse("build it")
    assert len(scenario.records(r.ModelResponded)) == 4
    assert [limit.limit for limit in scenario.records(r.LimitReached)] == ["tokens_per_cycle"]
    assert sum("This cycle has used" in text for text in scenario.sent_texts()) == 1
    assert scenario.conversation.status == "waiting"
    scenario.converse("/continue")
    assert len(scenario.records(r.ModelResponded)) > 4


@pytest.mark.parametrize("reached", [reply("", ("read_file", {})), failed()], ids=["an answer", "one of no use"])
def test_a_model_that_was_reached_ends_the_count_of_tries(reached: ModelStep | ModelFailed) -> None:
    gone = failed("gone", retryable=True)
    scenario = answering(gone, gone, gone, reached, gone, reply("done"))
    for _ in range(4):
        retry(scenario)
    assert [(attempt, held) for attempt, _, held in retries(scenario)][2:] == [(3, False), (1, False)]
    assert scenario.records(r.RunEnded)[-1].outcome == "finished"


def test_agents_of_one_turn_that_share_a_dead_provider_are_reported_once_and_status_states_why() -> None:
    scenario = Scenario(
        lambda question: route("execute", "executor", "helper"),
        lambda conversation, call: failed("no server listens at 127.0.0.1:9", retryable=True),
        config=rules(limits=Limits(retry_delays=())),
    ).converse("build it")
    assert [held for *_, held in retries(scenario)] == [True, True]
    (reported,) = unreachable(scenario)
    assert "no server listens at 127.0.0.1:9" in reported
    scenario.user_writes("/status")
    assert "Executor: its model cannot be reached; the next try is in 300 s" in scenario.sent_texts()[-1]
