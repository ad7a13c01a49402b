"""Faults of transport are tried again and reported once; agents that repeat themselves are stopped."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.effects import Effect, Key, ModelCall, Route, Timer, ToolCall, Work
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import ModelFailed, Opened, Signal, ToolReturned
from tenex.workflows.speakers import Always, StayTarget, Transition, TransitionGraph
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    model_by_phase,
    one_turn,
    policy,
    remove_agent,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.fakes.workflows import started
from tests.kits.retries import broken, down, fire

DELAYS = Limits().retry_delays
HOLD = Limits().hold_for


def retries(scenario: Scenario) -> list[tuple[int, int, bool]]:
    """(attempt, delay, held) of every retry."""
    return [(record.attempt, record.due - record.at, record.on_hold) for record in scenario.records(r.RetryScheduled)]


def unreachable(scenario: Scenario) -> list[str]:
    """The notices about it."""
    return [text for text in scenario.sent_texts() if "cannot be used" in text]


@pytest.mark.parametrize("part", ["retry", "route"])
def test_delays_come_from_the_table_and_then_the_work_is_held(part: str) -> None:
    scenario = fire(broken(part, times=6), part, times=5)
    expected = [*((n + 1, delay, False) for n, delay in enumerate(DELAYS)), *((n, HOLD, True) for n in (4, 5, 6))]
    assert retries(scenario) == expected
    assert len(unreachable(scenario)) == 1, "reported once"
    check_idle(fire(scenario, part))
    assert scenario.conversation.cycle.waiting_for == "user"


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
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
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


@pytest.mark.parametrize("part", ["retry", "route"])
@pytest.mark.parametrize("by", ["/continue", "restart"])
def test_what_only_an_operator_can_mend_is_reported_once_and_waits_for_them(part: str, by: str) -> None:
    """A wrong key is no outage: no try succeeds before somebody has acted."""
    refused = ModelFailed(
        key=Key(Work.MODEL, 0), message="it takes no such key: correct it", retryable=True, needs_operator=True
    )
    left = iter([refused])
    router = Router(route("execute", "executor"), WAITS) if part == "retry" else lambda _: next(left, WAITS)
    worker = model_by_phase(execute=lambda *_: next(left, reply("done")))
    scenario = scenario_at(Phase.CHAT, router, worker).settle()
    reported = [text for text in scenario.sent_texts() if "cannot be used" in text]
    assert len(reported) == 1
    assert reported[0].endswith("correct it. I hold the work until then; after that, send `/continue`.")
    assert in_flight(scenario) == []
    (timer,) = (effect for effect in pending(scenario.conversation).values() if isinstance(effect, Timer))
    assert timer.due - scenario.now > 50 * 365 * 24 * 3_600_000, (
        "it waits, and is still work that a restart goes on with"
    )
    if by == "restart":
        scenario.handle(Opened())
    else:
        scenario.user_writes("/continue")
    scenario.settle()
    assert scenario.conversation.cycle.waiting_for == "user"
    check_idle(scenario)


COST = Usage(input_tokens=70, output_tokens=30, cost_usd=0.5)


def failed(message: str = "The answer was filtered.", *, retryable: bool = False, **more: Any) -> ModelFailed:
    """What a content filter leaves, or a fault of transport; the scenario puts the real key in."""
    return ModelFailed(key=Key(Work.MODEL, 0), message=message, retryable=retryable, **more)


def answering(*answers: ModelStep | ModelFailed, limits: Limits | None = None) -> Scenario:
    """A scenario in which the executor's model has given these answers, the last one again and again."""
    worker = Router(*answers)
    config = policy(limits=limits)
    return Scenario(one_turn("executor", "execute"), lambda *_: worker({}), config=config).converse("build it")


