"""What went wrong between the orchestrator's answer and what was done with it (B1-B3, B5, B6, B8, B9)."""

# ruff: noqa: N802 (the numbers of the catalogue are written B1)

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.routing import DECISION_SCHEMA, parse
from tests.fakes.scenario import ENDS, WAITS, Router, Scenario, plain_model, route, scenario_at

FORBIDDEN = [
    (here, there)
    for here in Phase
    for there in Phase
    if here is not there and not PHASE_TRANSITIONS.permits(here, there)
]


@pytest.mark.parametrize(("here", "there"), FORBIDDEN, ids=lambda phase: phase.value)
def test_B01_the_table_is_asked_before_every_transition(here: Phase, there: Phase) -> None:
    """Its function always returned true, or nothing called it."""
    scenario = scenario_at(here, Router(route(there, "executor"), WAITS))
    entered = len(scenario.records(r.PhaseTransition))
    scenario.settle()
    assert scenario.conversation.phase is here
    assert len(scenario.records(r.PhaseTransition)) == entered
    assert len(scenario.records(r.RouteRejected)) == 1


def test_B02_agents_of_a_rejected_decision_do_not_run() -> None:
    """The router went on with them as if the phase had changed."""
    scenario = Scenario(Router(route("verification", "executor")), plain_model).converse("build it")
    assert scenario.records(r.RouteRejected)
    assert not scenario.records(r.RunStarted)
    assert scenario.conversation.phase is Phase.CHAT
    assert scenario.conversation.status == "waiting"


def test_B03_end_leaves_nothing_open() -> None:
    """END was a turn that no one completed, so every later message found the orchestrator busy."""
    scenario = Scenario(
        Router(route(None, "project-manager"), ENDS, route(None, "project-manager"), WAITS), plain_model
    ).converse("hello")
    assert scenario.refold().status == "ended"
    assert scenario.refold().turn is None
    assert all("END" not in turn.agents for turn in scenario.conversation.turns)
    scenario.converse("and again")
    assert scenario.conversation.cycle == 2
    assert [turn.agents for turn in scenario.conversation.turns] == [("project-manager",)]


def test_B05_an_empty_list_of_agents_is_forbidden_by_schema_and_rules_alike() -> None:
    """The prompt demanded it, the schema forbade it, and the user read an error."""
    agents: dict[str, Any] = DECISION_SCHEMA["properties"]["agents"]
    assert agents["minItems"] == 1
    assert isinstance(parse('{"agents": [], "reason": "wait"}'), str)
    scenario = Scenario(
        Router({"agents": [], "reason": "wait"}, route(None, "project-manager"), WAITS), plain_model
    ).converse("hello")
    (rejected,) = scenario.records(r.RouteRejected)
    assert "USER" in rejected.sentence, "the refusal names the way to wait"
    assert scenario.records(r.TurnClosed)


def test_B06_the_router_is_shown_every_message_of_the_cycle() -> None:
    """It saw the first one only, so what a user added was never routed."""
    script = Router(route(None, "project-manager"), WAITS)
    scenario = Scenario(script, plain_model)
    for text in ("a page about cats", "no, about dogs", "in German"):
        scenario.converse(text)
    assert [message["text"] for message in script.asked[-1]["messages"]] == [
        "a page about cats",
        "no, about dogs",
        "in German",
    ]


def test_B08_a_corrected_decision_is_a_decision_like_any_other() -> None:
    """It opened no turn, changed no phase, knew no END, and what was to be learned of it was only logged."""
    script = Router(route("execute", "excutor"), route("execute", "executor"), WAITS)
    scenario = Scenario(script, plain_model).converse("build it")
    assert scenario.phases() == [Phase.EXECUTE]
    (turn,) = scenario.records(r.TurnOpened)
    assert turn.agents == ("executor",)
    (lesson,) = scenario.records(r.RouterCorrected)
    assert "excutor" in lesson.lesson
    assert script.asked[-1]["lessons"] == [lesson.lesson], "the next question shows it"


def test_B08_END_after_a_correction_ends() -> None:
    scenario = scenario_at(Phase.CHAT, Router({"agents": ["stranger"], "reason": "x"}, ENDS)).settle()
    assert scenario.conversation.status == "ended"


def test_B09_a_hand_off_carries_what_was_done_though_the_router_writes_no_summary() -> None:
    """It needed a summary from the router, whose answer has no such field."""
    scenario = scenario_at(Phase.PLAN, Router(route("execute", "executor"), WAITS))
    assert scenario.conversation.last_turn is not None
    done = scenario.conversation.last_turn.completions[0].text
    scenario.settle()
    opened = scenario.records(r.TurnOpened)[-1]
    assert opened.handoff is not None
    assert done in opened.handoff.summary
