"""Colleagues called like tools: a run of their own, whose outcome is the call's result and no part of the turn."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, Limits, Policy
from tenex.core.context.transcript import entries_for
from tenex.core.costs import run_agent
from tenex.core.decide.rollback import state_at
from tenex.core.effects import ModelCall, Timer, ToolCall
from tenex.core.graph import Edge, TransitionGraph
from tenex.core.ids import Millis, RunId, Slug
from tenex.core.messages import AgentText, CallResult, Note, UserText
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed, RollBack
from tenex.core.state.agent import Scope
from tenex.core.state.run import CallState, Run
from tenex.core.state.subagents import link_specs
from tenex.core.workflow.conditions import Predicate
from tenex.workflows.speakers import AgentTarget, TerminateTarget, ToolCalled, Transition
from tenex.workflows.speakers import TransitionGraph as Rounds
from tests.fakes.linked import cast, link, linked, to
from tests.fakes.play import Play, rules, says
from tests.fakes.workflows import NAME, TRIO
from tests.fakes.workflows import play as of_rounds

from .kit import WAITS, Script, check_rest, check_sound, go, standing, until, work
from .test_runs import results

LEAD = says("I ask around", *to("helper"))
CALM = Limits(default_expectation=Expectation(warn_after=20_000, close_after=60_000))


def at_work(
    config: Policy | None = None,
    *,
    phase: str = "execute",
    limits: Limits | None = None,
    agents: tuple[str, ...] = ("executor",),
    **steps: Any,
) -> Play:
    """A play in which the executor may call the helper, and a turn in execute has just been opened."""
    config = config or linked(rules(limits=limits), executor=["helper"])
    play = standing(Phase.CHAT, Script(go(phase, *agents), WAITS), config=config)
    until(play, lambda it: it.conversation.turn is not None)
    play.worker = cast(**steps)
    return play


def of(play: Play, agent: str) -> Run:
    """The open run of an agent."""
    return next(run for run in play.conversation.runs.values() if run.agent == agent)


def outcomes(play: Play) -> dict[str, str]:
    """What became of each agent's runs in the turn, the last of each."""
    return {run_agent(done.run): done.outcome for done in play.all(r.RunEnded) if done.run.startswith("turn-2")}


def step_until_called(play: Play, agent: str = "helper") -> Run:
    until(play, lambda it: any(run.agent == agent for run in it.conversation.runs.values()))
    return of(play, agent)


# ---- a call, and what comes of it ---------------------------------------------------------------------------------


def test_a_call_of_a_colleague_is_a_run_whose_text_is_the_result() -> None:
    play = at_work(executor=[LEAD, "built"], helper=["use green"])
    child = step_until_called(play)
    assert (child.parent, child.call) == ("turn-2.executor", "k0")
    assert [effect.run for effect in work(play) if isinstance(effect, ModelCall)] == [child.id]
    play.settle()
    assert results(play) == [("k0", True, "use green")]
    assert outcomes(play) == {"executor": "finished", "helper": "finished"}
    check_rest(play)
    check_sound(play)


def test_nothing_of_it_is_part_of_the_turn_or_said_to_people() -> None:
    play = at_work(executor=[LEAD, "built"], helper=["use green"])
    play.settle()
    turn = play.conversation.last_turn
    assert turn is not None
    assert [done.agent for done in turn.completions] == ["executor"]
    assert "helper" not in play.conversation.participants
    assert "use green" not in play.said()
    assert "built" in play.said()


def test_it_sees_the_message_of_its_caller_and_not_the_conversation() -> None:
    play = at_work(executor=[says("", *to("helper", message="which colour?")), "built"])
    child = step_until_called(play)
    note, words = child.entries
    assert isinstance(note, Note)
    assert "Executor has called you" in note.text
    assert words == AgentText(author="Executor", text="which colour?")


