"""What conversations have taken: to the token and the cent what `conversation.json` reply, and added up by hand."""

import dataclasses
import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import Key, Work
from tenex.core.functions.undecided import EvaluationRequested
from tenex.core.ids import Millis
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed, TimerFired
from tenex.core.totals.costs import cost_of
from tenex.store.stats import Spending, Stats, as_json, total
from tenex.store.view import render
from tenex.store.view_json import usage_json
from tests.fakes.scenario import ID, Scenario, diligent, longest_way, policy, reply
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents
from tests.kits.lived import lived


@pytest.mark.parametrize("seed", range(6))
def test_the_sums_are_exactly_those_of_the_view(seed: int) -> None:
    scenario = lived(seed)
    kinds = {type(record) for record in scenario.records() if cost_of(record).calls}
    assert kinds == {r.ModelResponded, r.Routed, r.RouteRejected, r.ModelReprompted, r.RetryScheduled}, (
        "some way of paying is not tried"
    )
    assert scenario.crashed == 1
    view = json.loads(render(scenario.conversation))
    stats = Stats.of(ID, scenario.records())
    assert usage_json(stats.usage) == view["usage"]
    assert stats.usage.cost_usd
    for phase, metrics in view["phaseMetrics"].items():
        found = stats.phases[Phase(phase)]
        assert usage_json(found.spending.usage) == metrics["usage"], phase
        assert (found.visits, found.duration) == (metrics["visits"], metrics["durationMs"]), phase
    assert set(stats.phases) == set(map(Phase, view["phaseMetrics"]))
    for by in (stats.models, stats.agents):
        tokens = sum(spending.usage.input_tokens for spending in by.values())
        assert (tokens, sum(spending.usage.calls for spending in by.values())) == (
            stats.usage.input_tokens,
            stats.usage.calls,
        )
        assert sum(spending.usage.cost_usd or 0 for spending in by.values()) == pytest.approx(stats.usage.cost_usd)
    assert sum(found.duration for found in stats.phases.values()) == stats.duration
    assert sum(found.turns for found in stats.phases.values()) == stats.turns == len(scenario.records(r.TurnOpened))


def test_the_sums_of_all_are_the_sums_of_each() -> None:
    each = [Stats.of(ID, lived(seed).records()) for seed in range(3)]
    both = total(each)
    assert (both.conversations, both.working) == (3, sum(stats.working for stats in each))
    assert both.spending.unpriced == sum(stats.spending.unpriced for stats in each) > 0
    assert both.models["m:1"].usage.calls == sum(stats.models["m:1"].usage.calls for stats in each)
    assert total(each) == both, "adding up must not change what is added"
    assert total([Stats.of(ID, [])]) == Stats(conversations=1)


def test_time_begins_with_the_first_record_whatever_that_is() -> None:
    """A mission whose `begin` is asked first has a record before the conversation starts; its time is not 1970's."""
    scenario = Scenario(longest_way, diligent)
    scenario.converse("hello")
    written = scenario.records()
    first = written[0]
    asked = EvaluationRequested(seq=1, at=Millis(first.at - 5), signal=TimerFired(key=Key(Work.TIMER, 1)))
    later = [dataclasses.replace(record, seq=record.seq + 1) for record in written]
    whole = Stats.of(ID, written)
    stats = Stats.of(ID, [asked, *later])
    assert whole.duration <= stats.duration <= whole.duration + 5
    assert whole.working <= stats.working <= whole.working + 5


def test_who_and_what_the_money_went_to() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="busy", retryable=True, usage=Usage(input_tokens=7, cost_usd=0.5)),  # type: ignore[arg-type]
        dataclasses.replace(reply("done"), usage=Usage(input_tokens=11, output_tokens=2, cost_usd=0.25), model="m:1"),
    ]
    routes: list[Any] = ["no JSON", {"agents": ["planner"], "reason": "x"}]
    scenario = Scenario(lambda _question: routes.pop(0), lambda _c, _call: answers.pop(0))
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("retry")
    stats = Stats.of(ID, scenario.records())
    assert (stats.rejections, stats.failures, stats.useless) == (1, 1, 0)
    assert stats.agents["orchestrator"].usage == Usage(input_tokens=20, output_tokens=10, calls=2)
    assert stats.agents["planner"].usage == Usage(input_tokens=18, output_tokens=2, cost_usd=0.75, calls=2)
    assert stats.models == {
        "router": Spending(usage=Usage(input_tokens=20, output_tokens=10, calls=2), unpriced=2),
        "unknown": Spending(usage=Usage(input_tokens=7, cost_usd=0.5)),
        "m:1": Spending(usage=Usage(input_tokens=11, output_tokens=2, cost_usd=0.25)),
    }
    assert list(as_json(stats)["models"]) == ["unknown", "m:1", "router"], "the dearest first"


def test_a_called_sub_agent_is_a_tool_call_whose_cost_is_its_own() -> None:
    """A sub-agent that failed is a call that failed. Of its useless answers two are asked again, the third ends it."""
    useless = ModelFailed(key=None, message="filtered", retryable=False, usage=Usage(input_tokens=7, cost_usd=0.5))  # type: ignore[arg-type]
    calls = (*calls_to("helper", "planner"), ("no_such_tool", {}))
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        model_by_agent(executor=[reply("", *calls), "built"], planner=[useless] * 3),
        config=with_subagents(policy(), executor=["helper", "planner"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    stats = Stats.of(ID, scenario.records())
    assert (stats.tool_calls, stats.tool_failures, stats.tool_refusals, stats.turns) == (2, 1, 1, 1)
    assert {name: spending.usage.calls for name, spending in stats.agents.items()} == {
        "orchestrator": 2,
        "executor": 2,
        "helper": 1,
        "planner": 3,
    }
    assert stats.useless == 3
    assert stats.agents["planner"].usage == Usage(input_tokens=21, cost_usd=1.5, calls=3)
    assert stats.usage == scenario.conversation.totals.usage
