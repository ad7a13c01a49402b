"""Runs one mission in this process: to its end, or node by node as its caller asks.

The caller's state is the object that nodes change, as in pydantic-graph; the journal holds it as values, and where a
node is run again or a mission goes on, the object gets the values of the journal.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic
from uuid import uuid4

from tenex.core.config import Agent, Limits, default_policy
from tenex.core.conversation import Conversation
from tenex.core.errors import InternalError, MissionFailed, SerializationError, UsageError
from tenex.core.ids import PublicKey, Slug
from tenex.core.ports import Clock, Journals
from tenex.core.signals import Signal
from tenex.runtime.clock import SystemClock
from tenex.workflows.kit.local_run import CALLER, LocalRun, MemoryJournals
from tenex.workflows.missions.config import with_missions
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.signals import ContinueRequested, MissionRequested
from tenex.workflows.missions.state import Mission, mission_of

from .node_graph import NodeGraph
from .nodes import BaseNode, DepsT, End, RunEndT, StateT
from .runner import NodeRunner

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
    _cause: BaseException | None = None

    @property
    def output(self) -> RunEndT:
        """What the last node gave to `End`.

        Raises:
            MissionFailed: there is no result; the message has the reason, and `__cause__` what the node raised.
        """
        if self.outcome != "finished":
            raise MissionFailed(f"The mission has no result, it is {self.outcome}: {self.error}") from self._cause
        return self._output


class LocalMission(Generic[StateT, DepsT, RunEndT]):
    """One mission and what it is run with."""

    def __init__(
        self,
        graph: NodeGraph[StateT, DepsT, RunEndT],
        start_node: BaseNode[StateT, DepsT, RunEndT],
        state: StateT,
        deps: DepsT,
        journal: Journals | None,
        mission: str | None,
        limits: Limits | None,
        clock: Clock | None,
    ) -> None:
        """Prepare a run; raises UsageError if it cannot begin."""
        self.graph = graph
        self.start_node = start_node
        self.state = state
        self.deps = deps
        self._name = mission or uuid4().hex
        self._asked = graph.asked(start_node, state, CALLER)
        self._journals = journal or MemoryJournals()
        self._limits = limits or Limits()
        self._clock = clock or SystemClock()

    async def run(self, admit: "Callable[[NodeRun, Any], Any] | None" = None) -> GraphRunResult[StateT, RunEndT]:
        """Run it to its end or to a pause; see `Graph.run`. `admit` returns once a node may begin."""
        graph = self.graph
        conversation = graph.mission_id(self._name)
        runner = _LocalNodes(graph, self.state, self.deps, admit)
        runner.hand(conversation, self.start_node.get_node_id(), graph.dependencies_of(self.start_node))
        caller = Agent(slug=Slug(CALLER), name=CALLER, pubkey=PublicKey(""))
        bare = default_policy(roster={}, tools={}, project=caller)
        policy = with_missions(replace(bare, limits=self._limits), {graph.name: graph.rule()})
        actor = _MissionActor(self._asked, conversation, self._journals, policy, self._clock, missions=runner)
        reached = mission_of(await actor.run_to_rest())
        if reached is None:
            raise InternalError(f"the mission {graph.name} was not begun")
        is_finished = reached.outcome == "finished"
        return GraphRunResult(
            outcome=reached.outcome or ("paused" if _is_at_rest(reached) else "open"),
            state=runner.state_of(graph, reached.state),
            error=reached.message or reached.paused or (reached.wait.message if reached.wait is not None else ""),
            kind=reached.kind,
            mission=self._name,
            _output=graph.load_result(reached.result) if is_finished else _NOTHING,
            _cause=runner.failure if reached.outcome == "failed" else None,
        )


class GraphRun(Generic[StateT, DepsT, RunEndT]):
    """A mission that runs one node each time its caller asks: `async for node in run`, or `await run.next()`."""

    def __init__(self, mission: LocalMission[StateT, DepsT, RunEndT]) -> None:
        """Run nothing yet; `Graph.iter` makes and begins it."""
        self.result: GraphRunResult[StateT, RunEndT] | None = None
        """What became of it; None until it has ended or paused."""
        self._mission = mission
        self._next: BaseNode[StateT, DepsT, RunEndT] | End[RunEndT] = mission.start_node
        self._effect: NodeRun | None = None
        """The node that waits to be asked for."""
        self._arrived = asyncio.Event()
        self._admitted = asyncio.Event()
        self._task: asyncio.Task[GraphRunResult[StateT, RunEndT]] | None = None
        self._is_iterated = False

    @property
    def next_node(self) -> BaseNode[StateT, DepsT, RunEndT] | End[RunEndT]:
        """The node that `next` will run; the end, once it is reached."""
        return self._next

    @property
    def state(self) -> StateT:
        """The state, as nodes change it."""
        return self._mission.state

    @property
    def deps(self) -> DepsT:
        """What the nodes are given."""
        return self._mission.deps

    async def begin(self) -> None:
        """Record the beginning, or read the journal, up to the node that is next."""
        self._task = asyncio.create_task(self._mission.run(self._admit), name="mission node by node")
        await self._until_next()

    async def close(self) -> None:
        """End what runs; what is journaled stays."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def next(
        self, node: BaseNode[StateT, DepsT, RunEndT] | None = None
    ) -> BaseNode[StateT, DepsT, RunEndT] | End[RunEndT]:
        """Run the node that is next, and return the one that follows, or the end.

        Args:
            node: the node that is next, as it is; the graph's edges and the journal say which one that is.

        Raises:
            UsageError: the mission is over, or the node is not the one that is next.
            MissionFailed: the mission has failed or is paused; `__cause__` is what the node raised.
        """
        if isinstance(self._next, End) or self._effect is None:
            raise UsageError("The mission has ended; there is no next node.")
        if node is not None and not self._is_next(node):
            raise UsageError(
                f"{node!r} is not the node that is next, which is {self._next!r}: a node returns what follows it."
            )
        self._effect = None
        self._arrived.clear()
        self._admitted.set()
        await self._until_next()
        return self._next

    def __aiter__(self) -> AsyncIterator[BaseNode[StateT, DepsT, RunEndT] | End[RunEndT]]:
        return self

    async def __anext__(self) -> BaseNode[StateT, DepsT, RunEndT] | End[RunEndT]:
        """The node that is next, first; then what follows it, up to the end."""
        if not self._is_iterated:
            self._is_iterated = True
            return self._next
        if isinstance(self._next, End):
            raise StopAsyncIteration
        return await self.next()

    def _is_next(self, node: BaseNode[StateT, DepsT, RunEndT]) -> bool:
        assert self._effect is not None
        try:
            name, data = self._mission.graph.dump_node(node)
        except SerializationError:
            return False
        return (name, data) == (self._effect.node, dict(self._effect.data))

    async def _admit(self, effect: NodeRun, node: Any) -> None:
        """Wait until the caller asks for a node; another try of one that was asked for waits for nobody."""
        if effect.attempt and self._admitted.is_set():
            return
        self._admitted.clear()
        self._effect = effect
        self._next = node
        self._arrived.set()
        await self._admitted.wait()

    async def _until_next(self) -> None:
        """Wait until a node waits to be asked for, or the mission is over or paused."""
        assert self._task is not None
        arrival = asyncio.create_task(self._arrived.wait())
        try:
            await asyncio.wait([arrival, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
        if self._task.done():
            self.result = self._task.result()
            self._effect = None
            self._next = End(self.result.output)


class _LocalNodes(NodeRunner):
    """Runs nodes on the state that the caller holds."""

    def __init__(
        self, graph: NodeGraph[Any, Any, Any], state: Any, deps: Any, admit: Callable[[NodeRun, Any], Any] | None
    ) -> None:
        super().__init__({graph.name: (graph, lambda: deps)})
        self._state = state
        self._admit = admit
        self.failure: BaseException | None = None
        """What a node raised last."""

    def state_of(self, graph: NodeGraph[Any, Any, Any], recorded: Mapping[str, Any]) -> Any:
        """The caller's state, with these values; a new one where the caller gave none."""
        if self._state is None:
            return graph.load_state(recorded)
        graph.update(self._state, recorded)
        return self._state

    async def admit(self, effect: NodeRun, node: Any) -> None:
        """Return once the caller wants this node to run."""
        if self._admit is not None:
            await self._admit(effect, node)

    def report_failure(self, error: BaseException) -> None:
        """Keep what a node raised, for whoever reads the result."""
        self.failure = error


class _MissionActor(LocalRun):
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