def test_what_a_person_writes_meanwhile_reaches_it_as_it_reaches_everybody_at_work() -> None:
    play = at_work(executor=[LEAD, "built"], helper=[says("", ("read_file", {"path": "a"})), "use green"])
    step_until_called(play)
    play.person("make it green")
    until(play, lambda it: of(it, "helper").steps == 1 and of(it, "helper").wants is not None)
    assert any(isinstance(entry, UserText) and entry.text == "make it green" for entry in of(play, "helper").entries)


def test_its_tools_run_like_anybody_s_and_what_it_costs_counts() -> None:
    play = at_work(executor=[LEAD, "built"], helper=[says("", ("send", {"path": "m"})), "sent"])
    before = play.conversation.cycle_usage.calls
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    (call,) = [effect for effect in play.running.values() if isinstance(effect, ToolCall)]
    assert call.context.agent == "helper"
    until(play, lambda it: it.conversation.turn is None)
    assert play.conversation.cycle_usage.calls == before + 4, "two of each"
    assert play.conversation.touched == {"m"}
    check_sound(play)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ModelFailed(key=None, message="filtered", retryable=False), "Helper failed: filtered"),  # type: ignore[arg-type]
        (says(""), "Helper failed: its model gave empty answers"),
    ],
)
def test_one_that_fails_is_a_failed_result_and_its_caller_goes_on(fault: Any, told: str) -> None:
    play = at_work(executor=[LEAD, "built alone"], helper=[fault] * 3)
    play.settle()
    assert results(play) == [("k0", False, told)]
    assert outcomes(play) == {"executor": "finished", "helper": "failed"}
    assert not any("could not finish" in text for text in play.said())


def test_in_verification_it_owes_no_verdict_and_may_give_one() -> None:
    config = linked(rules(), executor=["helper", "planner"])
    verdict = says("", ("complete", {"response": "runs", "verdict": "verified"}))
    play = standing(Phase.EXECUTE, Script(go("verification", "executor"), WAITS), config=config)
    play.worker = cast(executor=[says("", *to("helper", "planner")), verdict], helper=["looks fine"], planner=[verdict])
    play.settle()
    assert sorted(results(play)) == [("k0", True, "looks fine"), ("k1", True, "[verified] runs")]
    assert play.conversation.last_turn is not None
    assert [done.verdict for done in play.conversation.last_turn.completions] == ["verified"]


# ---- several, and deep --------------------------------------------------------------------------------------------


def test_colleagues_called_in_one_answer_work_at_the_same_time() -> None:
    config = linked(rules(), executor=["helper", "planner"])
    both = says("", *to("helper", "planner"), ("read_file", {"path": "a"}))
    play = at_work(config, executor=[both, "built"])
    step_until_called(play)
    assert {run.agent for run in play.conversation.runs.values()} == {"executor", "helper", "planner"}
    assert sum(isinstance(effect, ModelCall) for effect in work(play)) == 2
    assert sum(isinstance(effect, ToolCall) for effect in work(play)) == 1
    play.settle(seed=3)
    shown = [entry for entry in _entries(play, "turn-2.executor") if isinstance(entry, CallResult)]
    assert [entry.content for entry in shown] == ["helper is done", "planner is done", "read_file done"]


def _entries(play: Play, run: str) -> Any:
    """What the run's model was shown before its last step."""
    before = [record for decision in play.journal for record in decision]
    last = max(record.seq for record in before if isinstance(record, r.ModelResponded) and record.run == run)
    twin = type(play.conversation)(id=play.conversation.id)
    for record in before[: last - 1]:
        twin.apply(record)
    return twin.runs[RunId(run)].entries


def test_one_that_keeps_its_standing_works_for_one_call_at_a_time() -> None:
    config = linked(rules(), executor=[link("helper", is_shared=True)])
    play = at_work(config, executor=[says("", *to("helper", "helper")), "built"])
    child = step_until_called(play)
    assert child.state_key == "helper"
    assert len(play.conversation.runs) == 2
    play.settle()
    assert [ok for _, ok, _ in results(play)] == [True, True]


