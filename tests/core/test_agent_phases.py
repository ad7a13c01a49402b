"""An agent's own phases in the core: one step an evaluation, the gate at call time, changes of state, going back."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.agent_phases.program import HISTORY, AgentPhaseState, Program, Scope, fits
from tenex.core.agent_phases.tools import LARGEST
from tenex.core.effects import ToolCall
from tenex.core.ids import ConversationId, Slug
from tenex.core.memory.state import Window
from tenex.core.messages import ModelStep
from tenex.core.ports import ToolResult
from tenex.core.rollback.whole import of_fork
from tenex.core.signals import ToolReturned
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.workflows.speakers import AgentTarget, TerminateTarget, ToolCalled, Transition
from tenex.workflows.speakers import TransitionGraph as Rounds
from tenex.workflows.speakers import records as w
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import Scenario, one_turn, reply
from tests.fakes.subagents import link, model_by_agent
from tests.fakes.workflows import NAME
from tests.fakes.workflows import workflow_scenario as of_rounds


def scenario(*steps: Any, of: Program | None = None) -> Scenario:
    """An executor with phases of its own answers this, one after the other; then it is done."""
    script = list(steps)

    def worker(conversation: Any, call: Any) -> ModelStep:
        return script.pop(0) if script else reply("done")

    one = Scenario(one_turn("executor", "execute"), worker, config=with_program(of or program()))
    one.user_writes("research it")
    return one


def sets(field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return ("set_state", {"field": field, "value": value})


def state_of(one: Scenario) -> AgentPhaseState:
    return one.conversation.memory.agent_states["executor"]


def moves(one: Scenario) -> list[tuple[str, str]]:
    return [(record.source, record.target) for record in one.records(r.AgentPhaseChanged)]


def test_it_is_at_its_beginning_at_its_first_run_and_keeps_its_state_over_turns_and_processes() -> None:
    one = scenario(reply("", sets("plan", "read"))).settle()
    assert moves(one) == [("planning", "research")]
    assert [record.phase for record in one.records(r.AgentStateInitialized)] == ["planning"]
    one.crash()
    assert state_of(one).phase == "research"
    assert state_of(one).values == {"plan": "read", "data": []}
    assert [move.trigger for move in state_of(one).history] == ["planning_to_research"]
    one.converse("go on")
    assert len(one.records(r.AgentStateInitialized)) == 1
    assert state_of(one).phase == "research"


def test_one_step_an_evaluation_and_only_edges_of_the_phase_are_asked() -> None:
    asked: list[str] = []

    def ask(name: str) -> Any:
        def holds(me: Any) -> bool:
            asked.append(name)
            return True

        return holds

    chain = program((("a", "b", ask("ab")), ("b", "c", ask("bc")), ("c", "d", ask("cd"))))
    one = scenario(reply("", ("read_file", {})), of=chain)
    while not one.records(r.ModelResponded):
        one.step()
    assert moves(one) == [("a", "b")], "the answer"
    while not one.records(r.ToolCallCompleted):
        one.step()
    assert moves(one) == [("a", "b"), ("b", "c")], "the result of the call"
    assert asked == ["ab", "bc"]
    one.settle()
    assert moves(one)[2:] == [("c", "d")], "the second answer"


@pytest.mark.parametrize(
    ("calls", "started", "rejected"),
    [
        ([("check", {}), sets("plan", "p"), ("send", {}), ("check", {})], ["check", "send"], "check"),
        ([("read_file", {}), ("send", {}), sets("plan", "p")], ["read_file"], "send"),
    ],
    ids=["held to the new phase", "not permitted by a later call"],
)
def test_a_call_is_held_to_the_phase_that_those_before_it_lead_to(
    calls: list[Any], started: list[str], rejected: str
) -> None:
    one = scenario(reply("", *calls)).settle()
    assert [record.tool for record in one.records(r.ToolCallStarted)] == started
    (refused,) = one.records(r.ToolCallRejected)
    assert refused.tool == rejected
    _, phase, offer = refused.sentence.partition(" You are in your phase ")
    assert phase
    assert (rejected in offer) is False
    assert moves(one) == [("planning", "research")]


def test_an_agent_that_cannot_be_looked_at_goes_on_in_its_phase() -> None:
    def blind(agent_state: AgentPhaseState, conversation: Any) -> Any:
        raise RuntimeError("no")

    one = scenario(reply("", ("read_file", {})), of=Program(graph=program().graph, defaults={}, schema={}, look=blind))
    one.settle()
    failed = [(record.target, record.error) for record in one.records(r.ConditionFailed)]
    assert failed == [("research", "RuntimeError: no")]
    assert state_of(one).phase == "planning"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("set_state", {}, "`field` of `set_state` must be one of: plan, data."),
        ("set_state", {"field": ["plan"]}, "must be one of"),
        ("set_state", {"field": "plan"}, "needs `value`"),
        ("set_state", {"field": "plan", "value": 3}, "must be of type text"),
        ("set_state", {"field": "data", "value": "[]"}, "must be of type list"),
        ("set_state", {"field": "plan", "value": "x" * LARGEST}, "your whole state may have"),
        ("set_state", {"field": "data", "value": [float("nan")]}, "JSON has no word for"),
        ("append_state", {"field": "plan", "value": 1}, "must be one of: data."),
    ],
)
def test_a_change_of_state_that_cannot_be_is_refused_and_changes_nothing(
    tool: str, arguments: dict[str, Any], expected: str
) -> None:
    one = scenario(reply("", (tool, arguments))).settle()
    assert expected in one.records(r.ToolCallRejected)[0].sentence
    assert state_of(one).values == {"plan": "", "data": []}


def test_a_list_grows_item_by_item() -> None:
    one = scenario(reply("", *(("append_state", {"field": "data", "value": n}) for n in range(3)))).settle()
    assert state_of(one).values["data"] == [0, 1, 2]


def test_a_program_without_settable_state_has_no_calls_about_it() -> None:
    one = scenario(reply("", sets("plan", "p")), of=program(is_settable=False)).settle()
    assert "There is no tool set_state." in one.records(r.ToolCallRejected)[0].sentence


def test_a_trigger_is_the_name_of_the_pair_and_guarded_by_its_condition() -> None:
    of = program(
        (("a", "b", lambda me: me.plan == "go"), ("b", "c", None), ("a", "c", lambda me: False)), has_triggers=True
    )
    one = scenario(reply("", ("a_to_b", {}), ("b_to_c", {}), ("a_to_c", {})), of=of).settle()
    reported = [record.sentence for record in one.records(r.ToolCallRejected)]
    assert reported == [
        "a_to_b is not permitted: its condition does not hold.",
        "b_to_c leads from b, and you are in a.",
        "a_to_c is not permitted: its condition does not hold.",
    ]
    assert not moves(one)
    several = program(
        (("a", "b", lambda me: me.plan), ("a", "c", lambda me: me.plan), ("b", "a", None)),
        defaults={"plan": "p"},
        schema={"plan": {"type": "string"}},
        has_triggers=True,
    )
    two = scenario(reply("", ("b_to_a", {})), of=several).settle()
    assert moves(two)[:2] == [("a", "b"), ("b", "a")]
    assert two.records(r.ToolCallCompleted)[0].content == "You are in a now."


@pytest.mark.parametrize("values", [{"unknown": 1}, {"plan": "x" * LARGEST}, {"plan": float("nan")}])
def test_what_a_tool_may_not_change_makes_its_result_a_failure_that_reports_it(values: dict[str, Any]) -> None:
    one = scenario(reply("", ("check", {})))
    while not one.records(r.ToolCallStarted):
        one.step()
    effect = next(effect for key, effect in one.running.items() if key.work == "tool")
    one.handle(ToolReturned(key=effect.key, result=ToolResult(ok=True, content="planned", values=values)))
    (returned,) = one.records(r.ToolCallCompleted)
    assert not returned.ok
    assert not returned.values
    assert state_of(one).values["plan"] == ""


def test_a_changed_program_keeps_what_fits() -> None:
    one = scenario(reply("", sets("plan", "p"), sets("data", [1]))).settle()
    text = {"type": "string"}
    schema = {"plan": text, "data": text, "new": {"type": "integer"}}
    changed = {"plan": "", "data": "none", "new": 0}
    one.policy = with_program(program((("start", "end", lambda me: False),), defaults=changed, schema=schema))
    one.converse("go on")
    assert state_of(one).phase == "start"
    assert state_of(one).values == {"plan": "p", "data": "none", "new": 0}
    assert [move.target for move in state_of(one).history] == ["research"], "what was is not forgotten"
    assert len(one.records(r.AgentStateInitialized)) == 2


def test_a_schema_of_several_types_is_not_looked_at() -> None:
    assert fits("p", {"type": ["string", "null"]})
    assert fits(1, {"type": ["string", "null"]})


def test_a_fork_takes_the_state_along() -> None:
    one = scenario(reply("", sets("plan", "p"))).settle()
    forked = of_fork(one.conversation, one.now, id=ConversationId("d" * 64), address={}, title="other")
    assert forked.memory.agent_states == one.conversation.memory.agent_states
    assert forked.memory.agent_states["executor"].values == {"plan": "p", "data": []}


def test_a_call_that_one_before_it_makes_room_for_waits_for_that() -> None:
    one = scenario(
        reply("", ("check", {}), ("read_file", {}), ("send", {}), ("write_file", {})),
        of=program(
            scopes={
                "check": Scope(phases=frozenset({"planning"})),
                "send": Scope(phases=frozenset({"research"})),
                "read_file": Scope(phases=frozenset({"research"})),
                "write_file": Scope(phases=frozenset({"analysis"})),
            }
        ),
    )
    while not one.records(r.ToolCallStarted):
        one.step()
    assert not one.records(r.ToolCallRejected), "whether they may run is not known before what came first has returned"
    effect = next(effect for effect in one.running.values() if isinstance(effect, ToolCall))
    one.handle(ToolReturned(key=effect.key, result=ToolResult(ok=True, content="planned", values={"plan": "p"})))
    one.settle()
    assert [record.tool for record in one.records(r.ToolCallStarted)] == ["check", "read_file", "send"]
    assert [record.tool for record in one.records(r.ToolCallRejected)] == ["write_file"]


@pytest.mark.parametrize("call", [("set_state", {"field": "plan", "value": "p"}), ("research_to_planning", {})])
def test_a_call_about_itself_counts_for_a_workflow_s_rule_and_is_still_what_it_is(call: Any) -> None:
    graph = Rounds(
        transitions=[Transition(when=ToolCalled(call[0]), then=AgentTarget("checker"))],
        initial_speaker="writer",
        default_target=TerminateTarget("enough"),
    )
    one = of_rounds(graph, {"writer": [reply("", call)]})
    writer = one.policy.roster[Slug("writer")]
    edges = (("planning", "research", lambda me: not me.plan), ("research", "planning", lambda me: True))
    reported = dataclasses.replace(writer, program=program(edges, scopes={}, has_triggers=True))
    one.policy = dataclasses.replace(one.policy, roster={**one.policy.roster, writer.slug: reported})
    one.converse("Make it good", addressed=(NAME,))
    (done,) = one.records(r.ToolCallCompleted)
    assert done.content == ("plan is set." if call[0] == "set_state" else "You are in planning now.")
    assert [record.speaker for record in one.records(w.RoundClosed)][:2] == ["writer", "checker"]


def test_what_an_agent_has_done_before_makes_neither_its_records_nor_its_snapshot_larger() -> None:
    """Moves, prompts of phases and sub-agents that start over, forty times over and forty more."""
    edges = (("a", "b", lambda me: me.n == 1), ("b", "a", lambda me: me.n == 0))
    own: dict[str, Any] = {"defaults": {"n": 0}, "schema": {"n": {"type": "integer"}}, "scopes": {}}
    known = with_program(program(edges, links={"to_helper": link("helper")}, **own))
    helper = dataclasses.replace(known.roster[Slug("helper")], program=program(edges, **own))
    steps = [reply("", sets("n", 1), ("to_helper", {"message": "look"})), reply("", sets("n", 0))]
    models = model_by_agent(executor=steps, helper=[reply("", sets("n", 1))])
    config = dataclasses.replace(known, roster={**known.roster, helper.slug: helper})
    one = Scenario(one_turn("executor", "execute"), models, config=config)
    records, snapshots = [], []
    for _ in range(2):
        for _ in range(40):
            before = len(one.journal)
            one.converse("again")
        records.append(len(CONVERSATION.encode_decisions(one.journal[before:])))
        whole = StateSnapshot.of(one.conversation)
        state = dataclasses.replace(
            whole.state,
            identity=dataclasses.replace(whole.state.identity, seen={}),
            memory=dataclasses.replace(whole.state.memory, recent=(), window=Window()),
            history=None,
        )
        snapshots.append(len(CONVERSATION.encode_decisions([[dataclasses.replace(whole, state=state)]])))
    assert len(one.records(r.AgentPhaseChanged)) == 80 * 3
    assert {*one.conversation.memory.agent_states} == {"executor"}
    assert len(state_of(one).history) == HISTORY
    assert records[1] < records[0] * 1.02, "a digit more here and there"
    assert snapshots[1] < snapshots[0] * 1.02
