"""Missions: graphs whose nodes are functions over typed state, each of which returns the node that follows.

    graph = Graph(nodes=(Discovery, Research), state_type=MissionState)
    result = await graph.run(Discovery(), state=MissionState(...), deps=deps, journal=journals)

The names are pydantic-graph's, so a mission written for that runs here with another import. What it gets besides: its
edges are checked when the graph is built and again at run time, and every step is journaled, so that a process that was
killed continues where it was.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from uuid import uuid4

from tenex.core.config import Agent, Limits, Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import InternalError, MissionFailed, UsageError
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.ports import Clock, Journals, Missions
from tenex.core.signals import ContinueRequested, MissionRequested, PauseRequested, Signal
from tenex.core.state.mission import Mission
from tenex.runtime.clock import SystemClock
from tenex.workflows.local_run import CALLER, LocalRun, MemoryJournals

from .node_graph import NodeGraph
from .nodes import BaseNode
from .runner import NodeRunner

StateT = TypeVar("StateT")
DepsT = TypeVar("DepsT")
RunEndT = TypeVar("RunEndT")

_NOTHING: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRunResult(Generic[StateT, RunEndT]):
    """What became of a mission, so far."""

    outcome: str
    """`finished`, `failed`, `stopped` or `paused`."""
    state: StateT
    error: str = ""
    kind: str = ""
    mission: str = ""
    """The name by which a later run goes on with this one, where both have the same journal."""
    _output: RunEndT

    @property
    def output(self) -> RunEndT:
        """What the last node gave to `End`.

        Raises:
            MissionFailed: there is no result; the message has the reason.
        """
        if self.outcome != "finished":
            raise MissionFailed(f"The mission has no result, it is {self.outcome}: {self.error}")
        return self._output


class Graph(NodeGraph[StateT, DepsT, RunEndT]):
    """A mission's graph, checked when it is built."""

    async def run(
        self,
        start_node: BaseNode[StateT, DepsT, RunEndT],
        *,
        state: StateT = _NOTHING,
        deps: DepsT = _NOTHING,
        journal: Journals | None = None,
        mission: str | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> GraphRunResult[StateT, RunEndT]:
        """Run a mission to its end, or to a pause. Each run is a mission of its own, unless it is given a name.

        A named mission whose journal holds its beginning goes on; one that is paused, too. One whose journal holds its
        end gives its result again, and nothing runs.

        Args:
            start_node: where it begins.
            state: as it begins; where it goes on, the journal's counts.
            deps: given to nodes in each run, never journaled.
            journal: where it is recorded; without one it lives in this process only.
            mission: its name among those of this graph in the journals; without one, no other run goes on with it.
            limits: tries and bounds; the daemon's own by default.
            clock: time, for tests that own it.

        Raises:
            UsageError: it cannot begin, or the journal is of another workflow.
            AppendFailed: the disk did not take a record; run it again to go on.
        """
        run = self.open(
            start_node, state=state, deps=deps, journal=journal, mission=mission, limits=limits, clock=clock
        )
        return await run.run()

    def open(
        self,
        start_node: BaseNode[StateT, DepsT, RunEndT],
        *,
        state: StateT = _NOTHING,
        deps: DepsT = _NOTHING,
        journal: Journals | None = None,
        mission: str | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> "MissionRun[StateT, DepsT, RunEndT]":
        """A mission that can be paused while it runs; the arguments are those of `run`."""
        return MissionRun(
            self,
            start_node,
            self.asked(start_node, state, CALLER),
            deps,
            journal or MemoryJournals(),
            mission or uuid4().hex,
            limits or Limits(),
            clock or SystemClock(),
        )

    def mission_id(self, mission: str) -> ConversationId:
        """The id of the conversation that holds a mission of that name."""
        return ConversationId(hashlib.sha256(f"{self.name}\n{mission}".encode()).hexdigest())

    def result_of(self, mission: Mission) -> GraphRunResult[StateT, RunEndT]:
        """What became of a mission, as values.

        Raises:
            DeserializationError: the types have changed since.
        """
        finished = mission.outcome == "finished"
        outcome = mission.outcome or ("paused" if mission.is_paused else "open")
        return GraphRunResult(
            outcome=outcome,
            state=self.load_state(mission.state),
            error=mission.message or mission.paused,
            kind=mission.kind,
            _output=self._result.load(mission.result) if finished else _NOTHING,
        )


class _LocalMission(LocalRun):
    """One mission, run until it has ended or is paused; a paused one goes on when it is run again."""

    def __init__(
        self,
        conversation: ConversationId,
        journals: Journals,
        missions: Missions,
        rules: Policy,
        clock: Clock,
        asked: MissionRequested,
    ) -> None:
        super().__init__(conversation, journals, rules, clock, missions=missions)
        self._asked = asked

    def _begin(self, state: Conversation) -> Iterable[Signal]:
        mission = state.mission
        if mission is None:
            return [self._asked]
        if mission.workflow != self._asked.workflow:
            raise UsageError(
                f"This journal is of the workflow {mission.workflow}, not of {self._asked.workflow}; give the mission "
                "another name."
            )
        return [ContinueRequested(by=CALLER)] if mission.is_paused else []

    def _is_active(self, state: Conversation) -> bool:
        return state.mission is not None and state.mission.is_open and not state.mission.is_paused


class MissionRun(Generic[StateT, DepsT, RunEndT]):
    """A mission in this process."""

    def __init__(
        self,
        graph: Graph[StateT, DepsT, RunEndT],
        start_node: BaseNode[StateT, DepsT, RunEndT],
        asked: MissionRequested,
        deps: DepsT,
        journals: Journals,
        name: str,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self.name = name
        """By which a later run goes on with this one."""
        self.id = graph.mission_id(name)
        self._graph = graph
        runner = NodeRunner({graph.name: (graph, lambda: deps)})
        runner.hand(self.id, start_node.get_node_id(), graph.dependencies_of(start_node))
        self._local = _LocalMission(self.id, journals, runner, rules_of(graph, limits), clock, asked)

    def pause(self, reason: str = "") -> None:
        """Pause: a step under way may return, no other begins. `run` then returns; another one goes on."""
        self._local.post(PauseRequested(by=CALLER, reason=reason or f"{CALLER} asks for it."))

    async def run(self) -> GraphRunResult[StateT, RunEndT]:
        """Begin or go on; see `Graph.run`."""
        state = await self._local.run_to_rest()
        if state.mission is None:
            raise InternalError(f"the mission {self._graph.name} was not begun")
        return replace(self._graph.result_of(state.mission), mission=self.name)


def rules_of(graph: Graph[Any, Any, Any], limits: Limits) -> Policy:
    """The policy of a mission without a daemon: its roster is empty."""
    caller = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(""))
    return Policy(roster={}, tools={}, project=caller, limits=limits, missions={graph.name: graph.rule()})
