"""Sub-agents called like tools: a run of their own, whose outcome is the call's result and no part of the turn."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.agent_phases.program import Scope
from tenex.core.agent_phases.tools import SET
from tenex.core.config import Expectation, Limits, Policy
from tenex.core.effects import ModelCall, Timer, ToolCall
from tenex.core.graph import Edge, Predicate, TransitionGraph
from tenex.core.ids import Millis, Slug
from tenex.core.messages import AgentText, Note, UserText
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.rollback.decide import state_at
from tenex.core.signals import ModelFailed, RollBack
from tenex.core.subagents.links import link_specs
from tenex.core.totals.costs import run_agent
from tenex.core.work.run import Run
from tenex.core.work.runs import EMPTY
from tenex.workflows.speakers import AgentTarget, TerminateTarget, ToolCalled, Transition
from tenex.workflows.speakers import TransitionGraph as Rounds
from tenex.workflows.speakers import records as w
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import (
    VERIFIES,
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    policy,
    remove_agent,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.fakes.subagents import calls_to, link, model_by_agent, with_subagents
from tests.fakes.workflows import NAME, TRIO
from tests.fakes.workflows import workflow_scenario as of_rounds
from tests.kits.call_results import results

LEAD = reply("I ask around", *calls_to("helper"))
CALM = Limits(default_expectation=Expectation(warn_after=20_000, close_after=60_000))


def at_work(
    config: Policy | None = None,
    *,
    phase: str = "execute",
    limits: Limits | None = None,
    agents: tuple[str, ...] = ("executor",),
    links: dict[str, list[Any]] | None = None,
    **steps: Any,
) -> Scenario:
    """A scenario in which the executor may call the helper, and a turn in execute has just been opened."""
    config = config or with_subagents(policy(limits=limits), None, **(links or {"executor": ["helper"]}))
    scenario = scenario_at(Phase.CHAT, Router(route(phase, *agents), WAITS), config=config)
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    scenario.worker = model_by_agent(**steps)
    return scenario


def of(scenario: Scenario, agent: str) -> Run:
    return next(run for run in scenario.conversation.work.runs.values() if run.agent == agent)


def outcomes(scenario: Scenario) -> dict[str, str]:
    """What became of each agent's runs in the turn, the last of each."""
    return {run_agent(done.run): done.outcome for done in scenario.records(r.RunEnded) if done.run.startswith("turn-2")}


def step_until_called(scenario: Scenario, agent: str = "helper") -> Run:
    step_until(scenario, lambda it: any(run.agent == agent for run in it.conversation.work.runs.values()))
    return of(scenario, agent)


def step_until_tool(scenario: Scenario) -> ToolCall:
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    return next(effect for effect in scenario.running.values() if isinstance(effect, ToolCall))


def test_a_call_of_a_sub_agent_is_a_run_whose_text_is_the_result_and_no_part_of_the_turn() -> None:
    asks = reply("", *calls_to("helper", message="which colour?"))
    scenario = at_work(executor=[reply("", ("write_file", {"path": "a"})), asks, "built"], helper=["use green"])
    (spec,) = link_specs(scenario.conversation, of(scenario, "executor"), scenario.policy)
    assert (spec.name, spec.description) == ("to_helper", "helper looks into it")
    assert spec.parameters["required"] == ["message"]
    child = step_until_called(scenario)
    assert child.parent == "turn-2.executor"
    note, words = child.entries
    assert isinstance(note, Note)
    assert "Executor has called you" in note.text
    assert note.text.endswith("Files of this cycle: a")
    assert words == AgentText(author="Executor", text="which colour?")
    assert [effect.run for effect in in_flight(scenario) if isinstance(effect, ModelCall)] == [child.id]
    scenario.settle()
    assert results(scenario)[1:] == [(child.call, True, "use green")]
    assert outcomes(scenario) == {"executor": "finished", "helper": "finished"}
    assert scenario.conversation.memory.last_turn is not None
    assert [done.agent for done in scenario.conversation.memory.last_turn.completions] == ["executor"]
    assert "helper" not in scenario.conversation.cycle.participants
    assert scenario.sent_texts()[-1] == "built"
    assert "use green" not in scenario.sent_texts()
    check_idle(scenario)


