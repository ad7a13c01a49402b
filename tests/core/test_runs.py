"""An agent at work: whatever its model answers, its part in the turn is counted once and comes to an end."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, Limits
from tenex.core.decide.runs import NUDGES
from tenex.core.effects import Key, ModelCall, Timer, ToolCall
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Note
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.signals import ModelAnswered, ModelFailed
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    model_by_phase,
    reply,
    route,
    rules,
    scenario_at,
    step_until,
)


def at_work(
    *steps: Any, phase: str = "execute", agents: tuple[str, ...] = ("executor",), limits: Limits | None = None
) -> Scenario:
    """A scenario in which a turn in execute has just been opened, with these answers of the agents' models to come."""
    scenario = scenario_at(
        Phase.CHAT,
        Router(route(phase, *agents), WAITS),
        model_by_phase(**{phase: list(steps)}),
        config=rules(limits=limits),
    )
    step_until(scenario, lambda it: it.conversation.turn is not None)
    return scenario


def ended(scenario: Scenario) -> list[r.RunEnded]:
    """Every completion of the turn in execute."""
    return [record for record in scenario.records(r.RunEnded) if record.run.startswith("turn-2.")]


def results(scenario: Scenario) -> list[tuple[str, bool, str]]:
    """What the calls gave back, refusals included, in order."""
    found: list[tuple[str, bool, str]] = []
    for decision in scenario.journal:
        for record in decision:
            if isinstance(record, r.ToolCallCompleted):
                found.append((record.call, record.ok, record.content))
            elif isinstance(record, r.ToolCallRejected):
                found.append((record.call, False, record.sentence))
    return found


def finish(scenario: Scenario, key: Key) -> list[r.Record]:
    """Do the work of that key."""
    effect = scenario.running.pop(key)
    return scenario.handle(scenario.perform(effect))


HOUR = 3_600_000
FAST = Limits(default_expectation=Expectation(warn_after=60_000, close_after=120_000))


def timers(scenario: Scenario) -> dict[str, int]:
    """What is due, by kind."""
    return {effect.key.part: effect.due for effect in pending(scenario.conversation).values() if hasattr(effect, "due")}


def test_a_slow_agent_is_mentioned_once_and_then_given_up() -> None:
    scenario = at_work(reply("", ("write_file", {"path": "a"})), limits=FAST)
    opened = scenario.records(r.TurnOpened)[-1].at
    assert timers(scenario)["warn"] == opened + 60_000
    assert next(iter(scenario.conversation.runs.values())).close_at == opened + 120_000
    scenario.fire("warn")
    assert [record.run for record in scenario.records(r.RunWarned)] == ["turn-2.executor"]
    assert "Executor is still working; I give it 1 more min." in scenario.sent_texts()[-1]
    assert "warn" not in timers(scenario), "once"
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    scenario.fire("close")
    assert "I could not finish: no answer within 2 min" in scenario.sent_texts()[-1]
    assert not any(isinstance(effect, ModelCall) for effect in in_flight(scenario)), "what ran is no longer wanted"
    scenario.settle()
    check_idle(scenario)


def answers(scenario: Scenario, step: ModelStep, *, at: int) -> None:
    """The model that is asked answers at that time."""
    (call,) = (effect for effect in scenario.running.values() if isinstance(effect, ModelCall))
    scenario.running.pop(call.key)
    scenario.now = Millis(at)
    scenario.handle(ModelAnswered(key=call.key, step=step))
    scenario.reconcile()


def test_a_model_call_has_a_bound_of_its_own_and_its_answer_counts_after_the_deadline() -> None:
    """It is paid for, and the user waits for it."""
    scenario = at_work(reply("never"), limits=FAST)
    close_at = next(iter(scenario.conversation.runs.values())).close_at
    assert "close" not in timers(scenario)
    answers(scenario, reply("It is built."), at=close_at + 5_000)
    assert [done.outcome for done in ended(scenario)] == ["finished"]


def test_after_the_deadline_no_tool_is_begun() -> None:
    scenario = at_work(reply("never"), limits=FAST)
    close_at = next(iter(scenario.conversation.runs.values())).close_at
    answers(scenario, reply("", ("write_file", {"path": "a"}), ("read_file", {"path": "b"})), at=close_at + 5_000)
    assert [done.outcome for done in ended(scenario)] == ["timed_out"]
    assert {content for _, _, content in results(scenario)[-2:]} == {"not run: the time is up"}
    assert not [
        permitted for permitted in scenario.records(r.ToolCallStarted) if permitted.run == ended(scenario)[-1].run
    ]
    assert "I could not finish: no answer within 2 min" in scenario.sent_texts()[-1]


