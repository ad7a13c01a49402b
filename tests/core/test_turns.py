"""Limits: each hit is a record and a message, the conversation waits for the user, and `/continue` goes on."""

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.messages import Usage
from tenex.core.phases import QUALITY_PHASES, Phase
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    model_by_phase,
    plain_model,
    refusals,
    remove_agent,
    reply,
    route,
    rules,
    scenario_at,
    seven_phases,
)


def endless(question: dict[str, Any]) -> Any:
    """A router that sends two agents in turn, for ever."""
    return route(None, ("project-manager", "planner")[len(question["turns"]) % 2])


def building(question: dict[str, Any]) -> Any:
    """A router that sends two agents in turn, for ever, in execute."""
    decision = endless(question)
    return decision if question["phase"] == "execute" else {**decision, "phase": "execute"}


def stubborn(question: dict[str, Any]) -> Any:
    """A router that sends the same agent for ever."""
    return route(None, "executor") if question["phase"] == "execute" else route("execute", "executor")


def limited(scenario: Scenario) -> str:
    """The limit that was hit last, with everything a hit means."""
    hit = scenario.records(r.LimitReached)[-1]
    assert (scenario.conversation.status, scenario.conversation.waiting_for) == ("waiting", "limit")
    assert scenario.sent_texts()[-1] == f"{hit.sentence} Write `/continue` to go on."
    check_idle(scenario)
    return str(hit.limit)


def play_of(router: Any, worker: Any = plain_model, **limits: Any) -> Scenario:
    """A scenario under these limits, come to rest."""
    return Scenario(router, worker, config=rules(limits=Limits(**limits))).converse("build it")


def test_turns_since_a_user_spoke_are_bounded() -> None:
    scenario = play_of(endless, turns_per_message=5)
    assert limited(scenario) == "turns_per_message"
    assert scenario.conversation.turn_count == 5
    scenario.converse("go on")
    assert scenario.conversation.turn_count == 10, "a message begins the count again"
    scenario.converse("/continue")
    assert scenario.conversation.turn_count == 15, "and so does /continue"
    assert len(scenario.records(r.LimitReached)) == 3


def working(question: dict[str, Any]) -> Any:
    """A router that sends two agents to work in execute, for ever."""
    return route("execute", "executor", "helper")


def priced(conversation: Any, call: Any) -> Any:
    """An agent that reads for ever; each step costs 40 cents."""
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.4)
    return dataclasses.replace(reply("", ("read_file", {"path": f"{conversation.next_seq}"})), usage=usage)


def test_the_same_route_is_bounded_only_without_progress() -> None:
    scenario = play_of(stubborn, same_route=3)
    assert limited(scenario) == "same_route"
    assert scenario.conversation.turn_count == 3
    assert "executor worked 3 times in execute and nothing changed." in scenario.sent_texts()[-1]
    scenario.converse("/continue")
    assert scenario.conversation.turn_count == 6

    def writes(conversation: Any, call: Any) -> Any:
        return reply("", ("write_file", {"path": "a"})) if not conversation.runs[call.run].steps else reply("more")

    scenario = play_of(stubborn, model_by_phase(execute=writes), same_route=3, turns_per_message=12)
    assert limited(scenario) == "turns_per_message"


def test_the_cost_of_a_cycle_is_bounded() -> None:
    def dear(conversation: Any, call: Any) -> Any:
        return dataclasses.replace(reply("done"), usage=Usage(input_tokens=1, output_tokens=1, cost_usd=0.4))

    scenario = play_of(building, dear, cost_per_cycle_usd=1.0)
    assert limited(scenario) == "cost_per_cycle"
    assert "This cycle has cost $1.20 of $1.00." in scenario.sent_texts()[-1]
    scenario.user_writes("go on")
    assert limited(scenario) == "cost_per_cycle", "words do not make it cheaper"
    scenario.converse("/continue")
    assert scenario.conversation.turn_count == 6
    assert scenario.conversation.usage.cost_usd == pytest.approx(2.4)


def test_the_tokens_of_a_conversation_are_bounded_across_its_cycles() -> None:
    scenario = play_of(Router(route(None, "project-manager"), WAITS), tokens_per_conversation=100)
    for _ in range(2):  # 45 in each cycle
        scenario.user_writes("/new")
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.converse("something small")
    assert scenario.conversation.cycle == 3
    assert limited(scenario) == "tokens_per_conversation"
    scenario.router = endless
    scenario.converse("/continue")
    assert limited(scenario) == "tokens_per_conversation"
    used = scenario.conversation.usage.tokens
    assert 200 <= used < 260, "`/continue` allows as much again, once"


def test_talk_does_not_count_against_the_limit_of_a_cycle_and_an_addressed_agent_works_although_it_is_reached() -> None:
    scenario = play_of(Router(route(None, "project-manager"), WAITS), tokens_per_cycle=100)
    for _ in range(9):  # 45 tokens each
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.converse("and what else?")
    assert scenario.conversation.turn_count == 10
    assert not scenario.records(r.LimitReached)
    scenario.router = building
    scenario.converse("build it")
    assert limited(scenario) == "tokens_per_cycle"
    assert 100 <= (scenario.conversation.cycle_usage - scenario.conversation.talk_usage).tokens < 130
    scenario.user_writes("@executor please look", addressed=("executor",))
    assert scenario.records(r.TurnOpened)[-1].agents == ("executor",)
    scenario.settle()
    assert limited(scenario) == "tokens_per_cycle"