def test_its_tools_run_like_anybody_s_what_it_costs_counts_and_it_reads_what_a_user_writes() -> None:
    scenario = at_work(executor=[LEAD, "built"], helper=[reply("", ("send", {"path": "m"})), "sent"])
    before = scenario.conversation.cycle.usage.calls
    assert step_until_tool(scenario).context.agent == "helper"
    scenario.user_writes("make it green")
    step_until(scenario, lambda it: of(it, "helper").wants is not None)
    assert "make it green" in [one.text for one in of(scenario, "helper").entries if isinstance(one, UserText)]
    step_until(scenario, lambda it: it.conversation.work.turn is None)
    assert scenario.conversation.cycle.usage.calls == before + 4, "two of each"
    assert scenario.conversation.cycle.touched == {"m"}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (ModelFailed(key=None, message="filtered", retryable=False), "Helper failed: filtered"),  # type: ignore[arg-type]
        (reply(""), f"Helper failed: {EMPTY}"),
    ],
)
def test_one_that_fails_is_a_failed_result_and_its_caller_goes_on(fault: Any, expected: str) -> None:
    scenario = at_work(executor=[LEAD, "built alone"], helper=[fault] * 3).settle()
    assert results(scenario) == [("k0", False, expected)]
    assert outcomes(scenario) == {"executor": "finished", "helper": "failed"}
    assert not any("could not finish" in text for text in scenario.sent_texts())


def test_in_verification_it_needs_no_verdict_and_may_give_one() -> None:
    config = with_subagents(policy(), executor=["helper", "planner"])
    verdict = reply("", ("complete", {"response": "runs", "verdict": "verified"}))
    asks = reply("", *calls_to("helper", "planner"))
    models = model_by_agent(executor=[asks, VERIFIES], helper=["looks fine"], planner=[verdict])
    router = Router(route("verification", "executor"), WAITS)
    scenario = scenario_at(Phase.EXECUTE, router, models, config=config).settle()
    assert {("k0", True, "looks fine"), ("k1", True, "[verified] runs")} <= {*results(scenario)}
    assert scenario.conversation.memory.last_turn is not None
    assert [done.verdict for done in scenario.conversation.memory.last_turn.completions] == ["verified"]


def test_no_more_than_eight_work_for_one_run_at_a_time() -> None:
    scenario = at_work(executor=[reply("", *calls_to(*["helper"] * 11)), "built"])
    step_until_called(scenario)
    assert len(scenario.conversation.work.runs) == 9
    scenario.settle(seed=1)
    assert [ok for _, ok, _ in results(scenario)] == [True] * 11


def test_sub_agents_call_sub_agents_down_to_the_limit() -> None:
    scenario = at_work(
        limits=Limits(link_depth=2),
        links={"executor": ["helper"], "helper": ["planner"], "planner": ["project-manager"]},
        executor=[LEAD, "built"],
        helper=[reply("", *calls_to("planner")), "planned"],
        planner=[reply("", *calls_to("project-manager")), "did it myself"],
    ).settle()
    first, *others = results(scenario)
    assert not first[1]
    assert "2 deep at most" in first[2]
    assert [content for _, _, content in others] == ["did it myself", "planned"]
    assert outcomes(scenario).keys() == {"executor", "helper", "planner"}


@pytest.mark.parametrize("other", ["planner", "helper"], ids=["another caller", "in the turn itself"])
def test_one_that_keeps_its_state_works_for_one_caller_at_a_time(other: str) -> None:
    shared = link("helper", is_shared=True)
    steps: dict[str, Any] = {"executor": [LEAD, "built"], "planner": [LEAD, "planned"]}
    scenario = at_work(links={"executor": [shared], "planner": [shared]}, agents=("executor", other), **steps)
    most = 0
    while scenario.step():
        most = max(most, sum(run.agent == "helper" for run in scenario.conversation.work.runs.values()))
    assert most == 1
    assert results(scenario) == [("k0", True, "helper is done")] * (2 if other == "planner" else 1)
    assert set(outcomes(scenario).items()) == {(agent, "finished") for agent in ("executor", "helper", other)}


