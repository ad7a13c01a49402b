"""Limits: each hit is a record and a message, the conversation waits for the person, and `/continue` goes on."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tests.fakes.play import Play, rules, says

from .kit import WAITS, Script, check_rest, go, mind, plain, standing


def endless(question: dict[str, Any]) -> Any:
    """A router that sends two agents in turn, for ever."""
    return go(None, ("project-manager", "planner")[len(question["turns"]) % 2])


def stubborn(question: dict[str, Any]) -> Any:
    """A router that sends the same agent for ever."""
    return go(None, "executor") if question["phase"] == "execute" else go("execute", "executor")


def limited(play: Play) -> str:
    """The limit that was hit last, with everything a hit means."""
    hit = play.all(r.LimitReached)[-1]
    assert (play.conversation.status, play.conversation.waiting_for) == ("waiting", "limit")
    assert play.said()[-1] == f"{hit.sentence} Write `/continue` to go on."
    check_rest(play)
    return str(hit.limit)


def play_of(router: Any, worker: Any = plain, **limits: Any) -> Play:
    """A play under these limits, come to rest."""
    play = Play(router, worker, config=rules(limits=Limits(**limits)))
    play.person("build it")
    play.settle()
    return play


def test_a_run_is_watched_from_its_beginning_on() -> None:
    play = play_of(endless, turns_per_message=2)
    expected = play.rules.limits.expectation(play.conversation.phase)
    times = [(run.warn_at - run.at, run.close_at - run.at) for run in play.all(r.RunStarted)]
    assert times == [(expected.warn_after, expected.close_after)] * 2


def test_turns_since_a_person_spoke_are_bounded() -> None:
    play = play_of(endless, turns_per_message=5)
    assert limited(play) == "turns_per_message"
    assert play.conversation.turn_count == 5
    play.person("go on")
    play.settle()
    assert play.conversation.turn_count == 10, "a message begins the count anew"
    play.person("/continue")
    play.settle()
    assert play.conversation.turn_count == 15, "and so does /continue"
    assert len(play.all(r.LimitReached)) == 3


def test_the_same_route_without_progress_is_bounded() -> None:
    play = play_of(stubborn, same_route=3)
    assert limited(play) == "same_route"
    assert play.conversation.turn_count == 3
    assert "executor worked 3 times in execute and nothing changed." in play.said()[-1]
    play.person("/continue")
    play.settle()
    assert play.conversation.turn_count == 6


def test_the_same_route_with_progress_is_not() -> None:
    def writes(conversation: Any, call: Any) -> Any:
        return says("", ("write_file", {"path": "a"})) if not conversation.runs[call.run].steps else says("more")

    play = play_of(stubborn, mind(execute=writes), same_route=3, turns_per_message=12)
    assert limited(play) == "turns_per_message"
    assert play.conversation.turn_count == 12


def test_another_agent_in_between_is_another_route() -> None:
    play = play_of(endless, same_route=2, turns_per_message=9)
    assert limited(play) == "turns_per_message"


def test_tokens_of_a_cycle_are_bounded() -> None:
    play = play_of(endless, tokens_per_cycle=100)  # 15 for each call, of the router and of the agents
    assert limited(play) == "tokens_per_cycle"
    used = play.conversation.cycle_usage
    assert 100 <= used.input_tokens + used.output_tokens < 130
    play.person("go on")
    assert limited(play) == "tokens_per_cycle", "words do not make it cheaper"
    play.person("/continue")
    assert play.conversation.status == "active"
    play.settle()
    assert limited(play) == "tokens_per_cycle"
    assert play.conversation.usage.input_tokens > 150, "what was spent stays counted"


def test_the_cost_of_a_cycle_is_bounded() -> None:
    def dear(conversation: Any, call: Any) -> Any:
        return dataclasses.replace(says("done"), usage=Usage(input_tokens=1, output_tokens=1, cost_usd=0.4))

    play = play_of(endless, dear, cost_per_cycle_usd=1.0)
    assert limited(play) == "cost_per_cycle"
    assert "This cycle has cost $1.20 of $1.00." in play.said()[-1]
    play.person("/continue")
    play.settle()
    assert play.conversation.turn_count == 6
    assert play.conversation.usage.cost_usd == pytest.approx(2.4)


def busy(conversation: Any, call: Any) -> Any:
    """An agent that reads for ever."""
    return says("", ("read_file", {"path": f"{conversation.next_seq}"}))


def test_tokens_of_a_run_are_bounded_and_the_person_is_asked_once() -> None:
    play = play_of(lambda _: go("execute", "executor", "helper"), busy, tokens_per_run=100)
    assert [run.outcome for run in play.all(r.RunEnded)] == ["over_limit", "over_limit"]
    assert (play.conversation.status, play.conversation.waiting_for) == ("waiting", "limit")
    assert [hit.limit for hit in play.all(r.LimitReached)] == ["tokens_per_run"] * 2
    (asked,) = [text for text in play.said() if "/continue" in text]
    used = [f"{name}'s run has used 105 tokens of 100." for name in ("Executor", "Helper")]
    assert asked == f"{' '.join(used)} Write `/continue` to go on."
    assert not any("could not finish" in text for text in play.said()), "the same is not said twice"
    check_rest(play)
    play.person("/continue")
    play.settle()
    assert len(play.all(r.RunEnded)) == 4, "another run has as much again"


def test_the_cost_of_a_run_is_bounded() -> None:
    def dear(conversation: Any, call: Any) -> Any:
        return dataclasses.replace(busy(conversation, call), usage=Usage(cost_usd=0.4))

    play = play_of(lambda _: go("execute", "executor"), dear, cost_per_run_usd=1.0)
    assert limited(play) == "cost_per_run"
    assert play.said()[-1].startswith("Executor's run has cost $1.20 of $1.00.")


def test_a_limit_of_the_cycle_reached_within_a_run_is_said_once() -> None:
    play = play_of(lambda _: go("execute", "executor"), busy, tokens_per_cycle=100)
    assert limited(play) == "tokens_per_cycle"
    assert sum("This cycle has used" in text for text in play.said()) == 1


def test_the_tokens_of_a_conversation_are_bounded_across_its_cycles() -> None:
    play = play_of(Script(go(None, "project-manager"), WAITS), tokens_per_conversation=100)
    for _ in range(2):  # 45 in each cycle
        play.person("/new")
        play.router = Script(go(None, "project-manager"), WAITS)
        play.person("something small")
        play.settle()
    assert play.conversation.cycle == 3
    assert limited(play) == "tokens_per_conversation"
    play.router = endless
    play.person("/continue")
    play.settle()
    assert limited(play) == "tokens_per_conversation"
    used = play.conversation.usage.tokens
    assert 200 <= used < 260, "`/continue` allows as much again, once"
    assert play.refold() == play.conversation


def test_a_limit_of_zero_is_no_limit() -> None:
    play = play_of(endless, tokens_per_cycle=0, tokens_per_run=0, tokens_per_conversation=0, turns_per_message=9)
    assert limited(play) == "turns_per_message"


def test_a_new_cycle_has_the_tokens_of_a_cycle_again() -> None:
    play = play_of(endless, tokens_per_cycle=100)
    play.person("/new")
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person("something small")
    play.settle()
    assert play.conversation.waiting_for == "user"


def test_a_limit_stops_no_work_that_runs() -> None:
    play = play_of(endless, tokens_per_cycle=1)
    assert limited(play) == "tokens_per_cycle"
    assert play.all(r.RunEnded)[0].outcome == "finished", "the router had used it up before the agent began"


def test_an_addressed_agent_works_although_the_router_may_not() -> None:
    """The person asked for it; they need not say it twice."""
    play = play_of(endless, tokens_per_cycle=100)
    play.person("@executor please look", addressed=("executor",))
    assert play.all(r.TurnOpened)[-1].agents == ("executor",)
    play.settle()
    assert limited(play) == "tokens_per_cycle"


# ---- addressed agents ---------------------------------------------------------------------------------------------


def test_a_person_who_names_an_agent_decides_the_route_themselves() -> None:
    play = standing(Phase.CHAT)
    play.person("@planner, @helper: thoughts?", addressed=("planner", "helper"))
    opened = play.all(r.TurnOpened)[-1]
    assert (opened.agents, opened.phase, opened.reason) == (
        ("planner", "helper"),
        Phase.CHAT,
        "addressed by the person",
    )
    assert play.all(r.Routed)[-1].by == "alice"
    play.settle()
    assert play.conversation.waiting_for == "user"


def test_an_agent_named_while_others_work_has_its_turn_when_they_are_done() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    while play.conversation.turn is None:
        play.step()
    play.person("@security is that safe?", addressed=("security",))
    assert len(play.all(r.TurnOpened)) == 2, "one turn at a time"
    play.settle()
    assert [record.agents for record in play.all(r.TurnOpened)][-1] == ("security",)
    assert play.conversation.addressed == ()


def test_an_expert_named_in_execute_still_changes_nothing() -> None:
    play = standing(Phase.EXECUTE, worker=mind(execute=[says("", ("write_file", {"path": "a"})), says("ok")]))
    play.person("@security fix it", addressed=("security",))
    play.settle()
    assert play.all(r.ToolCallRejected)[0].tool == "write_file"
    assert play.conversation.touched == frozenset()


def test_an_agent_that_is_no_more_is_not_waited_for() -> None:
    """Named, then taken out of the roster: the router's own choice must not be put off for ever."""
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    while play.conversation.turn is None:
        play.step()
    play.person("@ghost boo", addressed=("ghost",))
    play.router = Script(go(None, "helper"), WAITS)
    play.settle(most=200)
    assert play.all(r.TurnOpened)[-1].agents == ("helper",)
    assert play.conversation.waiting_for == "user"


def test_an_agent_named_in_reflection_that_has_reflected_does_not_block_the_others() -> None:
    play = standing(Phase.CHORES, agents=("executor", "helper"))
    play.router = Script(go("reflection", "executor"), WAITS)
    play.settle()
    play.router = Script(go(None, "helper"), WAITS)
    play.person("@executor anything else?", addressed=("executor",))
    play.settle(most=200)
    reflecting = [record.agents for record in play.all(r.TurnOpened) if record.phase is Phase.REFLECTION]
    assert reflecting == [("executor",), ("helper",)]
    play.router = Script(go("chat", "project-manager"), WAITS)
    play.person("go on")
    play.settle(most=200)
    assert ("executor",) in [rec.agents for rec in play.all(r.TurnOpened) if rec.seq > play.all(r.CycleStarted)[-1].seq]


def test_an_agent_named_after_the_end_works_in_a_new_cycle() -> None:
    play = standing(Phase.CHAT, Script({"agents": ["END"], "reason": "done"}))
    play.settle()
    play.person("@planner one more", addressed=("planner",))
    assert (play.conversation.cycle, play.all(r.TurnOpened)[-1].agents) == (2, ("planner",))
