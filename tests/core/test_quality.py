"""The quality gates: their full order, what meets one, what reopens them, and what never blocks."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.effects import ToolCall
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    model_by_phase,
    reply,
    route,
    scenario_at,
    step_until,
)

from .test_router import DUMMY, refusals

BREAKS = ModelFailed(key=DUMMY, message="the model refused", retryable=False)


def verdict(word: str, **more: str) -> list[object]:
    """A verification that ends with this verdict."""
    return [reply("", ("complete", {"response": f"I looked: {word}", "verdict": word, **more}))]


def gates(scenario: Scenario) -> list[Phase | None]:
    """The gate each turn met by closing."""
    return [record.gate for record in scenario.records(r.TurnClosed)]


def test_the_gates_are_met_one_after_the_other_and_then_end_is_permitted() -> None:
    scenario = scenario_at(Phase.REFLECTION, Router(ENDS))
    assert gates(scenario) == [None, None, *QUALITY_PHASES]
    assert scenario.conversation.unmet_gates == ()
    scenario.settle()
    assert scenario.conversation.status == "ended"


# ---- verification -------------------------------------------------------------------------------------------------


def test_verification_with_issues_does_not_lead_to_chores_but_back_to_execute() -> None:
    router = Router(route("verification", "executor"), route("chores", "executor"), route("execute", "executor"), WAITS)
    scenario = scenario_at(
        Phase.EXECUTE, router, model_by_phase(verification=verdict("issues", issues="the button is dead"))
    ).settle()
    assert "only with the verdict `verified`" in refusals(scenario)[0]
    assert scenario.phases()[-2:] == [Phase.VERIFICATION, Phase.EXECUTE]
    assert "the button is dead" in scenario.records(r.TurnOpened)[-1].handoff.summary


def test_one_agent_that_finds_issues_keeps_the_gate_open_whatever_another_finds() -> None:
    def judge(conversation: object, call: object) -> object:
        word = "issues" if "helper" in call.run else "verified"  # type: ignore[attr-defined]
        return verdict(word)[0]

    router = Router(route("verification", "executor", "helper"), route("chores", "executor"), WAITS)
    scenario = scenario_at(Phase.EXECUTE, router, model_by_phase(verification=judge)).settle()
    assert gates(scenario)[-1] is None
    assert scenario.conversation.phase is Phase.VERIFICATION


def test_a_verified_of_one_counts_although_another_failed() -> None:
    def judge(conversation: object, call: object) -> object:
        return BREAKS if "helper" in call.run else verdict("verified")[0]  # type: ignore[attr-defined]

    scenario = scenario_at(
        Phase.EXECUTE, Router(route("verification", "executor", "helper"), WAITS), model_by_phase(verification=judge)
    ).settle()
    assert gates(scenario)[-1] is Phase.VERIFICATION


@pytest.mark.parametrize("answer", [BREAKS, reply("it looks fine to me")], ids=["failed", "no verdict"])
def test_a_verification_without_a_verdict_leaves_the_gate_open(answer: object) -> None:
    router = Router(route("verification", "executor"), route("chores", "executor"), ENDS, WAITS)
    scenario = scenario_at(Phase.EXECUTE, router, model_by_phase(verification=[answer])).settle()
    assert gates(scenario)[-1] is None
    assert len(refusals(scenario)) == 2
    check_idle(scenario)


def test_a_verification_that_timed_out_leaves_the_gate_open() -> None:
    scenario = scenario_at(
        Phase.EXECUTE,
        Router(route("verification", "executor"), WAITS),
        model_by_phase(verification=[reply("", ("check", {}))]),
    )
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    scenario.fire("close")
    assert gates(scenario)[-1] is None
    assert scenario.conversation.turns[-1].completions[0].outcome == "timed_out"
    scenario.settle()
    check_idle(scenario)


def test_someone_may_verify_again() -> None:
    router = Router(route("verification", "executor"), route(None, "helper"), route("chores", "executor"), WAITS)
    answers = iter(["issues", "verified"])
    scenario = scenario_at(
        Phase.EXECUTE, router, model_by_phase(verification=lambda *_: verdict(next(answers))[0])
    ).settle()
    assert gates(scenario)[-3:] == [None, Phase.VERIFICATION, Phase.CHORES]


def test_a_verdict_outside_verification_means_nothing() -> None:
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), ENDS, WAITS), model_by_phase(execute=verdict("verified"))
    ).settle()
    assert scenario.records(r.RunEnded)[-1].verdict == ""
    assert gates(scenario)[-1] is None
    assert refusals(scenario)[0].startswith("END is refused")


# ---- chores -------------------------------------------------------------------------------------------------------


def test_chores_no_one_finished_are_not_done() -> None:
    router = Router(route("chores", "executor"), route("reflection", "executor"), WAITS)
    scenario = scenario_at(Phase.VERIFICATION, router, model_by_phase(chores=[BREAKS])).settle()
    assert refusals(scenario) == ["The chores have not been done: no agent has finished a turn in this phase."]


def test_chores_one_of_two_finished_are_done() -> None:
    def sweep(conversation: object, call: object) -> object:
        return BREAKS if "helper" in call.run else reply("clean")  # type: ignore[attr-defined]

    scenario = scenario_at(
        Phase.VERIFICATION, Router(route("chores", "executor", "helper"), WAITS), model_by_phase(chores=sweep)
    ).settle()
    assert gates(scenario)[-1] is Phase.CHORES


def test_stopped_chores_are_not_done() -> None:
    scenario = scenario_at(Phase.VERIFICATION, Router(route("chores", "executor"), WAITS))
    step_until(scenario, lambda it: it.conversation.turn is not None)
    scenario.user_writes("/stop")
    assert gates(scenario)[-1] is None


# ---- a new execute turn -------------------------------------------------------------------------------------------


def test_a_new_execute_turn_reopens_all_gates() -> None:
    scenario = scenario_at(Phase.VERIFICATION, Router(route("execute", "executor"), ENDS, WAITS))
    assert scenario.conversation.gates_met == {Phase.VERIFICATION}
    scenario.settle()
    assert "open: verification, chores, reflection." in refusals(scenario)[0]


def test_work_in_a_later_phase_reopens_nothing() -> None:
    scenario = scenario_at(Phase.CHORES, Router(route(None, "helper"), WAITS)).settle()
    assert scenario.conversation.gates_met == {Phase.VERIFICATION, Phase.CHORES}


# ---- reflection ---------------------------------------------------------------------------------------------------


def reflecting(*agents: str) -> Scenario:
    """A scenario at the end of chores, in which these agents took part."""
    scenario = scenario_at(Phase.CHORES, agents=agents)
    assert scenario.conversation.participants == agents
    return scenario


def test_everybody_who_took_part_reflects_before_the_end() -> None:
    scenario = reflecting("executor", "helper")
    scenario.router = Router(route("reflection", "executor"), ENDS, route(None, "helper"), ENDS)
    scenario.settle()
    assert "open: reflection." in refusals(scenario)[0]
    assert scenario.conversation.status == "ended"
    assert scenario.conversation.reflected == {"executor", "helper"}


def test_no_one_reflects_twice() -> None:
    scenario = reflecting("executor", "helper")
    scenario.router = Router(
        route("reflection", "executor"), route(None, "executor", "helper"), route(None, "helper"), ENDS
    )
    scenario.settle()
    sentence = "Each participant reflects once; executor cannot reflect now (still to reflect: helper)."
    assert refusals(scenario) == [sentence]


def test_one_who_took_no_part_does_not_reflect() -> None:
    scenario = reflecting("executor")
    scenario.router = Router(
        route("reflection", "planner"), route("reflection", "executor"), route(None, "executor"), ENDS
    )
    scenario.settle()
    assert "planner cannot reflect now" in refusals(scenario)[0]
    assert "everybody has reflected; answer END" in refusals(scenario)[1]


def test_a_failed_reflection_counts_and_is_not_repeated() -> None:
    scenario = reflecting("executor", "helper")
    scenario.worker = model_by_phase(reflection=[BREAKS])
    scenario.router = Router(route("reflection", "executor", "helper"), ENDS)
    scenario.settle()
    assert gates(scenario)[-1] is Phase.REFLECTION
    assert scenario.conversation.status == "ended"
    assert {done.outcome for done in scenario.conversation.turns[-1].completions} == {"failed"}


def test_a_retry_in_reflection_makes_no_one_reflect_twice() -> None:
    scenario = reflecting("executor")
    scenario.worker = model_by_phase(reflection=[BREAKS])
    scenario.router = Router(route("reflection", "executor"), WAITS, ENDS)
    scenario.settle()
    scenario.converse("/retry")
    assert [rec.phase for rec in scenario.records(r.TurnOpened)].count(Phase.REFLECTION) == 1
    assert scenario.conversation.status == "ended"


def without(scenario: Scenario, slug: str) -> None:
    """The operator takes an agent out of the roster."""
    roster = {name: member for name, member in scenario.rules.roster.items() if name != slug}
    scenario.rules = dataclasses.replace(scenario.rules, roster=roster)


def test_an_agent_that_left_the_roster_does_not_block_reflection() -> None:
    scenario = reflecting("executor", "helper")
    without(scenario, "helper")
    scenario.router = Router(route("reflection", "executor"), ENDS)
    scenario.settle()
    assert scenario.conversation.status == "ended"
    assert refusals(scenario) == []


def test_an_agent_that_leaves_while_the_others_have_reflected_does_not_block_the_end() -> None:
    scenario = reflecting("executor", "helper")
    scenario.router = Router(route("reflection", "executor"), WAITS)
    scenario.settle()
    without(scenario, "helper")
    router = scenario.router = Router(ENDS, route(None, "project-manager"), WAITS)
    scenario.converse("go on")
    assert router.asked[0]["open_gates"] == []
    assert router.asked[0]["can_end"] is True
    assert len(scenario.records(r.Ended)) == 1
    assert scenario.conversation.cycle == 2, "what the user wrote last opens the next cycle"


def test_where_all_participants_left_nothing_is_left_to_reflect_on() -> None:
    scenario = reflecting("executor")
    without(scenario, "executor")
    scenario.router = Router(ENDS)
    scenario.settle()
    assert scenario.conversation.status == "ended"


# ---- brainstorm and plan ------------------------------------------------------------------------------------------


def test_a_brainstorm_is_left_only_after_the_user_has_written_in_it() -> None:
    scenario = scenario_at(Phase.BRAINSTORM, Router(route("plan", "planner"), WAITS)).settle()
    assert "left only when the person has written" in refusals(scenario)[0]
    scenario.router = Router(route("plan", "planner"), WAITS)
    scenario.converse("I like the second one")
    assert scenario.phases() == [Phase.BRAINSTORM, Phase.PLAN]


def planning() -> Scenario:
    """A scenario whose plan a user must approve, with the plan made."""
    scenario = scenario_at(Phase.CHAT)
    scenario.rules = dataclasses.replace(
        scenario.rules, gates=dataclasses.replace(scenario.rules.gates, plan_approval="person")
    )
    return scenario


def test_a_plan_a_user_must_approve_waits_for_them() -> None:
    scenario = planning()
    scenario.router = Router(route("plan", "planner"), route("execute", "executor"), WAITS)
    scenario.settle()
    assert "needs the person's approval" in refusals(scenario)[0]
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("good, do it")
    assert scenario.phases() == [Phase.PLAN, Phase.EXECUTE]


def test_an_answer_given_while_the_plan_was_made_approves_nothing() -> None:
    scenario = planning()
    scenario.worker = model_by_phase(
        plan=[reply("", ("ask", {"question": "Which database?"})), reply("the plan: postgres")]
    )
    scenario.router = Router(route("plan", "planner"), route("execute", "executor"), WAITS)
    scenario.settle()
    scenario.converse("postgres")
    assert scenario.phases() == [Phase.PLAN]
    assert "needs the person's approval" in refusals(scenario)[0]