def test_two_that_would_wait_for_each_other_do_not() -> None:
    links = {"executor": [link("helper", is_shared=True)], "helper": [link("executor", is_shared=True)]}
    steps: dict[str, Any] = {"executor": [LEAD, "built"], "helper": [reply("", *calls_to("executor")), "use green"]}
    scenario = at_work(links=links, agents=("executor", "helper"), **steps).settle()
    refused = [record.sentence for record in scenario.records(r.ToolCallRejected)]
    assert ["cannot be called" in sentence for sentence in refused] == [True, True], "in its turn, and when called"
    assert [ok for _, ok, _ in results(scenario)][-1]
    assert set(outcomes(scenario).values()) == {"finished"}


def two_callers_of_one() -> Scenario:
    """Two agents are about to call a sub-agent who keeps its state and asks the user."""
    shared = link("helper", is_shared=True)
    return at_work(
        limits=CALM,
        links={"executor": [shared], "planner": [shared]},
        agents=("executor", "planner"),
        executor=[LEAD, "built"],
        planner=[LEAD, "planned"],
        helper=[reply("", ("ask", {"question": "Which?"})), "green"],
    )


def two_callers_of_one_who_asks() -> tuple[Scenario, r.ToolCallQueued]:
    """The sub-agent waits for the user; and the call that queued."""
    scenario = two_callers_of_one().settle()
    (queued,) = scenario.records(r.ToolCallQueued)
    return scenario, queued


@pytest.mark.parametrize("crashes", [False, True])
def test_who_queues_for_a_sub_agent_that_waits_for_the_user_loses_no_time(*, crashes: bool) -> None:
    scenario, queued = two_callers_of_one_who_asks()
    if crashes:
        scenario.crash()
        scenario.settle()
    assert scenario.conversation.work.is_parked
    parts = {effect.key.part for effect in pending(scenario.conversation).values()}
    assert not parts & {"warn", "close"}, "neither of who is asked nor of who waits for that one"
    scenario.now = Millis(scenario.now + 10_000_000)
    scenario.converse("green")
    scenario.user_writes("blue")  # for the second call, which asks too
    scenario.settle()
    assert outcomes(scenario) == {"executor": "finished", "planner": "finished", "helper": "finished"}
    assert [record.run for record in scenario.records(r.ToolCallQueued)] == [queued.run]
    assert min(run.close_at for run in scenario.records(r.RunStarted)) < scenario.now, "or the wait was none"


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_call_that_queued_for_a_link_that_is_gone_is_refused(*, is_parked: bool) -> None:
    """At the start, or where nothing was under way then, once something is."""
    scenario = two_callers_of_one()
    step_until(scenario, lambda it: bool(it.records(r.ToolCallQueued)))
    (queued,) = scenario.records(r.ToolCallQueued)
    if is_parked:
        scenario.settle()
    slug = scenario.conversation.work.runs[queued.run].agent
    scenario.policy = with_subagents(scenario.policy, None, **{slug: []})
    scenario.crash()
    if is_parked:
        scenario.converse("green")
    (refused,) = scenario.records(r.ToolCallRejected)
    assert (refused.run, refused.sentence.startswith("There is no tool to_helper")) == (queued.run, True)


class Never:
    def holds(self, facts: Any) -> bool:
        return False


class Broken:
    def holds(self, facts: Any) -> bool:
        raise KeyError("nothing there")


NODES = ("planning", "research")
GRAPH = TransitionGraph(nodes=NODES, initial="planning", edges=(Edge(*NODES, Never()),))
PLANNING = Scope(phases=frozenset({"planning"}))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(phases=frozenset({"research"})), "it belongs to research; nothing was done. You are in"),
        (dataclasses.replace(PLANNING, when=Never()), "its condition does not hold"),
        (Scope(when=Broken()), "its condition failed (KeyError: "),
    ],
)
def test_a_link_out_of_phase_or_condition_is_not_offered_and_refused_when_called(scope: Scope, expected: str) -> None:
    config = with_subagents(policy(), GRAPH, executor=[link("helper", scope=scope)])
    scenario = at_work(config, executor=[LEAD, "built alone"])
    assert link_specs(scenario.conversation, of(scenario, "executor"), config) == ()
    scenario.settle()
    ((_, ok, sentence),) = results(scenario)
    assert not ok
    assert expected in sentence