def test_an_agent_whose_answers_stay_useless_fails_with_the_reason_and_all_calls_are_paid() -> None:
    scenario = answering(failed(usage=COST))
    ended = scenario.records(r.RunEnded)[0]
    assert (ended.outcome, ended.error) == ("failed", "The answer was filtered.")
    assert all("The answer was filtered. Answer again" in one.text for one in scenario.records(r.ModelReprompted))
    assert scenario.conversation.cycle.status == "waiting"
    routed = Usage(input_tokens=10, output_tokens=5)
    assert scenario.conversation.totals.usage == COST + COST + COST + routed + routed


@pytest.mark.parametrize(
    ("last", "words", "cost"),
    [(reply("done"), "done", 15), (failed(usage=COST, model="last"), "I could not finish: The answer was", 100)],
)
def test_what_is_sent_carries_all_that_the_run_cost_and_each_record_its_model(last: Any, words: str, cost: int) -> None:
    """The tags of an answer, or of a failure, are what was paid for it, failed and refused calls included."""
    gone = failed("cut off", retryable=True, usage=COST, model="small")
    refused = failed(usage=COST, model="big")
    scenario = fire(answering(gone, refused, refused, last), "retry")
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
    config, reads = policy(limits=Limits(tokens_per_cycle=60)), reply("", ("read_file", {"path": "a"}))
    scenario = Scenario(Router(route("execute", "executor")), lambda *_: reads, config=config).converse("build it")
    assert len(scenario.records(r.ModelResponded)) == 4
    assert [limit.limit for limit in scenario.records(r.LimitReached)] == ["tokens_per_cycle"]
    assert sum("This work has used" in text for text in scenario.sent_texts()) == 1
    assert scenario.conversation.cycle.status == "waiting"
    scenario.converse("/continue")
    assert len(scenario.records(r.ModelResponded)) > 4


@pytest.mark.parametrize("reached", [reply("", ("read_file", {})), failed()], ids=["an answer", "one of no use"])
def test_a_model_that_was_reached_ends_the_count_of_tries(reached: ModelStep | ModelFailed) -> None:
    gone = failed("gone", retryable=True)
    scenario = answering(gone, gone, gone, reached, gone, reply("done"))
    fire(scenario, "retry", times=4)
    assert [(attempt, held) for attempt, _, held in retries(scenario)][2:] == [(3, False), (1, False)]
    assert scenario.records(r.RunEnded)[-1].outcome == "finished"


def test_agents_of_one_turn_that_share_a_dead_provider_are_reported_once_and_status_states_why() -> None:
    scenario = Scenario(
        lambda question: route("execute", "executor", "helper"),
        lambda conversation, call: failed("no server listens at 127.0.0.1:9", retryable=True),
        config=policy(limits=Limits(retry_delays=())),
    ).converse("build it")
    assert [held for *_, held in retries(scenario)] == [True, True]
    (reported,) = unreachable(scenario)
    assert "no server listens at 127.0.0.1:9" in reported
    scenario.user_writes("/status")
    assert "Executor: its model cannot be used; the next try is in 300 s" in scenario.sent_texts()[-1]


READS = reply("", ("read_file", {"path": "a"}))
READS_B = reply("", ("read_file", {"path": "b"}))
REFUSED = reply("", ("deploy", {"to": "production"}))
WRITES = reply("", ("write_file", {"path": "a"}))
CHECKS = reply("", ("check", {}))
DONE = reply("done")


class WithResults(Scenario):
    """A scenario whose tools give these results: one for each turn in execute, or a new one for each call."""

    results: tuple[str, ...] = ()

    def perform(self, effect: Effect) -> Signal:
        if not isinstance(effect, ToolCall):
            return super().perform(effect)
        if not self.results:
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content=f"seen at {effect.key.seq}"))
        turns = sum(record.phase is Phase.EXECUTE for record in self.records(r.TurnOpened))
        content = self.results[(turns - 1) % len(self.results)]
        return ToolReturned(key=effect.key, result=ToolResult(ok=False, content=content))


def worked(*steps: Any, scenario: type[Scenario] = Scenario) -> Scenario:
    """A scenario in which the executor has answered with these steps in execute, until all came to rest."""
    held = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=list(steps)))
    held.__class__ = scenario
    held.settle()
    check_idle(held)
    return held


