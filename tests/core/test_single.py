"""One agent alone: each message is a turn of it, and no router is ever asked."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits, Policy, Role
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import ModelCall
from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.port_values import UndoOutcome
from tenex.core.rollback.whole import of_fork
from tenex.core.signals import RollBack
from tenex.workflows.single.state import agent_of
from tests.fakes.scenario import ID, Scenario, check_idle, policy, remove_agent, reply, route
from tests.fakes.subagents import model_by_agent
from tests.fakes.workflows import unused_router


def alone(limits: Limits | None = None) -> Policy:
    return dataclasses.replace(policy(limits=limits), only_agent=Slug("executor"))


def answering(conversation: Conversation, call: ModelCall) -> ModelStep:
    return reply(f"{conversation.work.runs[call.run].agent} answers {conversation.cycle.messages[-1].text}")


def talk(*texts: str, worker: Any = answering, config: Policy | None = None) -> Scenario:
    scenario = Scenario(unused_router, worker, config=config or alone())
    for text in texts:
        scenario.converse(text)
    return scenario


def agents(scenario: Scenario) -> list[tuple[str, ...]]:
    return [record.agents for record in scenario.records(r.TurnOpened)]


def test_each_message_is_one_model_call_of_the_agent() -> None:
    scenario = talk("hello", "and again")
    assert scenario.sent_texts() == ["executor answers hello", "executor answers and again"]
    assert agents(scenario) == [("executor",), ("executor",)]
    assert len(scenario.records(r.ModelResponded)) == 2
    state = scenario.conversation
    assert (state.cycle.status, state.cycle.waiting_for, state.cycle.number, state.unmet_gates) == (
        "waiting",
        "user",
        1,
        (),
    )
    assert scenario.records(r.PhaseTransition) == scenario.records(r.Routed) == []
    tags = {name for record in scenario.records(r.MessageSent) for name, *_ in record.tags}
    assert not tags & {"phase", "workflow"}
    check_idle(scenario)


def test_the_agent_has_the_tools_of_its_definition() -> None:
    asks = reply("", ("write_file", {"path": "a"}), ("learn", {"lesson": "x"}))
    scenario = talk("write a", worker=model_by_agent(executor=[asks]))
    assert [record.ok for record in scenario.records(r.ToolCallCompleted)] == [True]
    assert "may not be used" in scenario.records(r.ToolCallRejected)[0].sentence
    assert scenario.conversation.cycle.touched == frozenset({"a"})


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
def test_commands_without_an_effect_report_it(command: str, answer: str) -> None:
    scenario = talk("hello", command)
    assert answer in scenario.sent_texts()[-1]
    assert agents(scenario) == [("executor",)]
    assert scenario.conversation.cycle.status == "waiting"


def test_a_mention_gives_another_agent_one_turn_unless_it_is_removed_before() -> None:
    scenario = talk("hello")
    scenario.converse("@planner what next?", addressed=("planner",)).converse("thanks")
    assert agents(scenario) == [("executor",), ("planner",), ("executor",)]
    assert scenario.conversation.work.addressed == ()
    scenario.user_writes("hello")
    scenario.user_writes("@planner look", addressed=("planner",))
    remove_agent(scenario, "planner")
    scenario.settle().converse("again")
    assert set(agents(scenario)[3:]) == {("executor",)}
    assert scenario.sent_texts()[-1] == "executor answers again"


def test_stop_ends_the_run_and_retry_runs_it_again() -> None:
    scenario = talk()
    scenario.user_writes("hello")
    scenario.converse("/stop")
    assert (agents(scenario), scenario.conversation.cycle.status) == ([("executor",)], "waiting")
    scenario.converse("/retry")
    assert agents(scenario) == [("executor",)] * 2
    assert scenario.sent_texts()[-1] == "executor answers hello"
    scenario.user_writes("/stop")
    scenario.converse("/continue")
    assert len(agents(scenario)) == 2, "what is finished is not done again"


def test_a_limit_asks_once_and_continue_goes_on() -> None:
    reads = [reply("", ("read_file", {"path": str(number)})) for number in range(9)]
    scenario = talk("hello", worker=model_by_agent(executor=reads), config=alone(Limits(tokens_per_cycle=30)))
    assert scenario.conversation.cycle.waiting_for == "limit"
    assert scenario.sent_texts()[-1].endswith("Write `/continue` to go on.")
    scenario.worker = answering
    scenario.converse("/continue")
    for _ in range(9):  # each message may use what a cycle may
        scenario.converse("hello")
    assert agents(scenario) == [("executor",)] * 11
    assert len(scenario.records(r.LimitReached)) == 1


def test_what_is_configured_later_changes_no_conversation_that_has_begun() -> None:
    scenario = talk("hello")
    scenario.policy = policy()
    assert agents(scenario.converse("again")) == [("executor",)] * 2
    phases = Scenario(lambda _: route(None, "planner"), answering)
    phases.user_writes("hello")
    phases.policy = alone()
    phases.step()
    assert agents(phases) == [("planner",)]


def test_an_agent_that_is_gone_is_reported_and_another_can_be_mentioned() -> None:
    scenario = talk("hello")
    remove_agent(scenario, "executor")
    scenario.converse("again")
    assert "There is no agent executor any more" in scenario.sent_texts()[-1]
    scenario.converse("@planner you?", addressed=("planner",))
    assert agents(scenario) == [("executor",), ("planner",)]


def test_the_list_of_commands_has_none_of_phases_and_workflows() -> None:
    shown = talk("hello", "/help").sent_texts()[-1]
    assert "/undo" in shown
    assert not [name for name in ("/quick", "/skip", "/approve ", "/reject", "/set", "/pause") if name in shown]


def test_an_undo_names_no_turn() -> None:
    scenario = talk("hello")
    scenario.undo = lambda _: UndoOutcome(since="turn-1 (executor)", files=("table.csv",), by_name=("table.csv",))
    scenario.converse("/undo")
    assert "1 file changed since before the last work: table.csv." in scenario.sent_texts()[-1]


def test_rollback_and_fork_keep_the_agent() -> None:
    scenario = talk("hello", "again")
    first = scenario.records(r.TurnClosed)[0].seq
    then = fold(ID, scenario.records()[:first])
    scenario.handle(RollBack(to=first, by="alice", reason="", then=then))
    assert "we are in cycle 1, after turn-1 (executor)" in scenario.sent_texts()[-1]
    scenario.converse("once more")
    assert agents(scenario)[-1] == ("executor",)
    forked = of_fork(then, Millis(5), id=ID, address={}, title="Fork")
    assert (agent_of(forked), forked.cycle.phase, forked.cycle.status) == ("executor", Phase.EXECUTE, "waiting")


def test_status_names_the_agent_and_no_phase_and_new_begins_another_cycle_with_it() -> None:
    scenario = talk("hello", "/status")
    assert scenario.sent_texts()[-1].splitlines()[:2] == ["Agent: executor", "I wait for you."]
    scenario.converse("/new").converse("something else")
    assert (scenario.conversation.cycle.number, scenario.conversation.cycle.phase) == (2, Phase.EXECUTE)
    assert agents(scenario) == [("executor",)] * 2
    assert not scenario.records(r.PhaseTransition)


def test_a_stranger_does_not_answer_what_the_agent_asked_and_their_words_are_a_message() -> None:
    asks = reply("", ("ask", {"question": "Which colour?"}))
    scenario = talk("paint it", worker=model_by_agent(executor=[asks, "done", "hello to you"]))
    scenario.converse("red", role=Role.GUEST, author=PublicKey("b" * 64), name="bob")
    assert scenario.records(r.QuestionAnswered) == []
    assert scenario.conversation.work.is_parked
    scenario.converse("blue")
    assert [record.text for record in scenario.records(r.QuestionAnswered)] == ["blue"]
    check_idle(scenario)


def test_a_message_in_the_last_step_of_a_run_has_a_turn_of_its_own() -> None:
    """The agent has given its answer to the one before it, and has not read this one."""
    scenario = talk()
    scenario.user_writes("hello")
    scenario.user_writes("and again")
    scenario.settle()
    assert agents(scenario) == [("executor",), ("executor",)]
    assert scenario.conversation.requests == ()


def test_plans_need_no_approval_here() -> None:
    scenario = talk("hello", "/approve", "/reject it")
    assert scenario.sent_texts()[1:] == ["Plans need no approval here."] * 2