@pytest.mark.parametrize(
    ("agent", "call", "expected"),
    [
        ("executor", ("to_helper", {}), "`to_helper` needs `message`, a text that is not empty."),
        ("executor", ("to_helper", {"message": 7}), "`to_helper` needs `message`, a text that is not"),
        ("executor", ("to_helper", {"message": "  "}), "`to_helper` needs `message`, a text that is not"),
        ("executor", *calls_to("security"), "no agent is called security any more"),
        ("security", *calls_to("helper"), "who advises"),
        ("executor", ("to_halper", {"message": "x"}), "read_file, send, to_helper, write_file."),
        ("security", ("to_halper", {"message": "x"}), "You may use: ask, complete, read_file."),
    ],
)
def test_a_call_that_cannot_be_is_refused(agent: str, call: Any, expected: str) -> None:
    steps: dict[str, Any] = {agent: [reply("", call), "built"]}
    scenario = at_work(links={agent: ["helper", "security"]}, agents=(agent,), **steps)
    if agent != "security":
        remove_agent(scenario, "security")
    scenario.settle()
    ((_, ok, sentence),) = results(scenario)
    assert (ok, expected in sentence) == (False, True), sentence


def test_no_one_is_called_by_whom_it_waits_for_nor_named_to_it() -> None:
    links = {"executor": ["helper"], "helper": ["executor", "helper", "security"]}
    asks = reply("", *calls_to("executor", "helper"), ("to_halper", {"message": "x"}))
    scenario = at_work(links=links, executor=[LEAD, "built"], helper=[asks, "then not"]).settle()
    *refused, unknown = [record.sentence for record in scenario.records(r.ToolCallRejected)]
    assert ["cannot be called from here" in sentence for sentence in refused] == [True, True]
    assert ("to_security" in unknown, "to_executor" in unknown) == (True, False)


def test_one_that_is_only_called_is_given_no_turn_by_the_router_or_a_mention() -> None:
    config = with_subagents(policy(), executor=["helper"])
    helper = dataclasses.replace(config.roster[Slug("helper")], is_called_only=True)
    config = dataclasses.replace(config, roster={**config.roster, helper.slug: helper})
    rosters: list[list[str]] = []

    def router(question: dict[str, Any]) -> Any:
        rosters.append([one["slug"] for one in question["roster"]])
        return WAITS if question["turns"] else route("execute", "helper" if not question["rejections"] else "executor")

    scenario = Scenario(router, model_by_agent(executor=[LEAD, "built"], helper=["use green"]), config=config)
    scenario.converse("@helper build it", addressed=("helper",))
    assert "helper" not in rosters[0]
    assert "There is no agent 'helper'" in scenario.records(r.RouteRejected)[0].sentence
    assert [record.agent for record in scenario.records(r.RunStarted)] == ["executor", "helper"]
    assert results(scenario) == [("k0", True, "use green")]


def test_a_sub_agent_called_after_a_tool_begins_when_that_tool_has_returned() -> None:
    """It works on what the tool left, as another tool in its place would."""
    links: dict[str, list[Any]] = {"executor": ["helper", "planner"]}
    scenario = at_work(links=links, executor=[reply("", ("check", {}), *calls_to("helper", "planner")), "built"])
    step_until_tool(scenario)
    assert not [run for run in scenario.conversation.work.runs.values() if run.parent]
    scenario.step(lambda ready: next(effect for effect in ready if isinstance(effect, ToolCall)))
    assert {run.agent for run in scenario.conversation.work.runs.values() if run.parent} == {"helper", "planner"}
    scenario.settle()
    assert [ok for _, ok, _ in results(scenario)] == [True, True, True]
    check_idle(scenario)


def test_a_sub_agent_whose_phase_ends_with_the_tool_before_it_is_refused() -> None:
    """The phase at the start of a call decides, and the tool that is before it has left that phase."""
    checked: list[str] = []
    graph = TransitionGraph(nodes=NODES, initial="planning", edges=(Edge(*NODES, Predicate(lambda me: checked)),))
    config = with_subagents(policy(), graph, executor=[link("helper", scope=PLANNING)])
    scenario = at_work(config, executor=[reply("", ("check", {}), *calls_to("helper")), "built"])
    step_until_tool(scenario)
    checked.append("check")
    scenario.settle()
    (refused,) = scenario.records(r.ToolCallRejected)
    assert "it belongs to planning; nothing was done. You are in your phase research." in refused.sentence
    assert not [record for record in scenario.records(r.RunStarted) if record.parent]
    check_idle(scenario)