def outcome(scenario: Scenario) -> tuple[str, int]:
    """How the executor's part in execute ended, and after how many steps of its model."""
    ended = next(record for record in scenario.records(r.RunEnded) if record.run == "turn-2.executor")
    return ended.outcome, sum(record.run == ended.run for record in scenario.records(r.ModelResponded))


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        ([READS], 3),
        ([REFUSED], 3),
        ([WRITES], 3),
        ([READS, READS_B] * 3, 5),
        ([REFUSED, READS, REFUSED, READS_B, REFUSED, CHECKS], 5),
    ],
)
def test_the_third_call_with_the_same_result_ends_the_run(steps: list[Any], after: int) -> None:
    assert outcome(worked(*steps, DONE) if len(steps) > 1 else worked(*steps)) == ("failed", after)


EDITS = [("write_file", {"path": "a", "content": str(number)}) for number in range(5)]


@pytest.mark.parametrize(
    "steps",
    [
        [step for edit in EDITS for step in (reply("", edit), CHECKS)],
        [reply("", edit, ("check", {})) for edit in EDITS],
        [reply("", *[("read_file", {"path": "a"})] * 5)],
    ],
    ids=["a test that still fails after each edit", "an edit and its test in one answer", "one answer"],
)
def test_what_follows_a_change_or_is_in_one_answer_is_no_loop(steps: list[Any]) -> None:
    assert outcome(worked(*steps, DONE))[0] == "finished"


def test_a_call_whose_result_changes_is_no_loop() -> None:
    assert outcome(worked(*[READS] * 5, DONE, scenario=WithResults))[0] == "finished"


def test_the_same_question_answered_the_same_way_by_a_user_is_no_loop() -> None:
    asks = reply("", ("ask", {"question": "Rock, paper or scissors?"}))
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[*[asks] * 4, DONE])
    )
    for _ in range(4):
        scenario.settle()
        scenario.user_writes("rock")
    assert outcome(scenario.settle())[0] == "finished"


def failing(*results: str) -> Scenario:
    """A scenario whose router always names the executor, and whose executor loops on calls with such results."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor")), model_by_phase(execute=[READS]))
    scenario.__class__ = type("Failing", (WithResults,), {"results": results})
    return scenario.settle()


def failed_runs(scenario: Scenario) -> list[r.RunEnded]:
    return [record for record in scenario.records(r.RunEnded) if record.outcome == "failed"]


def test_the_same_failure_twice_stops_and_a_user_who_goes_on_gives_it_two_more_tries() -> None:
    scenario = failing("no such file")
    assert len(failed_runs(scenario)) == 2
    assert [record.limit for record in scenario.records(r.LimitReached)] == ["same_failure"]
    assert scenario.conversation.cycle.waiting_for == "limit"
    assert scenario.sent_texts()[-1] == (
        "Executor failed 2 times for the same reason, so I have stopped: it called read_file 3 times with the same "
        "arguments and got the same result each time: no such file. Remove the cause, or ask for it in another way. "
        "Write `/continue` to go on."
    )
    check_idle(scenario)
    assert len(failed_runs(scenario.converse("/continue"))) == 4
    assert len(failed_runs(scenario.converse("try the other folder"))) == 6


@pytest.mark.parametrize(
    ("results", "failed"),
    [
        (("error 500 in request req_1a2", "error 502 in request req_9f3"), 2),
        (("no such file", "permission denied", "disk full"), 4),  # the first comes again with the fourth
    ],
)
def test_numbers_and_ids_do_not_make_another_failure_and_other_words_do(results: tuple[str, ...], failed: int) -> None:
    assert len(failed_runs(failing(*results))) == failed


def test_a_workflow_stops_at_the_same_failure_too() -> None:
    scenario = started(TransitionGraph("writer", [Transition(Always(), StayTarget())], max_turns=20))
    scenario.worker = lambda _conversation, _call: READS
    scenario.settle()
    assert len(failed_runs(scenario)) == 2
    assert scenario.conversation.cycle.waiting_for == "limit"
