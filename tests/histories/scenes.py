"""Conversations worth keeping, each a list of decisions; the same every time."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenex.core.config import Limits, Replay
from tenex.core.conversation import fold
from tenex.core.effects import Key, Work
from tenex.core.graph import END, Edge
from tenex.core.graph import TransitionGraph as TransitionsOf
from tenex.core.ids import Millis, PublicKey
from tenex.core.messages import Usage
from tenex.core.mission_config import Beginning, MissionRule, NodeRule
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records import PromptRerendered
from tenex.core.signals import (
    ClockJumped,
    MissionRequested,
    ModelFailed,
    NodeFailed,
    NodeReturned,
    StepFinished,
    StepRequested,
)
from tenex.core.workflow_config import Within
from tenex.operations.message_sources import messages_of_view
from tenex.operations.recovery import rebuilt_records
from tenex.store.salvage import Salvaged
from tenex.store.view_json import render
from tenex.workflows.speakers import (
    AgentTarget,
    AllOf,
    ContextEquals,
    FromSpeaker,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionGraph,
)
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import (
    ID,
    WAITS,
    Router,
    Scenario,
    diligent,
    in_flight,
    plain_model,
    reply,
    route,
    rules,
    scenario_at,
    seven_phases,
    step_until,
)
from tests.fakes.subagents import model_by_agent
from tests.fakes.workflows import TRIO, calls, started

from .agency_scenes import Decisions, output_states, own_phases, sub_agents

DOWN = ModelFailed(
    key=Key(Work.MODEL, 0), message="connection refused", retryable=True, usage=Usage(input_tokens=3, cost_usd=0.5)
)
"""Its key is put in by who fails."""


def seven() -> Decisions:
    """All phases, two agents at once, a question that is answered, to the end."""
    scenario = Scenario(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        scenario.converse(text)
    assert scenario.conversation.status == "ended"
    return scenario.journal


def waiver() -> Decisions:
    """Gates given up by command, and passed through."""
    scenario = scenario_at(Phase.EXECUTE)
    scenario.converse("/skip verification")
    scenario.user_writes("/quick")
    scenario.router = lambda _q: {"agents": ["END"], "reason": "all is done"}
    scenario.converse("go on")
    return scenario.journal


def parked() -> Decisions:
    """A question that is open, through two restarts; nothing is answered."""
    scenario = Scenario(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it"):
        scenario.converse(text)
        scenario.crash()
    assert scenario.conversation.is_parked
    return scenario.journal


def held() -> Decisions:
    """A model that cannot be reached: three tries, held, reported, and reached again."""
    scenario = Scenario(lambda _q: route(None, "executor"), lambda _c, _call: DOWN)
    scenario.user_writes("build it")
    for _ in range(5):
        scenario.settle()
        scenario.fire("retry")
    scenario.worker, scenario.router = plain_model, lambda _q: {"agents": ["USER"], "reason": "the person is next"}
    scenario.settle()
    scenario.fire("retry") if any(k.part == "retry" for k in scenario.running) else None
    scenario.settle()
    assert scenario.conversation.status == "waiting"
    return scenario.journal


def stopped() -> Decisions:
    """Stopped by the user in the middle of calls, then tried again."""
    scenario = scenario_at(Phase.PLAN, lambda _q: route("execute", "executor", "helper"), diligent)
    step_until(scenario, lambda p: len(in_flight(p)) > 1)
    scenario.converse("/stop")
    scenario.converse("/retry")
    return scenario.journal


def limits() -> Decisions:
    """A limit is reached, reported, and lifted by the user."""
    bound = rules(limits=Limits(turns_per_message=2))
    scenario = Scenario(
        lambda _q: route("brainstorm" if not _q["turns"] else None, "planner"), plain_model, config=bound
    ).converse("think about it")
    scenario.converse("/continue")
    return scenario.journal


def clock_set() -> Decisions:
    """The clock is set on and back while agents work and while a model is held."""
    scenario = Scenario(lambda _q: route("execute", "executor"), lambda _c, _call: DOWN).converse("build it")
    for by in (315_360_000_000, -315_360_000_000, -3_600_000):
        scenario.now = Millis(max(1, scenario.now + by))
        scenario.handle(ClockJumped(by=by))
        scenario.reconcile()
    scenario.fire("retry")
    scenario.settle()
    scenario.crash()
    return scenario.journal


def rebuilt() -> Decisions:
    """Rebuilt from the first half of a journal and the readable file of its end, and continued."""
    records = [record for decision in seven() for record in decision]
    view: dict[str, Any] = json.loads(render(fold(ID, records)))
    left = Salvaged(records=records[: len(records) // 2], damage=["journal.jsonl from its middle on"])
    made, _ = rebuilt_records(ID, left, messages_of_view(view, ID, "conversation.json"), (), Millis(2_000_000))
    scenario = Scenario(seven_phases, diligent)
    scenario.journal, scenario.now = [(record,) for record in made], Millis(3_000_000)
    scenario.conversation = scenario.refold()
    scenario.count = 100
    scenario.reconcile()
    scenario.converse("and now in green")
    return scenario.journal


def long() -> Decisions:
    """Two cycles with work between restarts; kept in two files."""
    scenario = Scenario(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue", "another one", "think", "plan", "red"):
        scenario.user_writes(text)
        scenario.settle(seed=len(text))
        scenario.crash()
    return scenario.journal


def workflow() -> Decisions:
    """A workflow with a user in it: variables, a tool of a rule, a handoff, a late speaker, a stop, and its end."""
    graph = TransitionGraph(
        "person",
        [
            Transition(AllOf([FromSpeaker("writer"), ToolCalled("polish")]), AgentTarget("editor")),
            Transition(AllOf([FromSpeaker("checker"), ContextEquals("good", value=True)]), TerminateTarget("good")),
            Transition(FromSpeaker("person"), AgentTarget("writer")),
            Transition(FromSpeaker("editor"), AgentTarget("person")),
        ],
        AgentTarget("checker"),
        max_turns=9,
    )
    lines = {
        "writer": [calls(("polish", {}), ("write_file", {"path": "a"})), "a draft", "another draft"],
        "editor": [
            calls(("handoff", {"target": "ghost"}), ("set_context", {"key": "n", "value": [1, None]})),
            "edited",
        ],
        "checker": [calls(("set_context", {"key": "good", "value": True}), ("delete_context", {"key": "n"})), "good"],
    }
    scenario = started(
        graph, lines, "person", *TRIO, context={"tone": "dry"}, expectations={"reply_within": Within(warn=9)}
    )
    scenario.fire("turn_within.warn")
    scenario.settle()
    scenario.fire("reply_within.warn")
    scenario.user_writes("/stop")
    scenario.crash()
    scenario.converse("once more")
    return scenario.journal


def mission() -> Decisions:
    """A mission begun by a mention: steps, a retry, a pause, a crash, a stop, an error edge, going on, and its end."""
    scenario = Scenario(seven_phases, diligent, config=replace(rules(), missions={"m": MISSION}))
    scenario.user_writes("@m count", addressed=("m",))
    _asks(scenario, "look", Replay.READ)
    _has(scenario, "look", 3, n=3)
    scenario.handle(NodeFailed(key=_node(scenario), who="world", kind="ConnectionError", message="down for a moment"))
    scenario.fire("node-retry")
    _asks(scenario, "send", Replay.ONCE)
    scenario.user_writes("/pause")
    _has(scenario, "send", {"id": "a"})
    scenario.converse("how far are you?")
    scenario.crash()
    scenario.user_writes("/continue")
    scenario.handle(NodeFailed(key=_node(scenario), who="author", kind="ValueError", message="no good"))
    _asks(scenario, "mend", Replay.ONCE)
    scenario.crash()
    scenario.handle(NodeReturned(key=_node(scenario), to="Last", data={"x": 1}, state=_state(scenario, n=4)))
    scenario.converse("/stop")
    scenario.user_writes("/continue")
    scenario.handle(NodeReturned(key=_node(scenario), to=END, result={"ok": True}, state=_state(scenario)))
    scenario.converse("thanks")
    return scenario.journal


def costs() -> Decisions:
    """Rebuilt from the readable file alone, an agent whose prompt shows its state, a mission that costs too much."""
    one = Scenario(Router(WAITS), plain_model).converse("hello")
    view: dict[str, Any] = json.loads(render(one.conversation))
    made, _ = rebuilt_records(ID, Salvaged(), messages_of_view(view, ID, "conversation.json"), (), Millis(2_000_000))
    known = with_program(program(shows_state=True), rules(limits=Limits(tokens_per_cycle=5_000)))
    sets = reply("", ("append_state", {"field": "data", "value": "blue"}), ("read_file", {"path": "a"}))
    scenario = Scenario(
        Router(WAITS), model_by_agent(executor=[sets, sets]), config=replace(known, missions={"m": MISSION})
    )
    scenario.journal, scenario.now = [(record,) for record in made], Millis(3_000_000)
    scenario.conversation, scenario.count = scenario.refold(), 100
    scenario.reconcile()
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.user_writes("and now?")
    step_until(scenario, lambda it: bool(it.records(PromptRerendered)))
    scenario.crash()
    scenario.settle()
    state = {"n": 0, "current_phase": "", "phases_completed": []}
    scenario.handle(MissionRequested(workflow="m", node="First", data={"x": 1}, state=state, by="alice"))
    _asks(scenario, "look", Replay.READ)
    large = {"vendor:large": Usage(input_tokens=4_000, output_tokens=1_500, cost_usd=0.25)}
    scenario.handle(
        StepFinished(node=_node(scenario), step="look", ok=True, result=3, state=_state(scenario, n=3), spent=large)
    )
    _asks(scenario, "send", Replay.ONCE)
    scenario.crash()
    scenario.user_writes("/continue")
    down = NodeFailed(key=_node(scenario), who="world", kind="ConnectionError", message="down", spent=large)
    scenario.handle(down)
    scenario.fire("node-retry")
    small = {"vendor:small": Usage(input_tokens=10, calls=2), "own": Usage(cost_usd=0.125)}
    scenario.handle(NodeReturned(key=_node(scenario), to="Last", data={"x": 1}, state=_state(scenario), spent=small))
    scenario.handle(NodeReturned(key=_node(scenario), to=END, result=3, state=_state(scenario)))
    scenario.settle()
    return scenario.journal


MISSION = MissionRule(
    graph=TransitionsOf(
        nodes=("First", "Mend", "Last"),
        initial="First",
        edges=(Edge("First", "Mend"), Edge("First", "Last"), Edge("Mend", "Last", label="mended"), Edge("Last", END)),
    ),
    nodes={
        "First": NodeRule(phase="first", timeout=60_000, on_error="Mend"),
        "Mend": NodeRule(phase="mend", takes_error=True),
        "Last": NodeRule(phase="last"),
    },
    tracked=frozenset({"current_phase", "phases_completed"}),
    pubkey=PublicKey("e" * 64),
    begin=lambda text: Beginning(
        node="First", data={"x": len(text)}, state={"n": 0, "current_phase": "", "phases_completed": []}
    ),
)


def _node(scenario: Scenario) -> Key:
    return next(key for key in pending(scenario.conversation) if key.work is Work.NODE)


def _state(scenario: Scenario, **changed: Any) -> dict[str, Any]:
    assert scenario.conversation.mission is not None
    return {**scenario.conversation.mission.state, **changed}


def _asks(scenario: Scenario, step: str, replay: Replay) -> None:
    scenario.handle(StepRequested(node=_node(scenario), step=step, replay=replay))


def _has(scenario: Scenario, step: str, result: Any, **changed: Any) -> None:
    scenario.handle(
        StepFinished(node=_node(scenario), step=step, ok=True, result=result, state=_state(scenario, **changed))
    )


SCENES: dict[str, tuple[Callable[[], Decisions], int]] = {
    "seven-phases": (seven, 0),
    "waiver": (waiver, 0),
    "parked": (parked, 0),
    "held-model": (held, 0),
    "stopped-and-retried": (stopped, 0),
    "limit-reached": (limits, 0),
    "clock-set": (clock_set, 0),
    "rebuilt": (rebuilt, 0),
    "rotated": (long, 40),
    "workflow": (workflow, 12),
    "mission": (mission, 14),
    "own-phases": (own_phases, 9),
    "colleagues": (sub_agents, 12),
    "output-states": (output_states, 0),
    "costs": (costs, 7),
}
"""By the name of its folder: what makes it, and after how many decisions it goes on in a second file (0: never)."""
