"""What went wrong between the orchestrator's answer and what was done with it (B1-B3, B5, B6, B8, B9)."""

# ruff: noqa: N802 (the numbers of the catalogue are written B1)

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.routing import DECISION_SCHEMA, parse
from tests.core.kit import ENDS, WAITS, Script, go, plain, standing
from tests.fakes.play import Play

FORBIDDEN = [
    (here, there)
    for here in Phase
    for there in Phase
    if here is not there and not PHASE_TRANSITIONS.permits(here, there)
]


@pytest.mark.parametrize(("here", "there"), FORBIDDEN, ids=lambda phase: phase.value)
def test_B01_the_table_is_asked_before_every_transition(here: Phase, there: Phase) -> None:
    """Its function always said yes, or nobody called it."""
    play = standing(here, Script(go(there, "executor"), WAITS))
    entered = len(play.all(r.PhaseTransition))
    play.settle()
    assert play.conversation.phase is here
    assert len(play.all(r.PhaseTransition)) == entered
    assert len(play.all(r.RouteRejected)) == 1


def test_B02_agents_of_a_rejected_decision_do_not_run() -> None:
    """The router went on with them as if the phase had changed."""
    play = Play(Script(go("verification", "executor")), plain)
    play.person("build it")
    play.settle()
    assert play.all(r.RouteRejected)
    assert not play.all(r.RunStarted)
    assert play.conversation.phase is Phase.CHAT
    assert play.conversation.status == "waiting"


def test_B03_end_leaves_nothing_open() -> None:
    """END was a turn that nobody completed, so every later message found the orchestrator busy."""
    play = Play(Script(go(None, "project-manager"), ENDS, go(None, "project-manager"), WAITS), plain)
    play.person("hello")
    play.settle()
    assert play.refold().status == "ended"
    assert play.refold().turn is None
    assert all("END" not in turn.agents for turn in play.conversation.turns)
    play.person("and again")
    play.settle()
    assert play.conversation.cycle == 2
    assert [turn.agents for turn in play.conversation.turns] == [("project-manager",)]


def test_B05_an_empty_list_of_agents_is_forbidden_by_schema_and_rules_alike() -> None:
    """The prompt demanded it, the schema forbade it, and the person read an error."""
    agents: dict[str, Any] = DECISION_SCHEMA["properties"]["agents"]
    assert agents["minItems"] == 1
    assert isinstance(parse('{"agents": [], "reason": "wait"}'), str)
    play = Play(Script({"agents": [], "reason": "wait"}, go(None, "project-manager"), WAITS), plain)
    play.person("hello")
    play.settle()
    (rejected,) = play.all(r.RouteRejected)
    assert "USER" in rejected.sentence, "the refusal names the way to wait"
    assert play.all(r.TurnClosed)


def test_B06_the_router_is_shown_every_message_of_the_cycle() -> None:
    """It saw the first one only, so what a person added was never routed."""
    script = Script(go(None, "project-manager"), WAITS)
    play = Play(script, plain)
    for text in ("a page about cats", "no, about dogs", "in German"):
        play.person(text)
        play.settle()
    assert [message["text"] for message in script.asked[-1]["messages"]] == [
        "a page about cats",
        "no, about dogs",
        "in German",
    ]


def test_B08_a_corrected_decision_is_a_decision_like_any_other() -> None:
    """It opened no turn, changed no phase, knew no END, and what was to be learned of it was only logged."""
    script = Script(go("execute", "excutor"), go("execute", "executor"), WAITS)
    play = Play(script, plain)
    play.person("build it")
    play.settle()
    assert play.phases() == [Phase.EXECUTE]
    (turn,) = play.all(r.TurnOpened)
    assert turn.agents == ("executor",)
    (lesson,) = play.all(r.RouterCorrected)
    assert "excutor" in lesson.lesson
    assert script.asked[-1]["lessons"] == [lesson.lesson], "the next question shows it"


def test_B08_END_after_a_correction_ends() -> None:
    play = standing(Phase.CHAT, Script({"agents": ["nobody"], "reason": "x"}, ENDS))
    play.settle()
    assert play.conversation.status == "ended"


def test_B09_a_hand_off_carries_what_was_done_though_the_router_writes_no_summary() -> None:
    """It needed a summary from the router, whose answer has no such field."""
    play = standing(Phase.PLAN, Script(go("execute", "executor"), WAITS))
    assert play.conversation.last_turn is not None
    done = play.conversation.last_turn.completions[0].text
    play.settle()
    opened = play.all(r.TurnOpened)[-1]
    assert opened.handoff is not None
    assert done in opened.handoff.summary
