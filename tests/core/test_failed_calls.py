"""Answers that are of no use, and what failed calls cost: repaired, counted, never lost."""

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation
from tenex.core.effects import Key, ModelCall, Work
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelStep, Note, Usage
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import Scenario, reply, rules

NO_KEY = Key(Work.MODEL, 0)
"""The scenario puts the real key in."""
COST = Usage(input_tokens=70, output_tokens=30, cost_usd=0.5)


def to_execute(question: dict[str, object]) -> dict[str, object]:
    """A router that lets the executor build, and then waits."""
    if question["turns"]:
        return {"agents": ["USER"], "reason": "the person is next"}
    return {"agents": ["executor"], "phase": "execute", "reason": "build it"}


def refused() -> ModelFailed:
    """What a content filter leaves."""
    return ModelFailed(key=NO_KEY, message="The answer was filtered.", retryable=False, usage=COST)


def test_an_answer_of_no_use_is_asked_for_again_with_the_reason() -> None:
    def worker(conversation: Conversation, call: ModelCall) -> ModelStep | ModelFailed:
        reported = [entry for entry in call.entries if isinstance(entry, Note) and "filtered" in entry.text]
        return reply("It is built.") if reported else refused()

    scenario = Scenario(to_execute, worker).converse("build it")
    assert [ended.outcome for ended in scenario.records(r.RunEnded)] == ["finished"]
    (reprompted,) = scenario.records(r.ModelReprompted)
    assert "The answer was filtered. Answer again" in reprompted.text


def test_an_agent_whose_answers_stay_useless_fails_with_the_reason_and_all_calls_are_paid() -> None:
    scenario = Scenario(to_execute, lambda conversation, call: refused()).converse("build it")
    ended = scenario.records(r.RunEnded)[0]
    assert (ended.outcome, ended.error) == ("failed", "The answer was filtered.")
    assert scenario.conversation.status == "waiting"
    routed = Usage(input_tokens=10, output_tokens=5)
    assert scenario.conversation.usage == COST + COST + COST + routed + routed


def test_what_a_failed_try_cost_is_counted_with_the_wait_for_the_next() -> None:
    answers: list[ModelStep | ModelFailed] = [
        ModelFailed(key=NO_KEY, message="cut off", retryable=True, usage=COST),
        reply("done"),
    ]
    scenario = Scenario(to_execute, lambda conversation, call: answers.pop(0)).converse("build it")
    scenario.fire("retry")
    scenario.settle()
    assert scenario.conversation.usage.input_tokens == 70 + 3 * 10
    assert scenario.conversation.usage.calls == 4


def test_what_an_answer_of_the_router_cost_is_counted_where_it_is_of_no_use() -> None:
    first = [refused()]
    scenario = Scenario(
        lambda question: first.pop() if first else to_execute(question), lambda conversation, call: reply("done")
    ).converse("hello")
    assert scenario.conversation.usage.cost_usd == 0.5
    assert "filtered" in scenario.records(r.RouteRejected)[0].sentence


def test_what_is_sent_carries_all_that_the_run_cost() -> None:
    """The tags of an answer, or of a failure, are what was paid for it, failed and refused calls included."""
    gone = ModelFailed(key=NO_KEY, message="cut off", retryable=True, usage=COST, model="big")
    for last, words in ((reply("done"), "done"), (refused(), "I could not finish: The answer was filtered.")):
        answers: list[ModelStep | ModelFailed] = [gone, refused(), refused(), last]
        scenario = Scenario(to_execute, lambda conversation, call: answers.pop(0))  # noqa: B023  played out within the loop
        scenario.converse("build it")
        scenario.fire("retry")
        scenario.settle()
        (sent,) = [record for record in scenario.records(r.MessageSent) if record.text == words]
        own = 10 + 5 if words == "done" else 100
        assert dict(tag for tag in sent.tags if len(tag) == 2)["llm-total-tokens"] == str(300 + own)


