"""Answers that are of no use, and what failed calls cost: repaired, counted, never lost."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation
from tenex.core.effects import Key, ModelCall, Work
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelStep, Usage
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import WAITS, Scenario, reply, route, rules

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


def test_an_answer_of_no_use_is_asked_for_again_with_the_reason() -> None:
    scenario = answering(failed(), reply("It is built."))
    assert [ended.outcome for ended in scenario.records(r.RunEnded)] == ["finished"]
    (reprompted,) = scenario.records(r.ModelReprompted)
    assert "The answer was filtered. Answer again" in reprompted.text


def test_an_agent_whose_answers_stay_useless_fails_with_the_reason_and_all_calls_are_paid() -> None:
    scenario = answering(failed(usage=COST))
    ended = scenario.records(r.RunEnded)[0]
    assert (ended.outcome, ended.error) == ("failed", "The answer was filtered.")
    assert scenario.conversation.status == "waiting"
    routed = Usage(input_tokens=10, output_tokens=5)
    assert scenario.conversation.usage == COST + COST + COST + routed + routed


def test_what_an_answer_of_the_router_cost_is_counted_where_it_is_of_no_use() -> None:
    first = [failed(usage=COST)]
    scenario = Scenario(lambda question: first.pop() if first else WAITS, lambda conversation, call: reply("done"))
    scenario.converse("hello")
    assert scenario.conversation.usage.cost_usd == 0.5
    assert "filtered" in scenario.records(r.RouteRejected)[0].sentence


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


def test_an_answer_of_no_use_ends_the_count_of_tries() -> None:
    """The model was reached: the next fault of transport is the first again."""
    gone = failed("gone", retryable=True)
    scenario = answering(gone, gone, gone, failed(), gone, reply("done"))
    for _ in range(4):
        retry(scenario)
    assert [(record.attempt, record.on_hold) for record in scenario.records(r.RetryScheduled)][3:] == [(1, False)]


def test_a_held_run_states_why_and_when_it_goes_on() -> None:
    scenario = answering(failed("no server listens at 127.0.0.1:9", retryable=True), limits=Limits(retry_delays=()))
    assert "no server listens at 127.0.0.1:9" in scenario.sent_texts()[-1]
    scenario.user_writes("/status")
    assert "Executor: its model cannot be reached; the next try is in 300 s" in scenario.sent_texts()[-1]


def test_agents_of_one_turn_that_share_a_dead_provider_are_reported_once() -> None:
    scenario = Scenario(
        lambda question: route("execute", "executor", "helper"),
        lambda conversation, call: failed("nobody listens", retryable=True),
        config=rules(limits=Limits(retry_delays=())),
    ).converse("build it")
    assert len([record for record in scenario.records(r.RetryScheduled) if record.on_hold]) == 2
    assert len([text for text in scenario.sent_texts() if "cannot be reached" in text]) == 1


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