@pytest.mark.parametrize("retryable", [None, True, False], ids=["answered", "to be tried again", "refused"])
def test_time_in_the_queue_of_a_busy_provider_counts_against_no_deadline(retryable: bool | None) -> None:
    """Twenty conversations wait for a slow provider: an hour in the queue is no one's work."""
    scenario = at_work(reply("never"), limits=FAST)
    began = next(iter(scenario.conversation.runs.values()))
    scenario.now = Millis(began.close_at - 60_000 + HOUR)
    if retryable is None:
        step = dataclasses.replace(reply("", ("write_file", {"path": "a"})), queued=HOUR)
        answers(scenario, step, at=scenario.now)
    else:
        (call,) = in_flight(scenario)
        scenario.handle(ModelFailed(key=call.key, message="no", retryable=retryable, queued=HOUR))
    run = next(iter(scenario.conversation.runs.values()))
    assert (run.warn_at, run.close_at) == (began.warn_at + HOUR, began.close_at + HOUR)
    due = [e.due for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "warn"]
    assert due == ([] if retryable else [run.warn_at]), "the timer that ran before was replaced"


def test_time_parked_on_one_question_and_then_another_does_not_count() -> None:
    both = reply("", ("ask", {"question": "Which?"}), ("ask", {"question": "When?"}))
    scenario = at_work(both, reply("done"), limits=FAST)
    scenario.step()
    first, second = scenario.records(r.MessageSent)[-2:]
    assert not set(timers(scenario)) & {"warn", "close"}, "no deadline runs while it waits for the user"
    scenario.now = Millis(scenario.now + HOUR)
    scenario.user_writes("that one", reply_to=first.events[0].id)
    assert scenario.conversation.is_parked
    scenario.now = Millis(scenario.now + HOUR)
    scenario.user_writes("now", reply_to=second.events[0].id)
    assert timers(scenario)["warn"] > scenario.now + 30_000, "an hour of waiting is no hour of work"


@pytest.mark.parametrize(
    "steps",
    [
        [reply("", ("read_file", {"path": "a"})), reply("", ("read_file", {"path": "b"}))],
        [reply("", ("complete", {"response": 7}))],
        [reply("", ("complete", {"response": "x", "issues": {}}))],
    ],
)
def test_an_agent_that_never_completes_rightly_meets_the_limit_of_steps(steps: list[ModelStep]) -> None:
    scenario = at_work(*steps, limits=Limits(steps_per_run=2)).settle(most=200)
    (done,) = ended(scenario)
    assert (done.outcome, done.error) == ("failed", "it took 2 steps, which is the limit")
    assert len([record for record in scenario.records(r.ModelResponded) if record.run == done.run]) == 2
    assert len(steps) == 1 or results(scenario)[-1][2] == "not run: the limit of steps is reached"
    check_idle(scenario)


def test_an_empty_answer_is_reminded_twice_and_then_fails() -> None:
    scenario = at_work(reply("\n\t ")).settle()
    assert [record.text for record in scenario.records(r.ModelReprompted)] == [
        "Your answer is empty. Say what the person should read."
    ] * NUDGES
    assert (ended(scenario)[0].outcome, ended(scenario)[0].error) == ("failed", "its model gave empty answers")
    check_idle(scenario)


def test_a_reminded_model_sees_the_reminder_and_may_repair_it() -> None:
    seen: list[Any] = []

    def repairing(conversation: Any, call: ModelCall) -> ModelStep:
        seen.append(call.entries[-1])
        return reply("" if len(seen) == 1 else "here it is")

    scenario = at_work()
    scenario.worker = model_by_phase(execute=repairing)
    scenario.settle()
    assert isinstance(seen[1], Note)
    assert "empty" in seen[1].text
    assert ended(scenario)[0].text == "here it is"


@pytest.mark.parametrize("word", [None, "VERIFIED", ["verified"]])
def test_a_verdict_that_is_none_is_refused_and_an_answer_without_one_is_at_last_taken_as_it_is(word: Any) -> None:
    steps = [reply("", ("complete", {"response": "x", "verdict": word})), reply("fine")]
    scenario = scenario_at(
        Phase.EXECUTE, Router(route("verification", "executor"), WAITS), model_by_phase(verification=steps)
    ).settle()
    assert "needs `verdict`" in scenario.records(r.ToolCallRejected)[0].sentence
    assert len(scenario.records(r.ModelReprompted)) == NUDGES
    last = scenario.records(r.RunEnded)[-1]
    assert (last.outcome, last.text, last.verdict) == ("finished", "fine", "")
