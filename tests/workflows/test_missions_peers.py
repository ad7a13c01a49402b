"""The defects measured in AGENT-K and in pydantic-graph's file persistence (reference 1.4), each passing here."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.decide.rollback import state_at
from tenex.core.ids import Millis
from tenex.operations.mission_folder import mission_folder
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tests.fakes.virtual import VirtualClock

from .mission_kit import Journals, play


class Count(BaseModel):
    n: int = 0


@dataclass
class Work(BaseNode[Count, None, int]):
    """Ten steps, each of which changes the state."""

    async def run(self, ctx: GraphRunContext[Count, None]) -> End[int]:
        for _ in range(10):
            ctx.state.n += 1
            await ctx.step("tick", int, replay="read")
        return End(ctx.state.n)


GRAPH: Graph[Count, None, int] = Graph(nodes=(Work,), state_type=Count, name="count")


class Still(VirtualClock):
    def now(self) -> Millis:
        return Millis(self.epoch)


def test_1_4_everything_of_the_same_second_is_kept_and_can_be_gone_back_to() -> None:
    """There two checkpoints of one second have one name, and the second replaces the first."""
    journal = Journals()
    assert play(GRAPH, state=Count(), journal=journal, clock=Still()).output == 10
    records = journal.records()
    name = GRAPH.mission_id("main")
    assert len({rec.at for rec in records}) == 1
    ticks = [rec.seq for rec in records if isinstance(rec, r.StepCompleted)]
    states = [state_at(name, records, seq).mission for seq in ticks]
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
    assert fold(graph.mission_id("main"), journal.records()).mission is not None


def test_1_4_a_torn_tail_is_cut_off_and_the_mission_goes_on(tmp_path: Path) -> None:
    """There a file that was cut while it was written is read no more."""

    async def main() -> Any:
        async with mission_folder(tmp_path / "j") as journal:
            return await GRAPH.run(Work(), state=Count(), journal=journal, mission="main")

    asyncio.run(main())
    (path,) = (tmp_path / "j").glob("*/journal.jsonl")
    whole = path.read_bytes()
    for cut in range(len(whole) // 2, len(whole), 211):
        path.write_bytes(whole[:cut])
        assert asyncio.run(main()).output == 10, cut
