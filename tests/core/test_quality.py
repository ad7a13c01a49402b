"""The quality gates: their full order, what meets one, what reopens them, and what never blocks."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import Key, Work
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    model_by_phase,
    refusals,
    remove_agent,
    reply,
    route,
    scenario_at,
)

BREAKS = ModelFailed(key=Key(Work.MODEL, 0), message="the model refused", retryable=False)


def verdict(word: str, **more: str) -> Any:
    """A verification that ends with this verdict."""
    return reply("", ("complete", {"response": f"I looked: {word}", "verdict": word, **more}))


def gates(scenario: Scenario) -> list[Phase | None]:
    """The gate each turn met by closing."""
    return [record.gate for record in scenario.records(r.TurnClosed)]


def test_the_gates_are_met_one_after_the_other_and_then_end_is_permitted() -> None:
    scenario = scenario_at(Phase.REFLECTION, Router(ENDS))
    assert gates(scenario) == [None, None, *QUALITY_PHASES]
    assert scenario.conversation.unmet_gates == ()
    scenario.settle()
    assert scenario.conversation.status == "ended"


def test_verification_with_issues_does_not_lead_to_chores_but_back_to_execute() -> None:
    router = Router(route("verification", "executor"), route("chores", "executor"), route("execute", "executor"), WAITS)
    issues = verdict("issues", issues="the button is dead")
    scenario = scenario_at(Phase.EXECUTE, router, model_by_phase(verification=[issues])).settle()
    assert "only with the verdict `verified`" in refusals(scenario)[0]
    assert scenario.phases()[-2:] == [Phase.VERIFICATION, Phase.EXECUTE]
    assert "the button is dead" in scenario.records(r.TurnOpened)[-1].handoff.summary


@pytest.mark.parametrize(
    ("phase", "executor", "helper", "is_met"),
    [
        (Phase.VERIFICATION, verdict("verified"), verdict("issues"), False),
        (Phase.VERIFICATION, verdict("verified"), BREAKS, True),
        (Phase.VERIFICATION, reply("it looks fine to me"), BREAKS, False),
        (Phase.CHORES, reply("clean"), BREAKS, True),
        (Phase.CHORES, BREAKS, BREAKS, False),
    ],
)
def test_what_two_agents_answer_meets_the_gate_or_leaves_it_open(
    phase: Phase, executor: Any, helper: Any, is_met: bool
) -> None:
    def answer(conversation: object, call: Any) -> Any:
        return helper if "helper" in call.run else executor

    order = [Phase.EXECUTE, *QUALITY_PHASES]
    before, after = order[order.index(phase) - 1], order[order.index(phase) + 1]
    router = Router(route(phase, "executor", "helper"), route(after, "executor"), ENDS, WAITS)
    scenario = scenario_at(before, router, model_by_phase(**{phase: answer})).settle()
    assert (phase in gates(scenario)) is is_met
    assert (scenario.conversation.phase is phase) is not is_met
    assert len(refusals(scenario)) >= 1
    check_idle(scenario)


def test_a_verdict_outside_verification_means_nothing() -> None:
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), ENDS, WAITS), model_by_phase(execute=[verdict("verified")])
    ).settle()
    assert scenario.records(r.RunEnded)[-1].verdict == ""
    assert gates(scenario)[-1] is None
    assert refusals(scenario)[0].startswith("END is refused")


def reflecting(*agents: str) -> Scenario:
    """A scenario at the end of chores, in which these agents took part."""
    scenario = scenario_at(Phase.CHORES, agents=agents)
    assert scenario.conversation.participants == agents
    return scenario


def test_no_one_reflects_twice_and_no_one_who_took_no_part() -> None:
    scenario = reflecting("executor", "helper")
    answers = (route("reflection", "planner"), route("reflection", "executor"), route(None, "executor", "helper"))
    scenario.router = Router(*answers, ENDS, route(None, "helper"), route(None, "helper"), ENDS)
    scenario.settle()
    assert "planner cannot reflect now" in refusals(scenario)[0]
    assert refusals(scenario)[1] == (
        "Each participant reflects once; executor cannot reflect now (still to reflect: helper)."
    )
    assert "open: reflection." in refusals(scenario)[2]
    assert "everybody has reflected; answer END" in refusals(scenario)[3]
    assert scenario.conversation.status == "ended"


def test_a_failed_reflection_counts_and_a_retry_does_not_repeat_it() -> None:
    scenario = reflecting("executor")
    scenario.worker = model_by_phase(reflection=[BREAKS])
    scenario.router = Router(route("reflection", "executor"), WAITS, ENDS)
    scenario.settle()
    assert gates(scenario)[-1] is Phase.REFLECTION
    scenario.converse("/retry")
    assert [record.phase for record in scenario.records(r.TurnOpened)].count(Phase.REFLECTION) == 1
    assert scenario.conversation.status == "ended"


def test_an_agent_that_leaves_while_the_others_have_reflected_does_not_block_the_end() -> None:
    scenario = reflecting("executor", "helper")
    scenario.router = Router(route("reflection", "executor"), WAITS)
    scenario.settle()
    remove_agent(scenario, "helper")
    router = scenario.router = Router(ENDS, route(None, "project-manager"), WAITS)
    scenario.converse("go on")
    assert (router.asked[0]["open_gates"], router.asked[0]["can_end"]) == ([], True)
    assert len(scenario.records(r.Ended)) == 1
    assert scenario.conversation.cycle == 2, "what the user wrote last opens the next cycle"


def test_a_plan_a_user_must_approve_waits_for_them_and_an_answer_given_before_approves_nothing() -> None:
    scenario = scenario_at(Phase.CHAT)
    gate_rules = dataclasses.replace(scenario.rules.gates, plan_approval="person")
    scenario.rules = dataclasses.replace(scenario.rules, gates=gate_rules)
    asks = reply("", ("ask", {"question": "Which database?"}))
    scenario.worker = model_by_phase(plan=[asks, reply("the plan: postgres")])
    scenario.router = Router(route("plan", "planner"), route("execute", "executor"), WAITS)
    scenario.settle()
    scenario.converse("postgres")
    assert "needs the person's approval" in refusals(scenario)[0]
    assert scenario.phases() == [Phase.PLAN]
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("good, do it")
    assert scenario.phases() == [Phase.PLAN, Phase.EXECUTE]
