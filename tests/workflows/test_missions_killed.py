"""A mission that is killed at every append of its journal, before it is kept or after, has each effect once."""

import asyncio
import itertools
from dataclasses import dataclass, field

from pydantic import BaseModel

from tenex.core import records as r
from tenex.core.errors import AppendFailed, StepFailed
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, GraphRunResult

from .mission_kit import Journals, play


class Trip(BaseModel):
    paid: list[str] = []
    steps: int = 0
    current_phase: str = ""
    phases_completed: list[str] = []


@dataclass
class World:
    """What is outside: the effects there were, which no process can forget, and the keys of some."""

    effects: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def act(self, what: str) -> str:
        self.effects.append(what)
        return what

    def act_once(self, what: str, *, idempotency_key: str) -> str:
        """Have an effect that the other side knows by its key."""
        if idempotency_key not in self.keys:
            self.keys.add(idempotency_key)
            self.act(what)
        return what


Ctx = GraphRunContext[Trip, World]
Node = BaseNode[Trip, World, str]


@dataclass
class Book(Node):
    """Effects that may be repeated by their key, side by side, and a retry between."""

    async def run(self, ctx: Ctx) -> "Pay":
        ctx.state.steps += 1
        names = ("hotel", "train", "plane")
        act = ctx.deps.act_once
        await asyncio.gather(*(ctx.step("book", act, name, replay="idempotent") for name in names))
        if ctx.attempt == 0:
            raise ConnectionError("down for a moment")
        ctx.state.steps += 1
        return Pay(left=2)


@dataclass
class Pay(Node):
    """An effect without a key: what is unknown is looked up before it is repeated."""

    left: int

    async def run(self, ctx: Ctx) -> "Pay | End[str]":
        what = f"pay-{self.left}"
        while True:
            try:
                paid = await ctx.step("pay", ctx.deps.act, what)
                break
            except StepFailed as error:
                if not error.is_unknown:
                    raise
                if await ctx.step("look", lambda: what in ctx.deps.effects, replay="read"):
                    paid = what
                    break
        ctx.state.paid = [*ctx.state.paid, paid]
        return Pay(left=self.left - 1) if self.left else End(" ".join(ctx.state.paid))


GRAPH: Graph[Trip, World, str] = Graph(nodes=(Book, Pay), state_type=Trip, name="trip")


def lead(journal: Journals, world: World) -> GraphRunResult[Trip, str]:
    """Run until it is over, however often the process dies."""
    for _ in range(3):
        try:
            result: GraphRunResult[Trip, str] = play(GRAPH, state=Trip(), deps=world, journal=journal)
        except AppendFailed:
            continue
        return result
    raise AssertionError("it never came to its end")


def test_killed_at_every_append_each_effect_is_had_once() -> None:
    whole = Journals()
    lead(whole, World())
    assert whole.appends > 12
    for at, when in itertools.product(range(whole.appends + 1), ("before", "after")):  # 0 is never reached
        journal, world = Journals(), World()
        journal.at = (at, when)
        result = lead(journal, world)
        assert result.output == "pay-2 pay-1 pay-0", at
        assert (result.state.steps, result.state.phases_completed) == (2, ["book", "pay"]), at
        assert sorted(world.effects) == ["hotel", "pay-0", "pay-1", "pay-2", "plane", "train"], at
        permitted = [(rec.step, rec.seq) for rec in journal.records() if isinstance(rec, r.StepStarted)]
        assert len(permitted) == len(set(permitted))
