"""One agent alone: each message is a turn of it, and no router is ever asked."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits, Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import Millis, Slug
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.signals import RollBack
from tenex.core.state.rollback import of_fork
from tests.fakes.play import ID, Play, rules, says

from .kit import check_rest, check_sound, go


def unused(question: dict[str, Any]) -> Any:
    raise AssertionError(f"the router was asked: {question}")


def alone(limits: Limits | None = None) -> Policy:
    return dataclasses.replace(rules(limits=limits), only_agent=Slug("executor"))


def answering(conversation: Conversation, call: ModelCall) -> ModelStep:
    return says(f"{conversation.runs[call.run].agent} answers {conversation.messages[-1].text}")


def talk(*texts: str, worker: Any = answering, config: Policy | None = None) -> Play:
    play = Play(unused, worker, config=config or alone())
    for text in texts:
        play.person(text)
        play.settle()
    return play


def agents(play: Play) -> list[tuple[str, ...]]:
    return [record.agents for record in play.all(r.TurnOpened)]


def test_each_message_is_one_model_call_of_the_agent() -> None:
    play = talk("hello", "and again")
    assert play.said() == ["executor answers hello", "executor answers and again"]
    assert agents(play) == [("executor",), ("executor",)]
    assert len(play.all(r.ModelResponded)) == 2
    assert (play.conversation.status, play.conversation.waiting_for, play.conversation.cycle) == ("waiting", "user", 1)
    assert not play.all(r.PhaseTransition)
    assert not play.all(r.Routed)
    assert not play.conversation.open_gates
    assert not any(name in ("phase", "workflow") for record in play.all(r.MessageSent) for name, *_ in record.tags)
    check_rest(play)
    check_sound(play)


def test_the_agent_has_the_tools_of_its_definition() -> None:
    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        if conversation.runs[call.run].steps:
            return says("done")
        return says("", ("write_file", {"path": "a"}), ("learn", {"lesson": "x"}))

    play = talk("write a", worker=worker)
    assert [record.ok for record in play.all(r.ToolCallCompleted)] == [True]
    assert "may not be used" in play.all(r.ToolCallRejected)[0].sentence
    assert play.conversation.touched == frozenset({"a"})


def test_a_mention_gives_another_agent_one_turn() -> None:
    play = talk("hello")
    play.person("@planner what next?", addressed=("planner",))
    play.settle()
    play.person("thanks")
    play.settle()
    assert agents(play) == [("executor",), ("planner",), ("executor",)]
    assert play.conversation.addressed == ()


def test_a_message_while_the_agent_works_reaches_it_or_is_answered_next() -> None:
    play = talk()
    play.person("one")
    play.person("two")
    play.settle()
    shown = [turn.completions[0].text for turn in play.conversation.turns]
    assert shown[-1] == "executor answers two"
    assert not play.conversation.unanswered


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/quick", "no quality gates"),
        ("/skip chores", "no quality gates"),
        ("/set a=1", "Only a workflow"),
        ("/pause", "Only a mission"),
        ("/continue", "nothing to go on with"),
        ("/stop", "Nothing is running."),
    ],
)
def test_commands_without_an_effect_say_so(command: str, answer: str) -> None:
    play = talk("hello", command)
    assert answer in play.said()[-1]
    assert agents(play) == [("executor",)]
    assert play.conversation.status == "waiting"


def test_status_names_the_agent_and_no_phase() -> None:
    play = talk("hello", "/status")
    assert play.said()[-1].splitlines()[:2] == ["Agent: executor (cycle 1)", "I wait for you."]
    assert "execute" not in play.said()[-1].replace("executor", "")


def test_stop_ends_the_run_and_retry_runs_it_again() -> None:
    play = talk()
    play.person("hello")
    play.person("/stop")
    play.settle()
    assert (agents(play), play.conversation.status) == ([("executor",)], "waiting")
    play.person("/retry")
    play.settle()
    assert agents(play) == [("executor",)] * 2
    assert play.said()[-1] == "executor answers hello"
    play.person("/stop")
    play.person("/continue")
    play.settle()
    assert len(agents(play)) == 2, "what is finished is not done again"


def test_new_begins_another_cycle_with_the_same_agent() -> None:
    play = talk("hello", "/new", "something else")
    assert (play.conversation.cycle, play.conversation.phase) == (2, Phase.EXECUTE)
    assert agents(play) == [("executor",)] * 2
    assert not play.all(r.PhaseTransition)


def test_a_limit_asks_once_and_continue_goes_on() -> None:
    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        return says("", ("read_file", {"path": str(conversation.next_seq)}))

    play = talk("hello", worker=worker, config=alone(Limits(tokens_per_cycle=30)))
    assert play.conversation.waiting_for == "limit"
    assert play.said()[-1].endswith("Write `/continue` to go on.")
    play.worker = answering
    play.person("/continue")
    play.settle()
    assert agents(play) == [("executor",)] * 2
    assert play.conversation.waiting_for == "user"


def test_what_is_configured_later_changes_no_conversation_that_has_begun() -> None:
    play = talk("hello")
    play.rules = rules()
    play.person("again")
    play.settle()
    assert agents(play) == [("executor",)] * 2
    phases = Play(lambda _: go(None, "planner"), answering)
    phases.person("hello")
    phases.rules = alone()
    phases.step()
    assert agents(phases) == [("planner",)]


def test_an_agent_that_is_gone_is_reported_and_another_can_be_mentioned() -> None:
    play = talk("hello")
    play.rules = dataclasses.replace(
        play.rules, roster={slug: one for slug, one in play.rules.roster.items() if slug != "executor"}
    )
    play.person("again")
    play.settle()
    assert "There is no agent executor any more" in play.said()[-1]
    play.person("@planner you?", addressed=("planner",))
    play.settle()
    assert agents(play) == [("executor",), ("planner",)]


def test_a_question_of_the_agent_is_answered_by_the_next_message() -> None:
    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        if conversation.runs[call.run].steps:
            return says("blue it is")
        return says("", ("ask", {"question": "Which colour?"}))

    play = talk("paint it", "blue", worker=worker)
    assert play.said() == ["Which colour?", "blue it is"]
    assert agents(play) == [("executor",)]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("append", [1, 2, 3, 4])
def test_a_crash_at_any_append_changes_nothing_that_is_said(append: int, moment: str) -> None:
    play = Play(unused, answering, config=alone())
    play.crash_at = (append, moment)
    for text in ("hello", "again"):
        play.person(text)
        play.settle()
    assert play.said() == ["executor answers hello", "executor answers again"]
    assert play.refold() == play.conversation


def test_rollback_and_fork_keep_the_agent() -> None:
    play = talk("hello", "again")
    first = play.all(r.TurnClosed)[0].seq
    records = [record for decision in play.journal for record in decision]
    then = Conversation(id=ID)
    for record in records[:first]:
        then.apply(record)
    play.hear(RollBack(to=first, by="alice", reason="", then=then))
    play.settle()
    assert "we are in cycle 1, after turn-1 (executor)" in play.said()[-1]
    play.person("once more")
    play.settle()
    assert agents(play)[-1] == ("executor",)
    forked = of_fork(then, Millis(5), id=ID, address={}, title="Fork")
    assert (forked.agent, forked.phase, forked.status) == ("executor", Phase.EXECUTE, "waiting")


def test_a_conversation_with_phases_records_neither_the_agent_nor_the_phase_of_its_cycle() -> None:
    play = Play(lambda _: {"agents": ["USER"], "reason": "wait"}, answering)
    play.person("hello")
    assert play.all(r.ConversationStarted)[0].agent == ""
    assert play.all(r.CycleStarted)[0].phase is Phase.CHAT


def test_the_note_on_its_part_names_who_wrote() -> None:
    play = talk("hello")
    assert "alice wrote to you" in str(play.all(r.RunStarted)[0].entries)
