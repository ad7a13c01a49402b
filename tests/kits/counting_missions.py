"""A mission that counts to six in a runtime on virtual time."""

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tenex.core.ids import ConversationId, PublicKey
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tenex.workflows.missions.config import with_missions
from tenex.workflows.missions.nodes import ReplayName
from tenex.workflows.missions.runner import NodeRunner
from tenex.workflows.missions.state import Mission, mission_of
from tests.fakes.runtime import Daemon, World
from tests.fakes.scenario import ID, longest_way


class Count(BaseModel):
    """A state."""

    n: int = 0


@dataclass
class Work(BaseNode[Count, Any, int]):
    """Six steps of some seconds each."""

    replay: ReplayName = "once"

    async def run(self, ctx: GraphRunContext[Count, Any]) -> "Rest":
        for number in range(6):
            ctx.state.n += 1
            await ctx.step("tick", ctx.deps, number, replay=self.replay)
        return Rest()


@dataclass
class Rest(BaseNode[Count, Any, int]):
    async def run(self, ctx: GraphRunContext[Count, Any]) -> End[int]:
        return End(ctx.state.n)


GRAPH: Graph[Count, Any, int] = Graph(nodes=(Work, Rest), state_type=Count, name="count")
KEY = PublicKey("e" * 64)


class Stage:
    """A world with a mission whose effects are counted outside."""

    def __init__(self, seconds: float = 6) -> None:
        self.seconds = seconds
        self.world = World(longest_way, lambda request: "done")
        self.world.policy = with_missions(self.world.policy, {"count": GRAPH.rule()})
        self.done: list[int] = []
        self.cut: list[int] = []
        self.world.missions = NodeRunner({"count": (GRAPH, lambda: self.tick)})

    async def tick(self, number: int) -> int:
        """An effect: begun, and some seconds later had."""
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cut.append(number)
            raise
        self.done.append(number)
        return number

    def begin(self, daemon: Daemon, replay: ReplayName = "once") -> None:
        daemon.runtime.coordinator.deliver(ConversationId(ID), GRAPH.asked(Work(replay), Count(), "alice"))

    def mission(self, daemon: Daemon) -> Mission:
        found = mission_of(daemon.state())
        assert found is not None
        return found

    async def play_mention(self) -> None:
        """A mention begins it, and it ends."""
        async with self.world.daemon() as daemon:
            daemon.write("count for me", tagged=(KEY,))
            await daemon.until("ended")
            assert self.mission(daemon).result == 6

    async def until(self, daemon: Daemon, steps: int) -> None:
        async with asyncio.timeout(10_000):
            while len(self.done) < steps:
                await asyncio.sleep(0.1)
