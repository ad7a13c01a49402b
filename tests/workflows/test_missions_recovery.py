"""A mission that is killed has each effect once, goes on from a cut file, and can go back to every step."""

import asyncio
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenex.core.conversation import fold
from tenex.core.errors import AppendFailed, StepFailed
from tenex.core.ids import Millis
from tenex.core.rollback.decide import state_at
from tenex.operations.mission_folder import mission_folder
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, GraphRunResult
from tenex.workflows.missions import records as m
from tenex.workflows.missions.state import mission_of
from tests.fakes.virtual import VirtualClock

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
        permitted = [(rec.step, rec.seq) for rec in journal.records() if isinstance(rec, m.StepStarted)]
        assert len(permitted) == len(set(permitted))


# ---- what was measured of AGENT-K and of pydantic-graph's file persistence (reference 1.4) ---------------------------


class Count(BaseModel):
    n: int = 0


@dataclass
class Tick(BaseNode[Count, None, int]):
    """Ten steps, each of which changes the state."""

    async def run(self, ctx: GraphRunContext[Count, None]) -> End[int]:
        for _ in range(10):
            ctx.state.n += 1
            await ctx.step("tick", int, replay="read")
        return End(ctx.state.n)


TICKING: Graph[Count, None, int] = Graph(nodes=(Tick,), state_type=Count, name="count")


class Still(VirtualClock):
    def now(self) -> Millis:
        return Millis(self.epoch)


def test_1_4_everything_of_the_same_second_is_kept_and_can_be_gone_back_to() -> None:
    """There two checkpoints of one second have one name, and the second replaces the first."""
    journal = Journals()
    assert play(TICKING, state=Count(), journal=journal, clock=Still()).output == 10
    records = journal.records()
    name = TICKING.mission_id("main")
    assert len({rec.at for rec in records}) == 1
    ticks = [rec.seq for rec in records if isinstance(rec, m.StepCompleted)]
    states = [mission_of(state_at(name, records, seq)) for seq in ticks]
    assert [mission.state["n"] for mission in states if mission is not None] == list(range(1, 11))


def test_1_4_what_a_step_costs_does_not_grow_with_the_mission() -> None:
    """There the whole file is read and written three or four times for each node."""

    @dataclass
    class Round(BaseNode[Count, None, int]):
        async def run(self, ctx: GraphRunContext[Count, None]) -> "Round | End[int]":
            ctx.state.n += 1
            return Round() if ctx.state.n < 400 else End(ctx.state.n)

    graph: Graph[Count, None, int] = Graph(nodes=(Round,), state_type=Count)
    journal = Journals()
    assert play(graph, state=Count(), journal=journal).output == 400
    each = [len(line) for line in journal.lines.splitlines()]
    assert max(each[-40:-5]) <= max(each[10:50]) + 20
    assert mission_of(fold(graph.mission_id("main"), journal.records())) is not None


def test_1_4_a_torn_tail_is_cut_off_and_the_mission_goes_on(tmp_path: Path) -> None:
    """There a file that was cut while it was written is read no more."""

    async def main() -> Any:
        async with mission_folder(tmp_path / "j") as journal:
            return await TICKING.run(Tick(), state=Count(), journal=journal, mission="main")

    asyncio.run(main())
    (path,) = (tmp_path / "j").glob("*/journal.jsonl")
    whole = path.read_bytes()
    for cut in range(len(whole) // 2, len(whole), 211):
        path.write_bytes(whole[:cut])
        assert asyncio.run(main()).output == 10, cut