def test_one_that_begins_anew_stands_alone() -> None:
    play = at_work(executor=[says("", *to("helper", "helper")), "built"])
    step_until_called(play)
    names = [run.state_key for run in play.conversation.runs.values()]
    assert len(set(names)) == 3
    assert names[0] == "executor"


def test_no_more_than_eight_work_for_one_run_at_a_time() -> None:
    play = at_work(executor=[says("", *to(*["helper"] * 11)), "built"])
    step_until_called(play)
    assert len(play.conversation.runs) == 9
    play.settle(seed=1)
    assert len(results(play)) == 11
    assert all(ok for _, ok, _ in results(play))


def test_colleagues_call_colleagues_down_to_the_limit() -> None:
    config = linked(
        rules(limits=Limits(link_depth=2)), executor=["helper"], helper=["planner"], planner=["project-manager"]
    )
    deeper = says("", *to("project-manager"))
    play = at_work(
        config,
        executor=[LEAD, "built"],
        helper=[says("", *to("planner")), "planned"],
        planner=[deeper, "did it myself"],
    )
    play.settle()
    first, *others = results(play)
    assert not first[1]
    assert "2 deep at most" in first[2]
    assert [content for _, _, content in others] == ["did it myself", "planned"]
    assert outcomes(play).keys() == {"executor", "helper", "planner"}


def test_nobody_is_called_by_whom_it_waits_for() -> None:
    config = linked(rules(), executor=["helper"], helper=["executor", "helper"])
    play = at_work(config, executor=[LEAD, "built"], helper=[says("", *to("executor", "helper")), "then not"])
    play.settle()
    refused = [record.sentence for record in play.all(r.ToolCallRejected)]
    assert len(refused) == 2
    assert all("cannot be called from here" in sentence for sentence in refused)


# ---- who may be called now ----------------------------------------------------------------------------------------


class Never:
    """A condition that does not hold."""

    def holds(self, facts: Any) -> bool:
        return False


GRAPH = TransitionGraph(
    nodes=("planning", "research"), initial="planning", edges=(Edge("planning", "research", Never()),)
)


class Broken:
    """A condition that cannot be asked."""

    def holds(self, facts: Any) -> bool:
        raise KeyError("nothing there")


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (Scope(phases=frozenset({"research"})), "it belongs to research; nothing was done. You are in"),
        (Scope(phases=frozenset({"planning"}), when=Never()), "its condition does not hold"),
        (Scope(when=Broken()), "its condition failed (KeyError: "),
    ],
)
def test_a_link_out_of_phase_or_condition_is_not_offered_and_refused_when_called(scope: Scope, said: str) -> None:
    config = linked(rules(), GRAPH, executor=[link("helper", scope=scope)])
    play = at_work(config, executor=[LEAD, "built alone"])
    assert link_specs(play.conversation, of(play, "executor"), config) == ()
    play.settle()
    ((_, ok, sentence),) = results(play)
    assert not ok
    assert said in sentence


def test_a_link_that_may_be_called_is_a_tool_described_by_its_description() -> None:
    config = linked(rules(), GRAPH, executor=[link("helper", scope=Scope(phases=frozenset({"planning"})))])
    play = at_work(config)
    (spec,) = link_specs(play.conversation, of(play, "executor"), config)
    assert (spec.name, spec.description) == ("to_helper", "helper looks into it")
    assert spec.parameters["required"] == ["message"]


@pytest.mark.parametrize("arguments", [{}, {"message": 7}, {"message": "  "}])
def test_a_call_without_a_message_is_refused(arguments: dict[str, Any]) -> None:
    play = at_work(executor=[says("", ("to_helper", arguments)), "built"])
    play.settle()
    assert results(play) == [("k0", False, "`to_helper` needs `message`, a text that is not empty.")]


def test_who_asks_for_what_is_not_there_is_told_whom_it_may_call() -> None:
    play = at_work(executor=[says("", ("to_halper", {"message": "x"})), "built"])
    play.settle()
    assert results(play)[0][2].endswith("You may use: ask, check, complete, read_file, send, to_helper, write_file.")