def test_a_tool_called_after_a_sub_agent_starts_when_that_has_answered_and_reads_start_at_once() -> None:
    calls = (*calls_to("helper"), ("read_file", {}), ("check", {}))
    scenario = at_work(executor=[reply("", *calls), "built"], helper=["use green"])
    step_until_called(scenario)
    assert [call.tool for call in scenario.records(r.ToolCallStarted)] == ["read_file"]
    scenario.settle()
    (_, check), (answered, _) = scenario.records(r.ToolCallStarted), scenario.records(r.RunEnded)[-2:]
    assert (check.tool, run_agent(answered.run)) == ("check", "helper")
    assert answered.seq < check.seq
    check_idle(scenario)


def test_state_that_is_set_after_the_call_of_a_sub_agent_is_set_when_that_has_answered() -> None:
    """The sub-agent meets the caller's state as it was when it was called."""
    own = program((), links={"to_helper": link("helper")})
    calls = (*calls_to("helper"), (SET, {"field": "plan", "value": "green"}))
    scenario = at_work(with_program(own), executor=[reply("", *calls), "built"], helper=["use green"])
    step_until_called(scenario)
    assert results(scenario) == []
    scenario.settle()
    assert results(scenario) == [("k0", True, "use green"), ("k1", True, "plan is set.")]
    check_idle(scenario)


def test_a_caller_s_time_is_paused_while_a_sub_agent_works() -> None:
    calls = reply("", *calls_to("helper", "planner"))
    scenario = at_work(limits=CALM, links={"executor": ["helper", "planner"]}, executor=[calls, "built"])
    child = step_until_called(scenario)
    closing = of(scenario, "executor").close_at
    timers = {effect.key.seq for effect in pending(scenario.conversation).values() if isinstance(effect, Timer)}
    assert of(scenario, "executor").armed not in timers
    assert child.armed in timers
    scenario.now = Millis(scenario.now + 50_000)
    began = of(scenario, "executor").parked_at
    assert began is not None
    step_until(scenario, lambda it: len(it.conversation.work.runs) == 1)
    caller = of(scenario, "executor")
    assert caller.close_at == closing + scenario.now - began
    assert caller.parked_at is None


def test_one_that_takes_too_long_is_a_result_that_reports_it() -> None:
    scenario = at_work(limits=CALM, executor=[LEAD, "built alone"], helper=[reply("", ("check", {}))])
    step_until_tool(scenario)
    scenario.fire("close")
    scenario.settle()
    assert results(scenario)[-1] == ("k0", False, "Helper timed out: no answer within 1 min")
    assert outcomes(scenario) == {"executor": "finished", "helper": "timed_out"}


def test_a_caller_that_ends_takes_along_whom_it_called() -> None:
    scenario = at_work(
        limits=CALM,
        links={"executor": ["helper"], "helper": ["planner"]},
        executor=[reply("", *calls_to("helper"), ("read_file", {}))],
        helper=[reply("", *calls_to("planner"))],
    )
    while not any(run.agent == "planner" for run in scenario.conversation.work.runs.values()):
        scenario.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    key = next(effect.key for effect in in_flight(scenario) if isinstance(effect, ToolCall))
    armed = of(scenario, "executor").armed
    timer = next(e for e in scenario.running.values() if e.key.part == "close" and e.key.seq == armed)
    scenario.running.pop(timer.key)
    scenario.handle(scenario.perform(timer))
    assert scenario.conversation.work.runs == {}
    assert outcomes(scenario) == {"executor": "timed_out", "helper": "stopped", "planner": "stopped"}
    assert key not in pending(scenario.conversation)
    scenario.settle()
    check_idle(scenario)


