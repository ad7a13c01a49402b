"""Each run of a mission is one of its own, and works with the dependencies it was handed."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tenex.core.errors import UsageError
from tenex.core.ids import Slug
from tenex.operations.mission_folder import mission_folder
from tenex.workflows.kit.loading import load_script
from tenex.workflows.missions import BaseNode, Dependency, End, Graph, GraphRunContext
from tenex.workflows.missions.definitions import MissionWorkflow, Starting

from .mission_kit import Journals, alone, documented, play


class Order(BaseModel):
    """A state with the field that AGENT-K has."""

    mission_id: str
    item: str = ""
    keys: list[str] = []


@dataclass
class Office:
    clerk: str = "the office's"


Ctx = GraphRunContext[Order, Office]


@dataclass
class Take(BaseNode[Order, Office, Any]):
    clerk: Dependency[str]

    async def run(self, ctx: Ctx) -> "Pack":
        ctx.state.item = f"{ctx.state.item}, taken by {self.clerk}"
        return Pack(clerk=f"whom {self.clerk} chose") if "choose" in self.clerk else Pack(clerk=None)  # type: ignore[arg-type]


@dataclass
class Pack(BaseNode[Order, Office, Any], retries=1):
    clerk: Dependency[str]
    tries: int = field(default=0)

    async def run(self, ctx: Ctx) -> End[str]:
        ctx.state.keys.append(await ctx.step("pack", pack, replay="idempotent"))
        if ctx.attempt == 0 and "fails" in ctx.state.item:
            raise ConnectionError("once")
        return End(f"{ctx.state.item}, packed by {self.clerk}")


def pack(idempotency_key: str) -> str:
    return idempotency_key


GRAPH: Graph[Order, Office, Any] = Graph(nodes=(Take, Pack), state_type=Order, name="orders")


def order(clerk: str | None, deps: Office | None = None, item: str = "tea", **more: Any) -> Any:
    """Run a mission whose first node is handed a clerk."""
    start = Take(clerk=clerk)  # type: ignore[arg-type]
    return play(GRAPH, start, state=Order(mission_id="", item=item), deps=deps, **more)


def test_a_node_works_with_what_it_was_handed_and_else_with_what_the_run_has() -> None:
    assert order("mine", Office()).output == "tea, taken by mine, packed by the office's"
    assert order(None, Office()).output == "tea, taken by the office's, packed by the office's"
    assert order("I choose", None).output == "tea, taken by I choose, packed by whom I choose chose"


def test_after_a_restart_a_node_works_with_what_the_run_has() -> None:
    journal = Journals()
    journal.at = (3, "after")
    with pytest.raises(Exception, match="died"):
        order("I choose", Office(), journal=journal)
    assert order("I choose", Office(), journal=journal).output.endswith("packed by the office's")


def test_what_nothing_gives_pauses_the_mission_with_a_sentence() -> None:
    result = order(None, None)
    assert (result.outcome, result.error) == ("paused", "Take.clerk: the dependencies of this run have no clerk")


def test_two_runs_share_no_identity_no_journal_and_no_key(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with mission_folder(tmp_path) as journal:
            return [
                await GRAPH.run(Take(clerk="a"), state=Order(mission_id="", item=item), deps=Office(), journal=journal)
                for item in ("tea", "tea", "salt")
            ]

    results = asyncio.run(main())
    assert [result.output.partition(",")[0] for result in results] == ["tea", "tea", "salt"]
    for found in zip(*((one.state.mission_id, one.state.keys[0], one.mission) for one in results), strict=True):
        assert len(set(found) - {""}) == 3


def test_a_named_mission_goes_on_and_gives_its_result_again() -> None:
    journal = Journals()
    first, again = order("a", Office(), journal=journal), order("b", Office(), "salt", journal=journal)
    assert (again.output, again.state.mission_id) == (first.output, first.state.mission_id)
    assert first.state.mission_id == GRAPH.mission_id("main")


def test_a_message_is_never_taken_for_the_id_of_a_mission() -> None:
    begin = Starting(Slug("m"), MissionWorkflow(graph=alone(state_type=Order)))
    assert begin("@m apples").state == {"mission_id": "", "item": "apples", "keys": []}
    assert begin('@m {"mission_id": "7", "item": "x"}').state["mission_id"] == "7"


def test_a_beginning_that_hands_a_dependency_is_refused() -> None:
    def hands(message: str) -> Any:
        return Take(clerk=message), Order(mission_id="")

    begin = Starting(Slug("m"), MissionWorkflow(graph=GRAPH, begin=hands, deps=Office))
    with pytest.raises(UsageError, match="its `begin` hands clerk to Take, which only `deps` can"):
        begin("@m x")


def test_the_example_of_the_documents_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letters.py").write_text(documented("Runs two missions"))
    asyncio.run(load_script(tmp_path / "letters.py", "documents").main(tmp_path / "journal"))
    assert capsys.readouterr().out.splitlines() == [
        "Dear Ada, signed by the office of Ada to Ada True",
        "Dear Bo, signed by the office of Bo to Bo True",
    ]


def test_without_a_daemon_nothing_is_asked_by_name() -> None:
    async def asks(ctx: Any) -> None:
        await ctx.ask("planner", "Plan it")

    result = play(alone(asks))
    assert (result.outcome, "Without a daemon nothing can be asked by name" in result.error) == ("failed", True)
