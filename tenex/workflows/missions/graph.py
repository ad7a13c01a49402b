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
from tenex.core.ports import Clock, Journals
from tenex.core.signals import Signal
from tenex.runtime.clock import SystemClock
from tenex.workflows.local_run import CALLER, LocalRun, MemoryJournals, check_given
from tenex.workflows.missions.config import with_missions
from tenex.workflows.missions.signals import ContinueRequested, MissionRequested
from tenex.workflows.missions.state import Mission, mission_of

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
    """A mission's graph, checked when it is built, which can be run."""

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
        check_given(journal=journal, clock=clock, limits=limits, mission=mission)
        name = mission or uuid4().hex
        asked = self.asked(start_node, state, CALLER)
        conversation = self.mission_id(name)
        runner = NodeRunner({self.name: (self, lambda: deps)})
        runner.hand(conversation, start_node.get_node_id(), self.dependencies_of(start_node))
        caller = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(""))
        bare = Policy(roster={}, tools={}, project=caller, limits=limits or Limits())
        policy = with_missions(bare, {self.name: self.rule()})
        journals = journal or MemoryJournals()
        clock = clock or SystemClock()
        ended = await _LocalMission(asked, conversation, journals, policy, clock, missions=runner).run_to_rest()
        if (reached := mission_of(ended)) is None:
            raise InternalError(f"the mission {self.name} was not begun")
        return GraphRunResult(
            outcome=reached.outcome or ("paused" if _is_at_rest(reached) else "open"),
            state=self.load_state(reached.state),
            error=reached.message or reached.paused or (reached.wait.message if reached.wait is not None else ""),
            kind=reached.kind,
            mission=name,
            _output=self._result.load(reached.result) if reached.outcome == "finished" else _NOTHING,
        )

    def mission_id(self, mission: str) -> ConversationId:
        """The id of the conversation that holds a mission of that name."""
        return ConversationId(hashlib.sha256(f"{self.name}\n{mission}".encode()).hexdigest())


class _LocalMission(LocalRun):
    """One mission, run until it has ended or is paused; a paused one goes on when it is run again."""

    def __init__(self, asked: MissionRequested, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._asked = asked

    def _begin(self, state: Conversation) -> Iterable[Signal]:
        mission = mission_of(state)
        if mission is None:
            return [self._asked]
        return [ContinueRequested(by=CALLER)] if _is_at_rest(mission) else []

    def _is_active(self, state: Conversation) -> bool:
        mission = mission_of(state)
        return mission is not None and mission.is_open and not _is_at_rest(mission)


def _is_at_rest(mission: Mission) -> bool:
    """Whether it goes on only when it is continued: it is paused, or waits for somebody to act."""
    return mission.is_paused or (mission.wait is not None and mission.wait.needs_operator)