def test_whom_it_may_not_call_is_not_named_to_it() -> None:
    """One who may do more than who advises; a caller that waits; one of another phase."""
    config = linked(linked(rules(), security=["helper"]), helper=["security", "executor"], executor=["helper"])
    asks = says("", ("to_halper", {"message": "x"}))
    play = at_work(config, agents=("security", "executor"), security=[asks], executor=[LEAD], helper=[asks])
    play.settle()
    told = {str(run_agent(one.run)): one.sentence for one in play.all(r.ToolCallRejected) if one.tool == "to_halper"}
    assert told["security"].endswith("You may use: ask, complete, read_file.")
    assert "to_security" in told["helper"]
    assert "to_executor" not in told["helper"]


def test_who_advises_calls_nobody_who_may_do_more() -> None:
    config = linked(rules(), security=["helper"])
    play = at_work(config, agents=("security",), security=[LEAD, "advised"])
    play.settle()
    assert "who advises" in results(play)[0][2]


def test_who_has_left_the_roster_is_not_called() -> None:
    config = linked(rules(), executor=["helper"])
    play = at_work(config, executor=[LEAD, "built"])
    play.rules = dataclasses.replace(config, roster={k: v for k, v in config.roster.items() if k != "helper"})
    play.settle()
    assert "no agent is called helper any more" in results(play)[0][2]


def test_in_reflection_everybody_answers_for_themselves() -> None:
    config = linked(rules(), executor=["helper"])
    play = standing(Phase.CHORES, Script(go("reflection", "executor"), WAITS), config=config)
    play.worker = cast(executor=[LEAD, "I learnt"])
    play.settle()
    assert "reflection phase" in results(play)[-1][2]


# ---- time, stops and questions ------------------------------------------------------------------------------------


def test_a_caller_s_time_stands_still_while_a_colleague_works() -> None:
    play = at_work(limits=CALM, executor=[LEAD, "built"])
    child = step_until_called(play)
    closing = of(play, "executor").close_at
    timers = {effect.key.seq for effect in pending(play.conversation).values() if isinstance(effect, Timer)}
    assert of(play, "executor").armed not in timers
    assert child.armed in timers
    play.now = Millis(play.now + 50_000)
    began = of(play, "executor").parked_at
    assert began is not None
    until(play, lambda it: len(it.conversation.runs) == 1)
    caller = of(play, "executor")
    assert caller.close_at == closing + play.now - began
    assert caller.parked_at is None


def test_one_that_takes_too_long_is_a_result_that_says_so() -> None:
    play = at_work(limits=CALM, executor=[LEAD, "built alone"], helper=[says("", ("check", {}))])
    step_until_called(play)
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    play.fire("close")
    play.settle()
    assert results(play)[-1] == ("k0", False, "Helper timed out: no answer within 1 min")
    assert outcomes(play) == {"executor": "finished", "helper": "timed_out"}


def test_a_caller_that_ends_takes_along_whom_it_called() -> None:
    config = linked(rules(limits=CALM), executor=["helper"], helper=["planner"])
    play = at_work(config, executor=[says("", *to("helper"), ("read_file", {}))], helper=[says("", *to("planner"))])
    while not any(run.agent == "planner" for run in play.conversation.runs.values()):
        play.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    key = next(effect.key for effect in work(play) if isinstance(effect, ToolCall))
    timer = next(e for e in play.running.values() if e.key.part == "close" and e.key.seq == of(play, "executor").armed)
    play.running.pop(timer.key)
    play.hear(play.perform(timer))
    assert play.conversation.runs == {}
    assert outcomes(play) == {"executor": "timed_out", "helper": "stopped", "planner": "stopped"}
    assert key not in pending(play.conversation)
    play.settle()
    check_rest(play)
    check_sound(play)


