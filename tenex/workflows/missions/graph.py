"""Missions: graphs whose nodes are functions over typed state, each of which returns the node that follows.

    graph = Graph(nodes=(Discovery, Research), state_type=MissionState)
    result = await graph.run(Discovery(), state=MissionState(...), deps=deps, journal=journals)

The names are pydantic-graph's, so a mission written for that runs here with another import. What it gets besides: its
edges are checked when the graph is built and again at run time, and every step is journaled, so that a process that was
killed continues where it was.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tenex.core.config import Limits
from tenex.core.errors import UsageError
from tenex.core.ports import Clock, Journals
from tenex.workflows.kit.local_run import check_given

from .graph_run import GraphRun, GraphRunResult, LocalMission
from .node_graph import NodeGraph
from .nodes import BaseNode, DepsT, RunEndT, StateT

_NOTHING: Any = None


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
        persistence: None = None,
    ) -> GraphRunResult[StateT, RunEndT]:
        """Run a mission to its end, or to a pause. Each run is a mission of its own, unless it is given a name.

        A named mission whose journal holds its beginning goes on; one that is paused, too. One whose journal holds its
        end gives its result again, and nothing runs.

        Args:
            start_node: where it begins.
            state: as it begins, changed in place by nodes; where a mission goes on, it gets the journal's values.
            deps: given to nodes in each run, never journaled.
            journal: where it is recorded; without one it lives in this process only.
            mission: its name among those of this graph in the journals; without one, no other run goes on with it.
            limits: tries and bounds; the daemon's own by default.
            clock: time, for tests that own it.
            persistence: nothing; what pydantic-graph gives here is the journal's work.

        Raises:
            UsageError: it cannot begin.
            AppendFailed: the disk did not take a record; run it again to go on.
            DeserializationError: the types have changed since a run before.
        """
        check_given(journal=journal, clock=clock, limits=limits, mission=mission)
        _refuse_persistence(persistence)
        local = LocalMission(self, start_node, state, deps, journal, mission, limits, clock)
        return await local.run()

    def run_sync(
        self,
        start_node: BaseNode[StateT, DepsT, RunEndT],
        *,
        state: StateT = _NOTHING,
        deps: DepsT = _NOTHING,
        limits: Limits | None = None,
        clock: Clock | None = None,
        persistence: None = None,
    ) -> GraphRunResult[StateT, RunEndT]:
        """The same as `run`, in a program that is not async; it has no journal, which is opened in async code.

        Raises:
            UsageError: it is called in async code, or the mission cannot begin.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            running = self.run(start_node, state=state, deps=deps, limits=limits, clock=clock, persistence=persistence)
            return asyncio.run(running)
        raise UsageError("`run_sync` was called in async code; write `await graph.run(...)` there.")

    @asynccontextmanager
    async def iter(
        self,
        start_node: BaseNode[StateT, DepsT, RunEndT],
        *,
        state: StateT = _NOTHING,
        deps: DepsT = _NOTHING,
        journal: Journals | None = None,
        mission: str | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        persistence: None = None,
    ) -> AsyncIterator[GraphRun[StateT, DepsT, RunEndT]]:
        """Run a mission node by node: `async for node in run`, or `await run.next()`. The arguments are those of `run`.

        A node runs when it is asked for; whoever leaves before the end leaves the mission there, and a run with the
        same journal and name goes on. The time between two nodes counts for the `timeout` of the next.

        Raises:
            UsageError: it cannot begin.
        """
        check_given(journal=journal, clock=clock, limits=limits, mission=mission)
        _refuse_persistence(persistence)
        local = LocalMission(self, start_node, state, deps, journal, mission, limits, clock)
        run = GraphRun(local)
        try:
            await run.begin()
            yield run
        finally:
            await run.close()


def _refuse_persistence(persistence: object) -> None:
    """Raise UsageError if pydantic-graph's persistence is given."""
    if persistence is not None:
        raise UsageError(
            "`persistence` is not taken: give `journal=` and `mission=`; a run of the same name goes on after a kill."
        )
