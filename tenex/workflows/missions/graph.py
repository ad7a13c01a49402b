"""Missions: graphs whose nodes are functions over typed state, each of which returns the node that follows.

    graph = Graph(nodes=(Discovery, Research), state_type=MissionState)
    result = await graph.run(Discovery(), state=MissionState(...), deps=deps, journal=journals)

The names are pydantic-graph's, so a mission written for that runs here with another import. What it gets besides: its
edges are checked when the graph is built and again at run time, and every step is journaled, so that a process that was
killed continues where it was.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import uuid4

from tenex.core.config import Agent, Limits, Policy
from tenex.core.conversation import Conversation
from tenex.core.errors import InternalError, MissionFailed
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.ports import Clock, Journals, Missions
from tenex.core.signals import ContinueRequested, MissionRequested, Signal
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
            UsageError: it cannot begin.
            AppendFailed: the disk did not take a record; run it again to go on.
            DeserializationError: the types have changed since a run before.
        """
        name = mission or uuid4().hex
        conversation = self.mission_id(name)
        runner = NodeRunner({self.name: (self, lambda: deps)})
        runner.hand(conversation, start_node.get_node_id(), self.dependencies_of(start_node))
        caller = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(""))
        rules = Policy(
            roster={}, tools={}, project=caller, limits=limits or Limits(), missions={self.name: self.rule()}
        )
        asked = self.asked(start_node, state, CALLER)
        journals, clock = journal or MemoryJournals(), clock or SystemClock()
        ended = await _LocalMission(conversation, journals, runner, rules, clock, asked).run_to_rest()
        if (reached := ended.mission) is None:
            raise InternalError(f"the mission {self.name} was not begun")
        return GraphRunResult(
            outcome=reached.outcome or ("paused" if reached.is_paused else "open"),
            state=self.load_state(reached.state),
            error=reached.message or reached.paused,
            kind=reached.kind,
            mission=name,
            _output=self._result.load(reached.result) if reached.outcome == "finished" else _NOTHING,
        )

    def mission_id(self, mission: str) -> ConversationId:
        """The id of the conversation that holds a mission of that name."""
        return ConversationId(hashlib.sha256(f"{self.name}\n{mission}".encode()).hexdigest())


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
        return [ContinueRequested(by=CALLER)] if mission.is_paused else []

    def _is_active(self, state: Conversation) -> bool:
        return state.mission is not None and state.mission.is_open and not state.mission.is_paused
