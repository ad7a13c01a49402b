"""Cycles: what ends one, what begins the next, what is cleared between them; and what is handed on within one."""

from itertools import pairwise
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.phases import QUALITY_PHASES, Phase
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    plain_model,
    refusals,
    reply,
    route,
    rules,
    scenario_at,
    seven_phases,
    step_until,
)


@pytest.mark.parametrize(("phase", "cycle"), [(Phase.REFLECTION, 2), (Phase.EXECUTE, 1)])
def test_chat_entered_from_reflection_begins_a_cycle_and_from_execute_none(phase: Phase, cycle: int) -> None:
    scenario = scenario_at(phase, Router(route("chat", "project-manager"), ENDS, WAITS)).settle()
    assert scenario.phases()[-1] is Phase.CHAT
    assert (scenario.conversation.cycle, scenario.conversation.executed) == (cycle, cycle == 1)
    assert len(refusals(scenario)) == (cycle == 1), "its gates are kept"


def whole_cycle() -> Scenario:
    """A cycle that went the whole way and is over, with a file changed."""
    steps = [reply("", ("write_file", {"path": "a"})), reply("built")]
    scenario = scenario_at(Phase.CHAT, seven_phases, model_by_phase(execute=steps)).settle()
    for text in ("think", "plan"):
        scenario.converse(text)
    assert scenario.conversation.status == "ended"
    scenario.router = Router(route(None, "project-manager"), WAITS)
    return scenario


def test_a_message_after_the_end_begins_a_clean_cycle_in_chat() -> None:
    scenario = whole_cycle()
    assert scenario.conversation.touched == {"a"}
    scenario.user_writes("/quick")  # no waiver of a cycle that is over may leak into the next
    scenario.user_writes("and now a poem")
    state = scenario.conversation
    assert (state.cycle, state.phase, state.status) == (2, Phase.CHAT, "active")
    assert (state.read_files, state.touched, state.executed) == ({}, frozenset(), False)
    assert (state.waivers, state.participants, state.gates_met) == ((), (), frozenset())
    assert [message.text for message in state.messages] == ["and now a poem"]
    assert scenario.phases()[-1] is Phase.CHAT, "reflection -> chat is an edge of the table, so it is a transition"
    scenario.settle()
    assert scenario.conversation.waiting_for == "user"


def test_a_message_while_end_is_decided_gives_the_end_and_a_new_cycle_in_one_append() -> None:
    scenario = scenario_at(Phase.REFLECTION)

    def ending(question: dict[str, Any]) -> Any:
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.user_writes("one more thing: make it green")
        return ENDS

    scenario.router = ending
    scenario.settle()
    append = next(decision for decision in scenario.journal if any(isinstance(rec, r.Ended) for rec in decision))
    kinds = [type(record).__name__ for record in append]
    assert kinds == ["Routed", "Ended", "PhaseTransition", "CycleStarted", "RouteRequested"]
    assert [message.text for message in scenario.conversation.messages] == ["one more thing: make it green"]
    assert scenario.conversation.cycle == 2
    assert scenario.records(r.TurnOpened)[-1].phase is Phase.CHAT
    assert scenario.conversation.waiting_for == "user"


def test_a_router_that_goes_round_in_cycles_meets_the_limit_of_turns() -> None:
    """Chat entered from reflection begins a cycle, but the user still has not spoken."""
    ring = [Phase.CHAT, Phase.EXECUTE, *QUALITY_PHASES, Phase.CHAT]
    following = dict(pairwise(map(str, ring)))

    def round_and_round(question: dict[str, Any]) -> Any:
        target = following[question["phase"]]
        return route(target, *(question["still_to_reflect"] if target == "reflection" else ["executor"]))

    scenario = Scenario(round_and_round, plain_model).converse("build it")
    assert scenario.conversation.turn_count == scenario.rules.limits.turns_per_message
    assert scenario.conversation.waiting_for == "limit"


def test_an_answer_to_a_question_is_no_new_request_at_the_end() -> None:
    """An agent asked, the user answered, the agent finished: END ends, and no second cycle answers it again."""
    asks = [reply("", ("ask", {"question": "Which colour?"})), reply("blue it is")]
    scenario = Scenario(Router(route(None, "project-manager"), ENDS), model_by_phase(chat=asks)).converse(
        "which colours can I have?"
    )
    scenario.converse("blue")
    assert scenario.conversation.status == "ended"
    assert scenario.conversation.cycle == 1


def test_a_transition_carries_its_reason_the_request_and_what_was_done() -> None:
    scenario = Scenario(
        Router(route(None, "project-manager"), route("execute", "executor"), WAITS), plain_model
    ).converse("build it")
    moved = scenario.records(r.PhaseTransition)[0]
    assert moved.reason == "on to execute"
    assert moved.message == "on to execute\n\nRequest: build it"
    assert moved.summary == "project-manager: project-manager has done its part of chat"
    assert (moved.agent_name, moved.agent_pubkey) == (scenario.rules.project.name, scenario.rules.project.pubkey)
    handed = scenario.records(r.TurnOpened)[-1].handoff
    assert handed is not None
    assert (handed.from_, handed.to, handed.summary) == (Phase.CHAT, Phase.EXECUTE, moved.summary)


def test_an_old_transition_is_not_handed_on() -> None:
    scenario = scenario_at(
        Phase.EXECUTE, Router(route(None, "helper"), WAITS), config=rules(limits=Limits(handoff_window=5))
    )
    step_until(scenario, lambda it: it.conversation.turn is not None)
    assert scenario.records(r.TurnOpened)[-1].handoff is not None, "a hand-off within the phase is fresh"
    scenario.settle()
    scenario.now = type(scenario.now)(scenario.now + 60_000)
    scenario.user_writes("@planner what do you think?", addressed=("planner",))
    assert scenario.records(r.TurnOpened)[-1].handoff is None