def test_a_stop_ends_everybody_once() -> None:
    config = linked(rules(), executor=["helper"], helper=["planner"])
    play = at_work(config, executor=[LEAD], helper=[says("", *to("planner"))], planner=[says("", ("check", {}))])
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    play.person("/stop")
    assert outcomes(play) == {"executor": "stopped", "helper": "stopped", "planner": "stopped"}
    assert "Stopped: Executor, Helper, Planner." in play.said()[-1]
    play.settle()
    check_rest(play)
    check_sound(play)


def test_one_that_asks_the_person_is_answered_and_its_caller_waits() -> None:
    play = at_work(limits=CALM, executor=[LEAD, "built"], helper=[says("", ("ask", {"question": "Which?"})), "green"])
    play.settle()
    assert play.conversation.is_parked
    assert play.said()[-1] == "Which?"
    parked = {effect.key.part for effect in pending(play.conversation).values()} & {"warn", "close"}
    assert not parked, "nobody's time runs while a person thinks"
    play.now = Millis(play.now + 10_000_000)
    play.person("green")
    play.settle()
    assert results(play)[-1] == ("k0", True, "green")
    assert outcomes(play)["executor"] == "finished"


def test_the_status_says_who_waits_for_whom() -> None:
    play = at_work(executor=[LEAD])
    step_until_called(play)
    play.person("/status")
    assert "Executor: waits for Helper" in play.said()[-1]


# ---- the process ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_wherever_it_is_cut_off_nobody_is_called_twice(moment: str) -> None:
    """At every append: the same ends, each colleague begun once, no result given twice, no tool run twice for one."""
    config = linked(rules(), executor=["helper", "planner"], helper=["security"])
    steps: dict[str, Any] = {
        "executor": [says("", *to("helper", "planner"), ("write_file", {"path": "a"})), "built"],
        "helper": [says("", *to("security"), ("send", {"path": "m"})), "sent"],
    }

    whole = at_work(config, **steps)
    before = whole.appends
    whole.settle()
    assert whole.appends - before >= 10
    for crash in range(before + 1, whole.appends + 1):
        play = at_work(config, **steps)
        play.crash_at = crash, moment
        play.settle()
        assert play.crashed == 1
        begun = [(record.parent, record.call) for record in play.all(r.RunStarted) if record.parent is not None]
        assert len(begun) == len(set(begun)) == 3
        ended = [record.run for record in play.all(r.RunEnded)]
        assert len(ended) == len(set(ended))
        returned = [(record.run, record.call) for record in play.all(r.ToolCallCompleted)]
        assert len(returned) == len(set(returned))
        assert outcomes(play) == outcomes(whole)
        once = {f"{play.conversation.id}:{x.seq}" for x in play.all(r.ToolCallStarted) if x.replay == "once"}
        assert all(play.ran[key] <= 1 for key in once)
        assert play.conversation.status == whole.conversation.status
        check_sound(play)


def test_a_call_waits_for_the_same_colleague_after_a_restart() -> None:
    play = at_work(executor=[LEAD, "built"])
    child = step_until_called(play)
    play.crash()
    assert of(play, "helper").id == child.id
    (call,) = of(play, "executor").open_calls
    assert call.state is CallState.LINKED
    play.settle()
    assert len([x for x in play.all(r.RunStarted) if x.agent == Slug("helper") and x.parent]) == 1


# ---- in a workflow, and back in time ------------------------------------------------------------------------------


def of_a_workflow(graph: Rounds, speaker: str, calls: Any, **minds: Any) -> Play:
    """The trio's workflow, in which a speaker's first answer makes these calls; a person has opened it."""
    play = of_rounds(graph)
    play.rules = linked(play.rules, None, **{speaker: ["editor", "planner"]})
    play.person("Make it good", addressed=(NAME,))
    alone = cast(**{speaker: [calls], **minds})
    play.worker = lambda conversation, call: (
        alone(conversation, call)
        if conversation.turn_count == 1
        else says(f"{conversation.runs[call.run].agent} spoke")
    )
    return play