def test_a_failed_call_states_which_model_it_was() -> None:
    answers: list[ModelStep | ModelFailed] = [
        ModelFailed(key=NO_KEY, message="cut off", retryable=True, usage=COST, model="small"),
        ModelFailed(key=NO_KEY, message="filtered", retryable=False, usage=COST, model="big"),
        ModelFailed(key=NO_KEY, message="filtered", retryable=False, usage=COST, model="big"),
        ModelFailed(key=NO_KEY, message="filtered", retryable=False, usage=COST, model="last"),
    ]
    scenario = Scenario(to_execute, lambda conversation, call: answers.pop(0)).converse("build it")
    scenario.fire("retry")
    scenario.settle()
    assert [
        record.model for kind in (r.RetryScheduled, r.ModelReprompted, r.RunEnded) for record in scenario.records(kind)
    ] == ["small", "big", "big", "last"]


def test_an_answer_of_no_use_ends_the_count_of_tries() -> None:
    """The model was reached: the next fault of transport is the first again."""
    gone = ModelFailed(key=NO_KEY, message="gone", retryable=True)
    answers: list[ModelStep | ModelFailed] = [gone, gone, gone, refused(), gone, reply("done")]
    scenario = Scenario(to_execute, lambda conversation, call: answers.pop(0)).converse("build it")
    for _ in range(4):
        scenario.fire("retry")
        scenario.settle()
    assert [(record.attempt, record.on_hold) for record in scenario.records(r.RetryScheduled)][3:] == [(1, False)]


def test_a_held_run_states_why_and_when_it_goes_on() -> None:
    gone = ModelFailed(key=NO_KEY, message="no server listens at 127.0.0.1:9", retryable=True)
    scenario = Scenario(
        to_execute, lambda conversation, call: gone, config=rules(limits=Limits(retry_delays=()))
    ).converse("build it")
    assert "no server listens at 127.0.0.1:9" in scenario.sent_texts()[-1]
    scenario.user_writes("/status")
    assert "Executor: its model cannot be reached; the next try is in 300 s" in scenario.sent_texts()[-1]


@pytest.mark.parametrize("tool", ["write_file", "complete"])
def test_a_call_whose_arguments_cannot_be_used_is_refused_with_the_reason(tool: str) -> None:
    broken = CallRequest(id=CallId("b"), tool=tool, fault="The arguments of the call are no JSON.")

    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        steps = conversation.runs[call.run].steps
        return ModelStep(calls=(broken,), model="m") if steps == 0 else reply("done another way")

    scenario = Scenario(to_execute, worker).converse("build it")
    assert [refusal.sentence for refusal in scenario.records(r.ToolCallRejected)] == [
        "The arguments of the call are no JSON."
    ]
    assert not scenario.ran
    assert [ended.text for ended in scenario.records(r.RunEnded)] == ["done another way"]


def test_a_run_that_reaches_the_limit_of_the_cycle_ends_and_the_user_is_asked() -> None:
    """A run of fifty steps must not spend many times what a cycle may."""

    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        return reply("", ("read_file", {"path": "a"}))

    again = {"agents": ["executor"], "phase": "execute", "reason": "build it"}
    scenario = Scenario(
        lambda question: again if question["phase"] == "chat" else {"agents": ["executor"], "reason": "go on"},
        worker,
        config=rules(limits=Limits(tokens_per_cycle=60)),
    ).converse("build it")
    assert len(scenario.records(r.ModelResponded)) == 4
    assert [limit.limit for limit in scenario.records(r.LimitReached)] == ["tokens_per_cycle"]
    assert scenario.conversation.status == "waiting"
    scenario.converse("/continue")
    assert len(scenario.records(r.ModelResponded)) > 4


def test_agents_of_one_turn_that_share_a_dead_provider_are_reported_once() -> None:
    gone = ModelFailed(key=NO_KEY, message="nobody listens", retryable=True)

    def both(question: dict[str, object]) -> dict[str, object]:
        return {"agents": ["executor", "helper"], "phase": "execute", "reason": "build it"}

    scenario = Scenario(both, lambda conversation, call: gone, config=rules(limits=Limits(retry_delays=()))).converse(
        "build it"
    )
    assert len([retry for retry in scenario.records(r.RetryScheduled) if retry.on_hold]) == 2
    assert len([text for text in scenario.sent_texts() if "cannot be reached" in text]) == 1
