"""A mission played through the pure core."""

from typing import Any

from tenex.core import records as r
from tenex.core.config import Limits, Policy, Replay
from tenex.core.effects import Timer
from tenex.core.graph import END, Edge, TransitionGraph
from tenex.core.pending import pending
from tenex.workflows.missions.config import MissionRule, NodeRule, with_missions
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.signals import MissionRequested, NodeFailed, NodeReturned, StepFinished, StepRequested
from tenex.workflows.missions.state import Mission, mission_of
from tests.fakes.scenario import Scenario, diligent, longest_way, policy

WAYS = {"First": ("Second", END, "Repair"), "Second": ("First", END), "Repair": ("Second",)}
EDGES = tuple(Edge(source, target) for source, targets in WAYS.items() for target in targets)
GRAPH = TransitionGraph(nodes=tuple(WAYS), initial="First", edges=EDGES)
RULE = MissionRule(
    graph=GRAPH,
    nodes={
        "First": NodeRule(phase="first", timeout=60_000, retries=2, on_error="Repair"),
        "Second": NodeRule(phase="second", retries=0),
        "Repair": NodeRule(phase="repair", takes_error=True),
    },
    tracked=frozenset({"current_phase", "phases_completed"}),
)
STATE = {"n": 0, "current_phase": "", "phases_completed": []}


def config(**limits: Any) -> Policy:
    return with_missions(policy(limits=Limits(**limits)), {"m": RULE})


def requested(workflow: str = "m", node: str = "First") -> MissionRequested:
    return MissionRequested(workflow=workflow, node=node, data={"x": 1}, state=STATE, by="alice")


class MissionScenario(Scenario):
    """A scenario with a mission in it."""

    def __init__(self, config_: Policy | None = None) -> None:
        super().__init__(longest_way, diligent, config=config_ or config())

    def begin(self) -> "MissionScenario":
        """Open the mission at its first node."""
        self.handle(requested())
        return self

    @property
    def mission(self) -> Mission:
        mission = mission_of(self.conversation)
        assert mission is not None
        return mission

    @property
    def run(self) -> NodeRun:
        return next(effect for effect in pending(self.conversation).values() if isinstance(effect, NodeRun))

    def ask(self, step: str, replay: Replay = Replay.ONCE) -> list[r.Record]:
        return self.handle(StepRequested(node=self.run.key, step=step, replay=replay))

    def done(self, step: str, *, ok: bool = True, result: Any = None, **state: Any) -> list[r.Record]:
        whole = {**self.mission.state, **state}
        return self.handle(StepFinished(node=self.run.key, step=step, ok=ok, result=result, state=whole))

    def returns(self, to: str, result: Any = None, **state: Any) -> list[r.Record]:
        whole = {**self.mission.state, **state}
        return self.handle(NodeReturned(key=self.run.key, to=to, result=result, state=whole))

    def fails(self, who: Any = "author") -> list[r.Record]:
        return self.handle(NodeFailed(key=self.run.key, who=who, kind="ValueError", message="no good"))

    def missions_timers(self) -> dict[str, Timer]:
        """The timers of the mission, by their part."""
        found = (effect for effect in pending(self.conversation).values() if isinstance(effect, Timer))
        return {timer.key.part: timer for timer in found if timer.key.part.startswith("node")}

    def is_paused(self) -> bool:
        return self.mission.is_paused

    def status(self) -> str:
        return self.conversation.cycle.status

    def left(self, part: str = "node-close") -> int:
        """The time until the timer of that part fires."""
        return self.missions_timers()[part].due - self.now