def test_whom_a_speaker_calls_takes_no_part_in_the_workflow() -> None:
    """It cannot hand over."""
    hands_over = says("", ("handoff", {"target": "checker"}), ("read_file", {"path": "a"}))
    calls = says("", *to("editor"))
    play = of_a_workflow(Rounds.sequence(TRIO), "writer", calls, editor=[hands_over, "seen"])
    step_until_called(play, "editor")
    assert {effect.key.part for effect in pending(play.conversation).values() if isinstance(effect, Timer)} == {
        "turn_within.warn",
        "turn_within.close",
        "ttl.close",
    }
    play.settle()
    assert "There is no tool handoff" in "".join(record.sentence for record in play.all(r.ToolCallRejected))
    assert [record.speaker for record in play.all(r.RoundClosed)] == list(TRIO)
    assert len([record for record in play.all(r.RunEnded) if "/" in record.run]) == 1


def test_the_call_of_a_colleague_counts_for_a_workflow_s_rule() -> None:
    graph = Rounds(
        transitions=[Transition(when=ToolCalled("to_planner"), then=AgentTarget("checker"))],
        initial_speaker="writer",
        default_target=TerminateTarget("enough"),
    )
    play = of_a_workflow(graph, "writer", says("", *to("planner")))
    play.settle()
    assert [record.speaker for record in play.all(r.RoundClosed)][:2] == ["writer", "checker"]
    assert [record.agent for record in play.all(r.RunStarted) if record.parent] == ["planner"]


def test_a_refused_call_does_not_count_because_a_colleague_s_of_the_same_id_was_let_through() -> None:
    graph = Rounds(
        transitions=[Transition(when=ToolCalled("learn"), then=AgentTarget("checker"))],
        initial_speaker="writer",
        default_target=TerminateTarget("enough"),
    )
    calls = says("", ("learn", {"lesson": "x"}), *to("planner"))
    play = of_a_workflow(graph, "writer", calls, planner=[says("", ("read_file", {"path": "a"}))])
    play.settle()
    assert [record.speaker for record in play.all(r.RoundClosed)] == ["writer"]
    assert {record.call for record in play.all(r.ToolCallStarted)} == {
        record.call for record in play.all(r.ToolCallRejected)
    }


def test_a_round_that_takes_too_long_ends_whoever_was_called() -> None:
    play = of_a_workflow(Rounds.sequence(TRIO), "writer", says("", *to("editor")))
    step_until_called(play, "editor")
    play.fire("turn_within.close")
    play.settle()
    assert {run_agent(done.run): done.outcome for done in play.all(r.RunEnded)} == {
        "editor": "stopped",
        "writer": "timed_out",
    }
    assert play.conversation.status == "ended"
    check_sound(play)


def test_going_back_to_the_middle_of_a_colleague_s_work_leaves_nothing_of_it_open() -> None:
    play = at_work(executor=[LEAD, "built"], helper=["use green"])
    step_until_called(play)
    middle = play.conversation.next_seq - 1
    play.settle()
    then = state_at(play.conversation.id, [record for decision in play.journal for record in decision], middle)
    assert {run.agent for run in then.runs.values()} == {"executor", "helper"}
    play.hear(RollBack(to=middle, then=then, by="the operator"))
    assert (play.conversation.runs, play.conversation.status) == ({}, "waiting")
    last = play.conversation.last_turn
    assert last is not None
    assert [(done.agent, done.outcome) for done in last.completions] == [("executor", "stopped")]
    play.person("/continue")
    play.settle()
    check_rest(play)
    check_sound(play)