def test_the_status_states_who_waits_for_whom_and_a_stop_names_all() -> None:
    scenario = at_work(executor=[LEAD])
    step_until_called(scenario)
    scenario.user_writes("/status")
    assert "Executor: waits for Helper" in scenario.sent_texts()[-1]
    scenario.user_writes("/stop")
    assert outcomes(scenario) == {"executor": "stopped", "helper": "stopped"}
    assert "Stopped: Executor, Helper." in scenario.sent_texts()[-1]
    scenario.settle()
    check_idle(scenario)


def of_a_workflow(graph: Rounds, calls: Any, **models: Any) -> Scenario:
    """The trio's workflow, in which the writer's first answer makes these calls; a user has opened it."""
    scenario = of_rounds(graph)
    scenario.policy = with_subagents(scenario.policy, None, writer=["editor", "planner"])
    scenario.user_writes("Make it good", addressed=(NAME,))
    first, later = model_by_agent(writer=[calls], **models), model_by_agent()
    scenario.worker = lambda conversation, call: (first if conversation.totals.turn_count == 1 else later)(
        conversation, call
    )
    return scenario


def after_tool(tool: str) -> Rounds:
    """The checker speaks after the writer has called the tool."""
    return Rounds("writer", [Transition(ToolCalled(tool), AgentTarget("checker"))], TerminateTarget("enough"))


def test_whom_a_speaker_calls_takes_no_part_in_the_workflow() -> None:
    """It cannot hand over."""
    hands_over = reply("", ("handoff", {"target": "checker"}), ("read_file", {"path": "a"}))
    scenario = of_a_workflow(Rounds.sequence(TRIO), reply("", *calls_to("editor")), editor=[hands_over, "seen"])
    step_until_called(scenario, "editor")
    timers = {effect.key.part for effect in pending(scenario.conversation).values() if isinstance(effect, Timer)}
    assert timers == {"turn_within.warn", "turn_within.close", "ttl.close"}
    scenario.settle()
    assert "There is no tool handoff" in "".join(record.sentence for record in scenario.records(r.ToolCallRejected))
    assert [record.speaker for record in scenario.records(w.RoundClosed)] == list(TRIO)
    assert len([record for record in scenario.records(r.RunEnded) if "/" in record.run]) == 1


@pytest.mark.parametrize("answer", ["planned", ""])
def test_the_call_of_a_sub_agent_counts_for_a_workflow_s_rule_also_if_that_fails(answer: str) -> None:
    scenario = of_a_workflow(after_tool("to_planner"), reply("", *calls_to("planner")), planner=[answer] * 3).settle()
    assert [record.ok for record in scenario.records(r.ToolCallCompleted)] == [bool(answer)]
    assert [record.speaker for record in scenario.records(w.RoundClosed)][:2] == ["writer", "checker"]
    assert [record.agent for record in scenario.records(r.RunStarted) if record.parent] == ["planner"]


def test_a_refused_call_does_not_count_because_a_sub_agent_s_of_the_same_id_was_let_through() -> None:
    calls = reply("", ("learn", {"lesson": "x"}), *calls_to("planner"))
    reads = reply("", ("read_file", {"path": "a"}))
    scenario = of_a_workflow(after_tool("learn"), calls, planner=[reads]).settle()
    assert [record.speaker for record in scenario.records(w.RoundClosed)] == ["writer"]
    started = {record.call for record in scenario.records(r.ToolCallStarted)}
    assert started == {record.call for record in scenario.records(r.ToolCallRejected)}


def test_going_back_to_the_middle_of_a_sub_agent_s_work_leaves_nothing_of_it_open() -> None:
    scenario = at_work(executor=[LEAD, "built"], helper=["use green"])
    step_until_called(scenario)
    middle = scenario.conversation.next_seq - 1
    scenario.settle()
    then = state_at(scenario.conversation.id, scenario.records(), middle)
    assert {run.agent for run in then.work.runs.values()} == {"executor", "helper"}
    scenario.handle(RollBack(to=middle, then=then, by="the operator"))
    assert (scenario.conversation.work.runs, scenario.conversation.cycle.status) == ({}, "waiting")
    last = scenario.conversation.memory.last_turn
    assert last is not None
    assert [(done.agent, done.outcome) for done in last.completions] == [("executor", "stopped")]
    scenario.converse("/continue")
    check_idle(scenario)