@pytest.mark.parametrize(
    ("limits", "used"),
    [({"tokens_per_run": 40}, "used 45 tokens of 40."), ({"cost_per_run_usd": 1.0}, "cost $1.20 of $1.00.")],
)
def test_what_a_run_uses_is_bounded_and_the_user_is_asked_once(limits: dict[str, Any], used: str) -> None:
    scenario = play_of(working, priced, **limits)
    assert [run.outcome for run in scenario.records(r.RunEnded)] == ["over_limit", "over_limit"]
    assert (scenario.conversation.status, scenario.conversation.waiting_for) == ("waiting", "limit")
    assert [hit.limit for hit in scenario.records(r.LimitReached)] == [next(iter(limits)).removesuffix("_usd")] * 2
    (asked,) = [text for text in scenario.sent_texts() if "/continue" in text]
    assert asked == f"Executor's run has {used} Helper's run has {used} Write `/continue` to go on."
    assert not any("could not finish" in text for text in scenario.sent_texts()), "the same is not sent twice"
    check_idle(scenario)
    scenario.converse("/continue")
    assert len(scenario.records(r.RunEnded)) == 4, "another run has as much again"


def test_an_agent_that_is_no_more_is_not_waited_for() -> None:
    """Named, then taken out of the roster: the router's own choice must not be put off for ever."""
    scenario = scenario_at(Phase.CHAT, Router(route(None, "helper"), WAITS))
    scenario.user_writes("@planner, @executor: thoughts?", addressed=("planner", "executor"))
    opened = scenario.records(r.TurnOpened)[-1]
    assert (opened.agents, opened.reason) == (("planner", "executor"), "addressed by the person")
    assert scenario.records(r.Routed)[-1].by == "alice"
    scenario.user_writes("@security is that safe?", addressed=("security",))
    scenario.user_writes("@planner boo", addressed=("planner",))
    assert len(scenario.records(r.TurnOpened)) == 2, "one turn at a time"
    remove_agent(scenario, "planner")
    scenario.settle(most=200)
    assert [record.agents for record in scenario.records(r.TurnOpened)][2:] == [("security",), ("helper",)]
    assert scenario.conversation.waiting_for == "user"


def test_an_agent_named_in_reflection_that_has_reflected_does_not_block_the_others() -> None:
    scenario = scenario_at(Phase.CHORES, agents=("executor", "helper"))
    scenario.router = Router(route("reflection", "executor"), WAITS)
    scenario.settle()
    scenario.router = Router(route(None, "helper"), WAITS)
    scenario.user_writes("@executor anything else?", addressed=("executor",))
    scenario.settle(most=200)
    reflecting = [record.agents for record in scenario.records(r.TurnOpened) if record.phase is Phase.REFLECTION]
    assert reflecting == [("executor",), ("helper",)]
    scenario.router = Router(route("chat", "project-manager"), WAITS)
    scenario.user_writes("go on")
    scenario.settle(most=200)
    assert ("executor",) in [
        rec.agents for rec in scenario.records(r.TurnOpened) if rec.seq > scenario.records(r.CycleStarted)[-1].seq
    ]


@pytest.mark.parametrize(("phase", "cycle"), [(Phase.REFLECTION, 2), (Phase.EXECUTE, 1)])
def test_chat_entered_from_reflection_begins_a_cycle_and_from_execute_none(phase: Phase, cycle: int) -> None:
    scenario = scenario_at(phase, Router(route("chat", "project-manager"), ENDS, WAITS)).settle()
    assert scenario.phases()[-1] is Phase.CHAT
    assert (scenario.conversation.cycle, scenario.conversation.executed) == (cycle, cycle == 1)
    assert len(refusals(scenario)) == (cycle == 1), "its gates are kept"


def test_a_message_after_the_end_begins_a_clean_cycle_in_chat() -> None:
    steps = [reply("", ("write_file", {"path": "a"})), reply("built")]
    scenario = scenario_at(Phase.CHAT, seven_phases, model_by_phase(execute=steps)).settle()
    scenario.converse("think").converse("plan")
    assert (scenario.conversation.status, scenario.conversation.touched) == ("ended", frozenset({"a"}))
    scenario.router = Router(route(None, "project-manager"), WAITS)
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


def test_a_transition_carries_its_reason_the_request_and_what_was_done_unless_it_is_old() -> None:
    router = Router(route(None, "project-manager"), route("execute", "executor"), WAITS)
    scenario = Scenario(router, plain_model).converse("build it")
    moved = scenario.records(r.PhaseTransition)[0]
    assert (moved.reason, moved.message) == ("on to execute", "on to execute\n\nRequest: build it")
    assert moved.summary == "project-manager: project-manager has done its part of chat"
    assert (moved.agent_name, moved.agent_pubkey) == (scenario.rules.project.name, scenario.rules.project.pubkey)
    handed = scenario.records(r.TurnOpened)[-1].handoff
    assert handed is not None
    assert (handed.from_, handed.to, handed.summary) == (Phase.CHAT, Phase.EXECUTE, moved.summary)
    scenario.now = type(scenario.now)(scenario.now + scenario.rules.limits.handoff_window + 1)
    scenario.user_writes("@planner what do you think?", addressed=("planner",))
    assert scenario.records(r.TurnOpened)[-1].handoff is None