def test_a_colleague_that_one_called_before_makes_room_for_is_called_then() -> None:
    heard: list[str] = []
    edge = Edge("planning", "research", Predicate(lambda me: heard))
    opens = TransitionGraph(nodes=("planning", "research"), initial="planning", edges=(edge,))
    late = link("planner", scope=Scope(phases=frozenset({"research"})))
    config = linked(rules(), opens, executor=["helper", late])
    play = at_work(config, executor=[says("", *to("helper", "planner"), ("complete", {"response": "built"}))])
    step_until_called(play)
    assert not play.all(r.ToolCallRejected)
    heard.append("helper")
    play.settle()
    assert outcomes(play) == {"helper": "finished", "planner": "finished", "executor": "finished"}
    check_sound(play)


def test_a_sub_agent_called_after_a_tool_begins_when_that_tool_has_returned() -> None:
    """It works on what the tool left, as another tool in its place would."""
    config = linked(rules(), executor=["helper", "planner"])
    play = at_work(config, executor=[says("", ("check", {}), *to("helper", "planner")), "built"])
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    assert not [run for run in play.conversation.runs.values() if run.parent]
    play.step(lambda ready: next(effect for effect in ready if isinstance(effect, ToolCall)))
    assert {run.agent for run in play.conversation.runs.values() if run.parent} == {"helper", "planner"}
    play.settle()
    assert [ok for _, ok, _ in results(play)] == [True, True, True]
    check_rest(play)
    check_sound(play)


def test_a_sub_agent_whose_phase_ends_with_the_tool_before_it_is_refused() -> None:
    """The phase at the start of a call decides, and the tool that stands before it has left that phase."""
    checked: list[str] = []
    edge = Edge("planning", "research", Predicate(lambda me: checked))
    graph = TransitionGraph(nodes=("planning", "research"), initial="planning", edges=(edge,))
    config = linked(rules(), graph, executor=[link("helper", scope=Scope(phases=frozenset({"planning"})))])
    play = at_work(config, executor=[says("", ("check", {}), *to("helper")), "built"])
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    checked.append("check")
    play.settle()
    (refused,) = play.all(r.ToolCallRejected)
    assert "it belongs to planning; nothing was done. You are in your phase research." in refused.sentence
    assert not [record for record in play.all(r.RunStarted) if record.parent]
    check_rest(play)
    check_sound(play)


def test_a_tool_called_after_a_sub_agent_starts_when_that_has_answered_and_reads_start_at_once() -> None:
    calls = (*to("helper"), ("check", {}), ("read_file", {}))
    play = at_work(executor=[says("", *calls), "built"], helper=["use green"])
    step_until_called(play)
    assert [call.tool for call in play.all(r.ToolCallStarted)] == ["read_file"]
    play.settle()
    (_, check), (answered, _) = play.all(r.ToolCallStarted), play.all(r.RunEnded)[-2:]
    assert (check.tool, run_agent(answered.run)) == ("check", "helper")
    assert answered.seq < check.seq
    check_rest(play)
    check_sound(play)


def test_one_that_is_only_called_is_given_no_turn_by_the_router_or_a_mention() -> None:
    config = linked(rules(), executor=["helper"])
    helper = dataclasses.replace(config.roster[Slug("helper")], is_called_only=True)
    config = dataclasses.replace(config, roster={**config.roster, helper.slug: helper})
    rosters: list[list[str]] = []

    def router(question: dict[str, Any]) -> Any:
        rosters.append([one["slug"] for one in question["roster"]])
        return WAITS if question["turns"] else go("execute", "helper" if not question["rejections"] else "executor")

    play = Play(router, cast(executor=[LEAD, "built"], helper=["use green"]), config=config)
    play.person("@helper build it", addressed=("helper",))
    play.settle()
    assert "helper" not in rosters[0]
    assert "There is no agent 'helper'" in play.all(r.RouteRejected)[0].sentence
    assert [record.agent for record in play.all(r.RunStarted)] == ["executor", "helper"]
    assert results(play) == [("k0", True, "use green")]


