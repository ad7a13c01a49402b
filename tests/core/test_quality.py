"""The quality gates: their full order, what meets one, what reopens them, and what never blocks."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.effects import ToolCall
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.signals import ModelFailed
from tests.fakes.play import Play, says

from .kit import ENDS, WAITS, Script, check_rest, go, mind, plain, standing, until
from .test_router import DUMMY, refusals

BREAKS = ModelFailed(key=DUMMY, message="the model refused", retryable=False)


def verdict(word: str, **more: str) -> list[object]:
    """A verification that ends with this verdict."""
    return [says("", ("complete", {"response": f"I looked: {word}", "verdict": word, **more}))]


def gates(play: Play) -> list[Phase | None]:
    """The gate each turn met by closing."""
    return [record.gate for record in play.all(r.TurnClosed)]


def test_the_gates_are_met_one_after_the_other_and_then_end_is_permitted() -> None:
    play = standing(Phase.REFLECTION, Script(ENDS))
    assert gates(play) == [None, None, *QUALITY_PHASES]
    assert play.conversation.open_gates == ()
    play.settle()
    assert play.conversation.status == "ended"


@pytest.mark.parametrize(
    ("source", "target"),
    [(Phase.EXECUTE, Phase.CHORES), (Phase.EXECUTE, Phase.REFLECTION), (Phase.VERIFICATION, Phase.REFLECTION)],
)
def test_no_gate_is_jumped_over(source: Phase, target: Phase) -> None:
    play = standing(source, Script(go(target, "executor"), WAITS))
    play.settle()
    assert play.conversation.phase is source
    assert "cannot be followed by" in refusals(play)[0]


# ---- verification -------------------------------------------------------------------------------------------------


def test_verification_with_issues_does_not_lead_to_chores_but_back_to_execute() -> None:
    router = Script(go("verification", "executor"), go("chores", "executor"), go("execute", "executor"), WAITS)
    play = standing(Phase.EXECUTE, router, mind(verification=verdict("issues", issues="the button is dead")))
    play.settle()
    assert "only with the verdict `verified`" in refusals(play)[0]
    assert play.phases()[-2:] == [Phase.VERIFICATION, Phase.EXECUTE]
    assert "the button is dead" in play.all(r.TurnOpened)[-1].handoff.summary


def test_one_agent_that_finds_issues_keeps_the_gate_open_whatever_another_says() -> None:
    def judge(conversation: object, call: object) -> object:
        word = "issues" if "helper" in call.run else "verified"  # type: ignore[attr-defined]
        return verdict(word)[0]

    router = Script(go("verification", "executor", "helper"), go("chores", "executor"), WAITS)
    play = standing(Phase.EXECUTE, router, mind(verification=judge))
    play.settle()
    assert gates(play)[-1] is None
    assert play.conversation.phase is Phase.VERIFICATION


def test_a_verified_of_one_counts_although_another_failed() -> None:
    def judge(conversation: object, call: object) -> object:
        return BREAKS if "helper" in call.run else verdict("verified")[0]  # type: ignore[attr-defined]

    play = standing(Phase.EXECUTE, Script(go("verification", "executor", "helper"), WAITS), mind(verification=judge))
    play.settle()
    assert gates(play)[-1] is Phase.VERIFICATION


@pytest.mark.parametrize("answer", [BREAKS, says("it looks fine to me")], ids=["failed", "no verdict"])
def test_a_verification_without_a_verdict_leaves_the_gate_open(answer: object) -> None:
    router = Script(go("verification", "executor"), go("chores", "executor"), ENDS, WAITS)
    play = standing(Phase.EXECUTE, router, mind(verification=[answer]))
    play.settle()
    assert gates(play)[-1] is None
    assert len(refusals(play)) == 2
    check_rest(play)


def test_a_verification_that_timed_out_leaves_the_gate_open() -> None:
    play = standing(
        Phase.EXECUTE, Script(go("verification", "executor"), WAITS), mind(verification=[says("", ("check", {}))])
    )
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    play.fire("close")
    assert gates(play)[-1] is None
    assert play.conversation.turns[-1].completions[0].outcome == "timed_out"
    play.settle()
    check_rest(play)


def test_someone_may_verify_again() -> None:
    router = Script(go("verification", "executor"), go(None, "helper"), go("chores", "executor"), WAITS)
    answers = iter(["issues", "verified"])
    play = standing(Phase.EXECUTE, router, mind(verification=lambda *_: verdict(next(answers))[0]))
    play.settle()
    assert gates(play)[-3:] == [None, Phase.VERIFICATION, Phase.CHORES]


def test_a_verdict_outside_verification_means_nothing() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor"), ENDS, WAITS), mind(execute=verdict("verified")))
    play.settle()
    assert play.all(r.RunEnded)[-1].verdict == ""
    assert gates(play)[-1] is None
    assert refusals(play)[0].startswith("END is refused")


# ---- chores -------------------------------------------------------------------------------------------------------


def test_chores_nobody_finished_are_not_done() -> None:
    router = Script(go("chores", "executor"), go("reflection", "executor"), WAITS)
    play = standing(Phase.VERIFICATION, router, mind(chores=[BREAKS]))
    play.settle()
    assert refusals(play) == ["The chores have not been done: no agent has finished a turn in this phase."]


def test_chores_one_of_two_finished_are_done() -> None:
    def sweep(conversation: object, call: object) -> object:
        return BREAKS if "helper" in call.run else says("clean")  # type: ignore[attr-defined]

    play = standing(Phase.VERIFICATION, Script(go("chores", "executor", "helper"), WAITS), mind(chores=sweep))
    play.settle()
    assert gates(play)[-1] is Phase.CHORES


def test_stopped_chores_are_not_done() -> None:
    play = standing(Phase.VERIFICATION, Script(go("chores", "executor"), WAITS))
    until(play, lambda it: it.conversation.turn is not None)
    play.person("/stop")
    assert gates(play)[-1] is None


# ---- a new execute turn -------------------------------------------------------------------------------------------


def test_a_new_execute_turn_reopens_all_gates() -> None:
    play = standing(Phase.VERIFICATION, Script(go("execute", "executor"), ENDS, WAITS))
    assert play.conversation.gates_met == {Phase.VERIFICATION}
    play.settle()
    assert "open: verification, chores, reflection." in refusals(play)[0]


def test_work_in_a_later_phase_reopens_nothing() -> None:
    play = standing(Phase.CHORES, Script(go(None, "helper"), WAITS))
    play.settle()
    assert play.conversation.gates_met == {Phase.VERIFICATION, Phase.CHORES}


# ---- reflection ---------------------------------------------------------------------------------------------------


def reflecting(*agents: str) -> Play:
    """A play at the end of chores, in which these agents took part."""
    play = standing(Phase.CHORES, agents=agents)
    assert play.conversation.participants == agents
    return play


def test_everybody_who_took_part_reflects_before_the_end() -> None:
    play = reflecting("executor", "helper")
    play.router = Script(go("reflection", "executor"), ENDS, go(None, "helper"), ENDS)
    play.settle()
    assert "open: reflection." in refusals(play)[0]
    assert play.conversation.status == "ended"
    assert play.conversation.reflected == {"executor", "helper"}


def test_nobody_reflects_twice() -> None:
    play = reflecting("executor", "helper")
    play.router = Script(go("reflection", "executor"), go(None, "executor", "helper"), go(None, "helper"), ENDS)
    play.settle()
    sentence = "Each participant reflects once; executor cannot reflect now (still to reflect: helper)."
    assert refusals(play) == [sentence]


def test_one_who_took_no_part_does_not_reflect() -> None:
    play = reflecting("executor")
    play.router = Script(go("reflection", "planner"), go("reflection", "executor"), go(None, "executor"), ENDS)
    play.settle()
    assert "planner cannot reflect now" in refusals(play)[0]
    assert "everybody has reflected; answer END" in refusals(play)[1]


def test_a_failed_reflection_counts_and_is_not_repeated() -> None:
    play = reflecting("executor", "helper")
    play.worker = mind(reflection=[BREAKS])
    play.router = Script(go("reflection", "executor", "helper"), ENDS)
    play.settle()
    assert gates(play)[-1] is Phase.REFLECTION
    assert play.conversation.status == "ended"
    assert {done.outcome for done in play.conversation.turns[-1].completions} == {"failed"}


def test_a_retry_in_reflection_makes_nobody_reflect_twice() -> None:
    play = reflecting("executor")
    play.worker = mind(reflection=[BREAKS])
    play.router = Script(go("reflection", "executor"), WAITS, ENDS)
    play.settle()
    play.person("/retry")
    play.settle()
    assert [rec.phase for rec in play.all(r.TurnOpened)].count(Phase.REFLECTION) == 1
    assert play.conversation.status == "ended"


def without(play: Play, slug: str) -> None:
    """The operator takes an agent out of the roster."""
    roster = {name: member for name, member in play.rules.roster.items() if name != slug}
    play.rules = dataclasses.replace(play.rules, roster=roster)


def test_an_agent_that_left_the_roster_does_not_block_reflection() -> None:
    play = reflecting("executor", "helper")
    without(play, "helper")
    play.router = Script(go("reflection", "executor"), ENDS)
    play.settle()
    assert play.conversation.status == "ended"
    assert refusals(play) == []


def test_an_agent_that_leaves_while_the_others_have_reflected_does_not_block_the_end() -> None:
    play = reflecting("executor", "helper")
    play.router = Script(go("reflection", "executor"), WAITS)
    play.settle()
    without(play, "helper")
    router = play.router = Script(ENDS, go(None, "project-manager"), WAITS)
    play.person("go on")
    play.settle()
    assert router.asked[0]["open_gates"] == []
    assert router.asked[0]["can_end"] is True
    assert len(play.all(r.Ended)) == 1
    assert play.conversation.cycle == 2, "what the person wrote last opens the next cycle"


def test_where_all_participants_left_nothing_is_left_to_reflect_on() -> None:
    play = reflecting("executor")
    without(play, "executor")
    play.router = Script(ENDS)
    play.settle()
    assert play.conversation.status == "ended"


# ---- brainstorm and plan ------------------------------------------------------------------------------------------


def test_a_brainstorm_is_left_only_after_the_person_has_written_in_it() -> None:
    play = standing(Phase.BRAINSTORM, Script(go("plan", "planner"), WAITS))
    play.settle()
    assert "left only when the person has written" in refusals(play)[0]
    play.router = Script(go("plan", "planner"), WAITS)
    play.person("I like the second one")
    play.settle()
    assert play.phases() == [Phase.BRAINSTORM, Phase.PLAN]


def planning() -> Play:
    """A play whose plan a person must approve, with the plan made."""
    play = standing(Phase.CHAT)
    play.rules = dataclasses.replace(play.rules, gates=dataclasses.replace(play.rules.gates, plan_approval="person"))
    return play


def test_a_plan_a_person_must_approve_waits_for_them() -> None:
    play = planning()
    play.router = Script(go("plan", "planner"), go("execute", "executor"), WAITS)
    play.settle()
    assert "needs the person's approval" in refusals(play)[0]
    play.router = Script(go("execute", "executor"), WAITS)
    play.person("good, do it")
    play.settle()
    assert play.phases() == [Phase.PLAN, Phase.EXECUTE]


def test_an_answer_given_while_the_plan_was_made_approves_nothing() -> None:
    play = planning()
    play.worker = mind(plan=[says("", ("ask", {"question": "Which database?"})), says("the plan: postgres")])
    play.router = Script(go("plan", "planner"), go("execute", "executor"), WAITS)
    play.settle()
    play.person("postgres")
    play.settle()
    assert play.phases() == [Phase.PLAN]
    assert "needs the person's approval" in refusals(play)[0]


def test_the_router_approves_plans_by_default() -> None:
    play = standing(Phase.PLAN, Script(go("execute", "executor"), WAITS), plain)
    play.settle()
    assert play.phases() == [Phase.PLAN, Phase.EXECUTE]
