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
from tests.core.kit import WAITS, Script, go, plain, standing, until, work
from tests.fakes.agency import program, with_program
from tests.fakes.linked import cast
from tests.fakes.play import ID, Play, diligent, rules, says, seven_phases
from tests.fakes.workflows import TRIO, begun, calls

from .agency_scenes import Decisions, colleagues, output_states, own_phases

DOWN = ModelFailed(
    key=Key(Work.MODEL, 0), message="connection refused", retryable=True, usage=Usage(input_tokens=3, cost_usd=0.5)
)
"""Its key is put in by whoever fails."""


def seven() -> Decisions:
    """All phases, two agents at once, a question that is answered, to the end."""
    play = Play(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        play.person(text)
        play.settle()
    assert play.conversation.status == "ended"
    return play.journal


def waiver() -> Decisions:
    """Gates given up by command, and passed through."""
    play = standing(Phase.EXECUTE)
    play.person("/skip verification")
    play.settle()
    play.person("/quick")
    play.router = lambda _q: {"agents": ["END"], "reason": "all is done"}
    play.person("go on")
    play.settle()
    return play.journal


def parked() -> Decisions:
    """A question that is open, through two restarts; nothing is answered."""
    play = Play(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it"):
        play.person(text)
        play.settle()
        play.crash()
    assert play.conversation.is_parked
    return play.journal


def held() -> Decisions:
    """A model that cannot be reached: three tries, held, told, and reached again."""
    play = Play(lambda _q: go(None, "executor"), lambda _c, _call: DOWN)
    play.person("build it")
    for _ in range(5):
        play.settle()
        play.fire("retry")
    play.worker, play.router = plain, lambda _q: {"agents": ["USER"], "reason": "the person is next"}
    play.settle()
    play.fire("retry") if any(k.part == "retry" for k in play.running) else None
    play.settle()
    assert play.conversation.status == "waiting"
    return play.journal


def stopped() -> Decisions:
    """Stopped by the person in the middle of calls, then tried again."""
    play = standing(Phase.PLAN, lambda _q: go("execute", "executor", "helper"), diligent)
    until(play, lambda p: len(work(p)) > 1)
    play.person("/stop")
    play.settle()
    play.person("/retry")
    play.settle()
    return play.journal


def limits() -> Decisions:
    """A limit is reached, told, and lifted by the person."""
    bound = rules(limits=Limits(turns_per_message=2))
    play = Play(lambda _q: go("brainstorm" if not _q["turns"] else None, "planner"), plain, config=bound)
    play.person("think about it")
    play.settle()
    play.person("/continue")
    play.settle()
    return play.journal


def clock_set() -> Decisions:
    """The clock is set on and back while agents work and while a model is held."""
    play = Play(lambda _q: go("execute", "executor"), lambda _c, _call: DOWN)
    play.person("build it")
    play.settle()
    for by in (315_360_000_000, -315_360_000_000, -3_600_000):
        play.now = Millis(max(1, play.now + by))
        play.hear(ClockJumped(by=by))
        play.reconcile()
    play.fire("retry")
    play.settle()
    play.crash()
    return play.journal


def rebuilt() -> Decisions:
    """Rebuilt from the first half of a journal and the readable file of its end, and continued."""
    records = [record for decision in seven() for record in decision]
    view: dict[str, Any] = json.loads(render(fold(ID, records)))
    left = Salvaged(records=records[: len(records) // 2], damage=["journal.jsonl from its middle on"])
    made, _ = rebuilt_records(ID, left, messages_of_view(view, ID, "conversation.json"), (), Millis(2_000_000))
    play = Play(seven_phases, diligent)
    play.journal, play.now = [(record,) for record in made], Millis(3_000_000)
    play.conversation = play.refold()
    play.count = 100
    play.reconcile()
    play.person("and now in green")
    play.settle()
    return play.journal


def long() -> Decisions:
    """Two cycles with work between restarts; kept in two files."""
    play = Play(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue", "another one", "think", "plan", "red"):
        play.person(text)
        play.settle(seed=len(text))
        play.crash()
    return play.journal


def workflow() -> Decisions:
    """A workflow with a person in it: variables, a tool of a rule, a handoff, a late speaker, a stop, and its end."""
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
    play = begun(graph, lines, "person", *TRIO, context={"tone": "dry"}, expectations={"reply_within": Within(warn=9)})
    play.fire("turn_within.warn")
    play.settle()
    play.fire("reply_within.warn")
    play.person("/stop")
    play.crash()
    play.person("once more")
    play.settle()
    return play.journal


def mission() -> Decisions:
    """A mission begun by a mention: steps, a retry, a pause, a crash, a stop, an error edge, going on, and its end."""
    play = Play(seven_phases, diligent, config=replace(rules(), missions={"m": MISSION}))
    play.person("@m count", addressed=("m",))
    _asks(play, "look", Replay.READ)
    _has(play, "look", 3, n=3)
    play.hear(NodeFailed(key=_node(play), who="world", kind="ConnectionError", message="down for a moment"))
    play.fire("node-retry")
    _asks(play, "send", Replay.ONCE)
    play.person("/pause")
    _has(play, "send", {"id": "a"})
    play.person("how far are you?")
    play.settle()
    play.crash()
    play.person("/continue")
    play.hear(NodeFailed(key=_node(play), who="author", kind="ValueError", message="no good"))
    _asks(play, "mend", Replay.ONCE)
    play.crash()
    play.hear(NodeReturned(key=_node(play), to="Last", data={"x": 1}, state=_state(play, n=4)))
    play.person("/stop")
    play.settle()
    play.person("/continue")
    play.hear(NodeReturned(key=_node(play), to=END, result={"ok": True}, state=_state(play)))
    play.person("thanks")
    play.settle()
    return play.journal


def costs() -> Decisions:
    """Rebuilt from the readable file alone, an agent whose prompt shows its state, a mission that costs too much."""
    one = Play(Script(WAITS), plain)
    one.person("hello")
    one.settle()
    view: dict[str, Any] = json.loads(render(one.conversation))
    made, _ = rebuilt_records(ID, Salvaged(), messages_of_view(view, ID, "conversation.json"), (), Millis(2_000_000))
    known = with_program(program(shows_state=True), rules(limits=Limits(tokens_per_cycle=5_000)))
    sets = says("", ("append_state", {"field": "data", "value": "blue"}), ("read_file", {"path": "a"}))
    play = Play(Script(WAITS), cast(executor=[sets, sets]), config=replace(known, missions={"m": MISSION}))
    play.journal, play.now = [(record,) for record in made], Millis(3_000_000)
    play.conversation, play.count = play.refold(), 100
    play.reconcile()
    play.router = Script(go("execute", "executor"), WAITS)
    play.person("and now?")
    until(play, lambda it: bool(it.all(PromptRerendered)))
    play.crash()
    play.settle()
    state = {"n": 0, "current_phase": "", "phases_completed": []}
    play.hear(MissionRequested(workflow="m", node="First", data={"x": 1}, state=state, by="alice"))
    _asks(play, "look", Replay.READ)
    large = {"vendor:large": Usage(input_tokens=4_000, output_tokens=1_500, cost_usd=0.25)}
    play.hear(StepFinished(node=_node(play), step="look", ok=True, result=3, state=_state(play, n=3), spent=large))
    _asks(play, "send", Replay.ONCE)
    play.crash()
    play.person("/continue")
    down = NodeFailed(key=_node(play), who="world", kind="ConnectionError", message="down", spent=large)
    play.hear(down)
    play.fire("node-retry")
    small = {"vendor:small": Usage(input_tokens=10, calls=2), "own": Usage(cost_usd=0.125)}
    play.hear(NodeReturned(key=_node(play), to="Last", data={"x": 1}, state=_state(play), spent=small))
    play.hear(NodeReturned(key=_node(play), to=END, result=3, state=_state(play)))
    play.settle()
    return play.journal


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


def _node(play: Play) -> Key:
    return next(key for key in pending(play.conversation) if key.work is Work.NODE)


def _state(play: Play, **changed: Any) -> dict[str, Any]:
    assert play.conversation.mission is not None
    return {**play.conversation.mission.state, **changed}


def _asks(play: Play, step: str, replay: Replay) -> None:
    play.hear(StepRequested(node=_node(play), step=step, replay=replay))


def _has(play: Play, step: str, result: Any, **changed: Any) -> None:
    play.hear(StepFinished(node=_node(play), step=step, ok=True, result=result, state=_state(play, **changed)))


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
    "colleagues": (colleagues, 12),
    "output-states": (output_states, 0),
    "costs": (costs, 7),
}
"""By the name of its folder: what makes it, and after how many decisions it goes on in a second file (0: never)."""
