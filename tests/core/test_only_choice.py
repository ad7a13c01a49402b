"""Steps that are taken without the router's model, and `hand_over`."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import ConversationRules, Limits
from tenex.core.ids import Slug
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.projection import project
from tests.fakes.agent_phases import program
from tests.fakes.scenario import ALWAYS, WAITS, Router, Scenario, agent, model_by_phase, reply, route, step_until
from tests.kits.team import FINDS, WORK, hand_over, team

EDGES = (("a", "b", None), ("b", "c", None), ("c", "a", None))


def routed(scenario: Scenario) -> list[tuple[str, tuple[str, ...], str]]:
    """By whom, to which agents, in which phase they worked or "" for none."""
    return [(one.by, one.agents, str(one.phase or "")) for one in scenario.records(r.Routed)]


def test_the_router_chooses_the_first_phase_and_rules_all_that_follows() -> None:
    router = Router(route("execute", "executor"))
    scenario = Scenario(router, model_by_phase(**WORK), config=team()).converse("create hello.py")
    assert len(router.asked) == 1
    assert routed(scenario) == [
        ("orchestrator", ("executor",), "execute"),
        ("rule", ("project-manager",), "verification"),
        ("rule", ("executor",), "chores"),
        ("rule", ("executor", "project-manager"), "reflection"),
        ("rule", ("END",), ""),
    ]
    assert scenario.conversation.cycle.status == "ended"


def test_an_agent_hands_over_and_the_only_agent_of_the_phase_works() -> None:
    router = Router(route(None, "project-manager"), WAITS)
    steps = {
        "chat": lambda conversation, call: hand_over() if conversation.totals.turn_count > 1 else reply("What for?")
    }
    scenario = Scenario(router, model_by_phase(**WORK, **steps), config=team()).converse("I need something")
    scenario.converse("a file hello.py")
    assert len(router.asked) == 1, "a message of a talk costs one call"
    assert routed(scenario)[-6:-4] == [("rule", ("project-manager",), ""), ("rule", ("executor",), "execute")]
    assert "create hello.py" in scenario.sent_texts()
    assert scenario.conversation.cycle.status == "ended"


@pytest.mark.parametrize("phase", [None, "brainstorm"])
def test_a_talk_that_leads_nowhere_is_judged_by_the_router_after_two_turns_and_again_after_four_more(
    phase: str | None,
) -> None:
    stays = route(None, "project-manager")
    router = Router(route(phase, "project-manager"), stays, route("execute", "executor"))
    steps = {"chat": [reply("What for?")], "brainstorm": [reply("An idea.")]}
    scenario = Scenario(router, model_by_phase(**WORK, **steps), config=team()).converse("I need something")
    asked = []
    for _ in range(6):
        scenario.converse("go ahead, do it now")
        asked.append(len(router.asked))
    assert asked == [1, 2, 2, 2, 2, 3]
    assert Phase.EXECUTE in scenario.phases()
    assert scenario.conversation.cycle.status == "ended"


def test_what_is_waited_for_is_said_to_the_person_themself() -> None:
    talk = Scenario(Router(route(None, "project-manager")), model_by_phase(chat=[reply("What for?")]), config=team())
    talk.converse("I need something")
    assert project(talk.conversation).reason == "the next word is yours"


def test_the_router_is_asked_where_several_could_work_and_reads_what_was_handed_over() -> None:
    second = dataclasses.replace(agent("builder"), phases=(Phase.EXECUTE,))
    router = Router(route(None, "project-manager"), route("execute", "builder"), WAITS)
    Scenario(router, model_by_phase(**WORK, chat=[hand_over()]), config=team(second)).converse("do it")
    assert [question["phase"] for question in router.asked[:2]] == ["chat", "chat"]
    assert router.asked[1]["turns"][0]["completions"][0]["hand_over"] == "execute"
    named = Scenario(Router(route(None, "project-manager")), model_by_phase(**WORK), config=team(second))
    named.worker = model_by_phase(**WORK, chat=[hand_over(agent="@builder")])
    assert ("rule", ("builder",), "execute") in routed(named.converse("do it"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"phase": "verification", "reason": "x"}, "chat"),
        ({"phase": "deployment", "reason": "x"}, "There is no phase"),
        ({"phase": "chat", "reason": "x"}, "is in chat already"),
        ({"phase": "execute"}, "needs `phase` and `reason`"),
        ({"phase": "execute", "reason": " "}, "needs `phase` and `reason`"),
        ({"phase": "execute", "reason": "x", "agent": "wizard"}, "There is no agent 'wizard'"),
        ({"phase": "execute", "reason": "x", "agent": "END"}, "There is no agent 'END'"),
    ],
)
def test_a_wish_that_the_router_could_not_have_is_refused(given: dict[str, Any], sentence: str) -> None:
    steps = [reply("", ("hand_over", given)), reply("well")]
    scenario = Scenario(Router(route(None, "project-manager")), model_by_phase(chat=steps), config=team())
    scenario.converse("hello")
    (refused,) = scenario.records(r.ToolCallRejected)
    assert sentence in refused.sentence
    assert scenario.conversation.cycle.phase is Phase.CHAT


WISH = ("hand_over", {"phase": "verification", "reason": "it is done"})


@pytest.mark.parametrize(
    ("answer", "moves"),
    [(reply("", WISH), ["b", "c"]), (reply("", ("read_file", {"path": "a"}), WISH), ["b", "c", "a"])],
    ids=["refused", "waiting for a read"],
)
def test_a_wish_that_is_not_granted_takes_an_agent_no_step_through_its_own_phases(
    answer: ModelStep, moves: list[str]
) -> None:
    config = team()
    manager = dataclasses.replace(config.roster[Slug("project-manager")], program=program(EDGES, scopes={}))
    config = dataclasses.replace(config, roster={**config.roster, manager.slug: manager})
    router = Router(route("brainstorm", "project-manager"), WAITS)
    scenario = Scenario(router, model_by_phase(brainstorm=[answer, reply("well")]), config=config)
    scenario.converse("hello")
    assert len(scenario.records(r.ToolCallRejected)) == 1
    assert [one.target for one in scenario.records(r.AgentPhaseChanged)] == moves, "one for each answer and each result"


def test_a_brainstorm_is_not_left_before_the_user_has_written() -> None:
    router = Router(route("brainstorm", "project-manager"), WAITS)
    steps = [hand_over("plan"), reply("three ideas")]
    scenario = Scenario(router, model_by_phase(brainstorm=steps), config=team()).converse("ideas, please")
    assert "left only when the person has written" in scenario.records(r.ToolCallRejected)[0].sentence
    scenario.converse("the second one")
    assert scenario.conversation.cycle.phase is Phase.PLAN
    assert len(router.asked) == 2, "whether a plan is good is no rule"


def test_issues_go_back_to_who_built_it_twice_and_then_the_router_is_asked() -> None:
    router = Router(route("execute", "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(**{**WORK, "verification": [FINDS]}), config=team()).converse("do it")
    assert [str(phase) for phase in scenario.phases()] == ["execute", "verification"] * 3
    assert len(router.asked) == 2
    assert scenario.conversation.cycle.status == "waiting"


SAYS = reply("", ("read_file", {"path": "a"}), ("complete", {"response": "it is in a", "summary": "read a"}))
SAYS_ALONE = reply("", ("complete", {"response": "it is in a"}))


@pytest.mark.parametrize("says", [SAYS, SAYS_ALONE], ids=["with a summary", "without"])
def test_an_answer_in_execute_that_changed_nothing_ends_there(says: Any) -> None:
    router = Router(route("execute", "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(execute=[says]), config=team()).converse("where is the parser?")
    assert routed(scenario) == [("orchestrator", ("executor",), "execute"), ("rule", ("END",), "")]
    assert (scenario.conversation.cycle.status, scenario.conversation.unmet_gates) == ("ended", ())
    assert scenario.records(r.Ended)[0].reason == "it is answered, and nothing was changed"


def test_the_router_judges_work_that_changed_nothing_and_was_not_completed() -> None:
    router = Router(route("execute", "executor"), WAITS)
    steps = {"execute": [reply("I shall do it.")]}
    scenario = Scenario(router, model_by_phase(**steps), config=team()).converse("do it")
    assert len(router.asked) == 2
    assert scenario.phases() == [Phase.EXECUTE]


def test_the_router_judges_a_plan_of_which_nothing_was_made_and_work_that_was_not_completed() -> None:
    router = Router(route("plan", "planner"), route("execute", "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(execute=[SAYS]), config=team()).converse("plan it and do it")
    assert (len(router.asked), scenario.conversation.cycle.status) == (3, "waiting")
    router = Router(route("execute", "executor"), WAITS)
    steps = {"execute": [reply("", ("write_file", {"path": "a"})), reply("Shall I go on?")]}
    scenario = Scenario(router, model_by_phase(**steps), config=team()).converse("do it")
    assert (len(router.asked), scenario.phases()) == (2, [Phase.EXECUTE])


def test_the_router_is_asked_when_a_user_has_written_in_between() -> None:
    router = Router(route("execute", "executor"), route("execute", "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(**WORK), config=team())
    scenario.user_writes("do it")
    step_until(scenario, lambda played: played.conversation.cycle.phase is Phase.VERIFICATION)
    scenario.user_writes("and make it green")
    scenario.settle()
    assert [question["phase"] for question in router.asked] == ["chat", "verification"]
    assert [str(phase) for phase in scenario.phases()][:3] == ["execute", "verification", "execute"]


def test_a_person_approves_a_plan_where_the_setting_wants_it() -> None:
    config = team(gates=dataclasses.replace(ALWAYS, plan_approval="person"))
    router = Router(route("plan", "planner"), route("execute", "executor"))
    scenario = Scenario(router, model_by_phase(**WORK), config=config).converse("design it")
    assert (scenario.conversation.cycle.status, len(router.asked)) == ("waiting", 1)
    assert project(scenario.conversation).reason == "the plan needs your approval"
    scenario.converse("yes")
    assert len(router.asked) == 2
    assert scenario.conversation.cycle.phase is not Phase.PLAN


def test_what_a_user_waived_is_passed_and_limits_hold_for_rules_too() -> None:
    router = Router(route("execute", "executor"))
    scenario = Scenario(router, model_by_phase(**WORK), config=team())
    scenario.user_writes("/quick")
    scenario.converse("create hello.py")
    assert (scenario.conversation.cycle.status, len(router.asked)) == ("ended", 1)
    assert routed(scenario)[-1] == ("rule", ("END",), "")
    config = team(limits=Limits(turns_per_message=2))
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=config).converse("do it")
    assert [limit.limit for limit in scenario.records(r.LimitReached)] == ["turns_per_message"]


def test_an_addressed_agent_goes_on_with_the_talk_and_can_hand_over() -> None:
    router = Router(WAITS)
    steps = {"chat": lambda conversation, call: hand_over() if conversation.totals.turn_count > 1 else reply("Yes?")}
    scenario = Scenario(router, model_by_phase(**WORK, **steps), config=team())
    scenario.converse("hi", addressed=("executor",)).converse("create hello.py")
    assert not router.asked
    assert scenario.conversation.cycle.status == "ended"


def test_without_the_setting_the_router_is_asked_each_time_and_there_is_no_such_tool() -> None:
    config = dataclasses.replace(team(), conversations=ConversationRules(route_by_rule=False))
    router = Router(route(None, "project-manager"), WAITS)
    scenario = Scenario(router, model_by_phase(chat=[hand_over(), reply("well")]), config=config).converse("hello")
    assert "There is no tool hand_over" in scenario.records(r.ToolCallRejected)[0].sentence
    assert len(router.asked) == 2