def test_one_that_keeps_its_standing_works_for_one_caller_at_a_time() -> None:
    shared = link("helper", is_shared=True)
    config = linked(rules(), executor=[shared], planner=[shared])
    play = at_work(config, agents=("executor", "planner"), executor=[LEAD, "built"], planner=[LEAD, "planned"])
    step_until_called(play)
    most = 0
    while play.step():
        most = max(most, sum(run.agent == "helper" for run in play.conversation.runs.values()))
    assert most == 1
    assert [ok for _, ok, _ in results(play)] == [True, True]
    assert outcomes(play) == {"executor": "finished", "planner": "finished", "helper": "finished"}
    check_sound(play)


def two_callers_of_one_who_asks() -> tuple[Play, r.ToolCallQueued]:
    """Two agents call a colleague who keeps its standing and waits for the person; and the call that queued."""
    shared = link("helper", is_shared=True)
    config = linked(rules(limits=CALM), executor=[shared], planner=[shared])
    asks = says("", ("ask", {"question": "Which?"}))
    play = at_work(
        config,
        agents=("executor", "planner"),
        executor=[LEAD, "built"],
        planner=[LEAD, "planned"],
        helper=[asks, "green"],
    )
    play.settle()
    (queued,) = play.all(r.ToolCallQueued)
    return play, queued


@pytest.mark.parametrize("crashes", [False, True])
def test_who_queues_for_a_colleague_that_waits_for_the_person_loses_no_time(*, crashes: bool) -> None:
    play, queued = two_callers_of_one_who_asks()
    if crashes:
        play.crash()
        play.settle()
    assert play.conversation.is_parked
    parts = {effect.key.part for effect in pending(play.conversation).values()}
    assert not parts & {"warn", "close"}, "neither of who is asked nor of who waits for that one"
    play.now = Millis(play.now + 10_000_000)
    play.person("green")
    play.settle()
    play.person("blue")  # for the second call, which asks too
    play.settle()
    assert outcomes(play) == {"executor": "finished", "planner": "finished", "helper": "finished"}
    assert [record.run for record in play.all(r.ToolCallQueued)] == [queued.run]
    assert min(run.close_at for run in play.all(r.RunStarted)) < play.now, "or the wait was none"
    check_sound(play)


def test_a_call_that_queued_for_a_link_that_is_gone_is_refused() -> None:
    play, queued = two_callers_of_one_who_asks()
    slug = play.conversation.runs[queued.run].agent
    play.rules = linked(play.rules, None, **{slug: []})
    play.crash()
    play.person("green")
    play.settle()
    (refused,) = play.all(r.ToolCallRejected)
    assert (refused.run, refused.sentence.startswith("There is no tool to_helper")) == (queued.run, True)


def test_one_that_works_in_the_turn_itself_is_called_when_it_has_ended() -> None:
    config = linked(rules(), executor=[link("helper", is_shared=True)])
    play = at_work(config, agents=("executor", "helper"), executor=[LEAD, "built"], helper=["use green"])
    most = 0
    while play.step():
        most = max(most, sum(run.agent == "helper" for run in play.conversation.runs.values()))
    assert most == 1
    assert results(play) == [("k0", True, "use green")]


def test_two_that_would_wait_for_each_other_do_not() -> None:
    config = linked(rules(), executor=[link("helper", is_shared=True)], helper=[link("executor", is_shared=True)])
    back = says("", *to("executor"))
    play = at_work(config, agents=("executor", "helper"), executor=[LEAD, "built"], helper=[back, "use green"])
    play.settle()
    told = [record.sentence for record in play.all(r.ToolCallRejected)]
    assert ["cannot be called" in sentence for sentence in told] == [True, True], "in its turn, and when called"
    assert [ok for _, ok, _ in results(play)][-1]
    assert set(outcomes(play).values()) == {"finished"}
    check_sound(play)


def test_it_is_told_which_files_the_cycle_has_changed() -> None:
    play = at_work(executor=[says("", ("write_file", {"path": "a"})), LEAD, "built"], helper=["use green"])
    step_until_called(play)
    note = entries_for(play.conversation, of(play, "helper"))[0]
    assert isinstance(note, Note)
    assert note.text.endswith("Files changed in this cycle: a")
