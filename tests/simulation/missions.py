"""A mission with steps of every kind for simulated worlds, which perform the steps and count them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from tenex.core import records as r
from tenex.core.effects import KindEffect
from tenex.core.errors import StepFailed
from tenex.core.ids import PublicKey, Slug
from tenex.core.signals import Signal
from tenex.workflows.kit.steps import ReplayName
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tenex.workflows.missions import records as m
from tenex.workflows.missions.definitions import MissionWorkflow
from tenex.workflows.missions.runner import NodeRunner, NodeTaskOf

if TYPE_CHECKING:
    from .world import FaultyWorld

NAME = Slug("count")
KEY = PublicKey("e" * 64)
CONVERSATION = "d" * 64
STEPS = 5
ROUNDS = 3

Acts = Callable[[str, str], Awaitable[None]]
"""Has an effect of a kind (`read`, `idempotent`, `once`), given its idempotency key."""


class Tally(BaseModel):
    """How many steps have returned."""

    done: int = 0


Context = GraphRunContext[Tally, Acts]


@dataclass
class Work(BaseNode[Tally, Acts, int], timeout=1_800, retries=3, on_error="Repair"):
    """Some steps, one after the other, and the same again."""

    left: int = ROUNDS - 1

    async def run(self, ctx: Context) -> "Work | End[int]":
        """A step of which no one knows what it did is passed over."""
        for kind in islice(cycle(get_args(ReplayName)), STEPS):

            async def act(idempotency_key: str, kind: str = kind) -> None:
                await ctx.deps(kind, idempotency_key)
                ctx.state.done += 1

            try:
                await ctx.step("act", act, replay=kind)
            except StepFailed as fault:
                if not fault.is_unknown:
                    raise
        return Work(self.left - 1) if self.left else End(ctx.state.done)


@dataclass
class Repair(BaseNode[Tally, Acts, int]):
    async def run(self, ctx: Context) -> End[int]:
        return End(ctx.state.done)


GRAPH: Graph[Tally, Acts, int] = Graph(nodes=(Work, Repair), state_type=Tally, name=NAME)
RULE: Any = MissionWorkflow(graph=GRAPH, begin=lambda _text: (Work(), Tally())).rule(NAME, KEY)


class Errands(NodeRunner):
    """Runs the mission's nodes in a world, and has the effects of their steps; both may fail."""

    def __init__(self, world: "FaultyWorld") -> None:
        super().__init__({NAME: (GRAPH, self._acts)})
        self._world = world
        self._dice = Random(f"missions {world.seed}")
        self._keys: dict[tuple[str, str], str] = {}
        """The key of each (conversation, step), the last of that name."""
        self._returned: set[str] = set()
        """The keys of the steps whose result is durable."""

    def prepare(self, effect: KindEffect, post: Callable[[Signal], None]) -> NodeTaskOf:
        """Take what a run needs, unless a fault of ours is in the way."""
        if self._world.bugs is not None and self._meets("prompter"):
            raise RuntimeError("a fault of ours")
        return super().prepare(effect, post)

    def note(self, conversation: str, record: r.Record) -> None:
        if isinstance(record, m.StepStarted):
            self._keys[conversation, record.step] = f"{conversation}:{record.seq}"
        elif isinstance(record, m.StepCompleted):
            self._returned.add(self._keys[conversation, record.step])

    def _meets(self, fault: str) -> bool:
        return self._dice.random() < self._world.odd(fault)

    def _acts(self) -> Acts:
        """What the steps of one run of a node do; it may not be there."""
        if self._meets("unavailable"):
            raise ConnectionError("refused")
        if self._meets("tool bug"):
            raise RuntimeError("a fault of its author's")
        return self._act

    async def _act(self, kind: str, key: str) -> None:
        """An effect, counted before it is had."""
        self._world.must(key not in self._returned, f"a step ran again after its result was durable: {key}")
        self._world.calls[f"{kind} {key}"] += 1
        await asyncio.sleep(self._dice.choice([0.01, 3.0, 200.0]) * self._dice.random())
        if self._meets("hang"):
            await asyncio.get_running_loop().create_future()  # until it is cut off
        if self._meets("unavailable"):
            raise ConnectionError("refused")
        if self._meets("tool error"):
            raise ValueError("it does not work")
