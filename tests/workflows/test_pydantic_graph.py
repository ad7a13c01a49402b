"""What pydantic-graph's pages write runs with another import, or is refused with what takes its place."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import tenex
from tenex import BaseNode, End, Graph, GraphRunContext
from tenex.core.errors import MissionFailed, UsageError
from tests.fakes.virtual import VirtualClock

from .pages.asking_models import (
    Desk,
    Draft,
    Good,
    Letter,
    Multiple,
    Wanting,
    Workers,
    author,
    critic,
    letters,
    multiples,
)
from .pages.pydantic_graph import Basket, CountDown, Halve, Left, Pay, counting, halving, selling

PRICES = {"water": 1.25, "crisps": 1.75}


def test_a_graph_without_state_runs_in_a_program_that_is_not_async() -> None:
    assert halving.run_sync(Halve(7)).output == 4


async def test_a_graph_is_not_run_so_in_async_code() -> None:
    with pytest.raises(UsageError, match=r"write `await graph\.run"):
        halving.run_sync(Halve(7))


@pytest.mark.parametrize(
    ("node", "arguments"),
    [(BaseNode[int], (int, None)), (BaseNode[int, str], (int, str)), (GraphRunContext[int], (int, None))],
)
def test_type_arguments_may_be_left_out(node: Any, arguments: tuple[Any, ...]) -> None:
    assert get_args(node)[:2] == arguments


async def test_the_callers_state_is_changed_in_place() -> None:
    basket = Basket()
    result = await selling.run(Pay(1.0), state=basket, deps=PRICES)
    assert (result.output, basket) == (None, Basket(paid=0.0, product="water"))
    assert result.state is basket


@dataclass
class NamesNoDeps(BaseNode[Left]):
    async def run(self, ctx: GraphRunContext[Left]) -> "NamesDeps":  # type: ignore[override]
        return NamesDeps()


@dataclass
class NamesDeps(BaseNode[Left, Path, str]):
    async def run(self, ctx: GraphRunContext[Left, Path]) -> End[str]:
        return End(ctx.deps.name)


def test_dependencies_are_read_where_only_some_nodes_name_their_type() -> None:
    nodes: Any = [NamesNoDeps, NamesDeps]
    graph = Graph(nodes=nodes)
    assert (graph.state_type, graph.deps_type) == (Left, Path)
    assert graph.run_sync(NamesNoDeps(), state=Left(1), deps=Path("a/b")).output == "b"


def test_diagrams_begin_where_they_are_asked_to() -> None:
    drawn = selling.mermaid_code(start_node=Pay, title="Shop: 1", direction="LR")
    assert drawn.splitlines() == [
        "---",
        'title: "Shop: 1"',
        "---",
        "stateDiagram-v2",
        "    direction LR",
        "    [*] --> Pay",
        "    Pay --> Choose : paid",
        "    Choose --> Take",
        "    Take --> [*]",
        "    Take --> Pay",
    ]
    assert "[*] --> Take" in selling.mermaid_code(start_node="Take")
    with pytest.raises(UsageError, match="`start_node` is Halve, which is no node of this graph: Pay, Choose, Take"):
        selling.mermaid_code(start_node="Halve")
    with pytest.raises(UsageError, match="`direction` is 'UP'; it must be one of TB, BT, LR, RL"):
        selling.mermaid_code(direction="UP")  # type: ignore[arg-type]


async def test_a_graph_is_iterated_from_its_first_node_to_its_end() -> None:
    left = Left(2)
    async with counting.iter(CountDown(), state=left) as run:
        seen = [(node, run.state.counter) async for node in run]
    assert seen == [(CountDown(), 2), (CountDown(), 1), (CountDown(), 0), (End(0), 0)]
    assert run.result is not None
    assert run.result.output == 0


async def test_no_node_runs_that_was_not_asked_for() -> None:
    left = Left(5)
    async with counting.iter(CountDown(), state=left) as run:
        node = run.next_node
        while not isinstance(node, End) and left.counter > 2:
            node = await run.next(node)
        await asyncio.sleep(0)
        assert (run.result, left.counter) == (None, 2)
    assert left.counter == 2


async def test_what_the_caller_changes_between_two_nodes_is_the_next_ones_state() -> None:
    left = Left(5)
    async with counting.iter(CountDown(), state=left) as run:
        await run.next()
        left.counter = 1
        await run.next()
        assert left.counter == 0
        assert await run.next() == End(0)


async def test_only_the_node_that_is_next_can_be_run() -> None:
    async with halving.iter(Halve(7)) as run:
        with pytest.raises(UsageError, match=r"Halve\(number=8\) is not the node that is next"):
            await run.next(Halve(8))
        assert await run.next(Halve(7)) == run.next_node
    async with halving.iter(Halve(8)) as run:
        assert await run.next() == End(4)
        with pytest.raises(UsageError, match="has ended"):
            await run.next()


async def test_a_run_that_was_left_goes_on_from_its_journal() -> None:
    from tenex.workflows.kit.local_run import MemoryJournals

    journals = MemoryJournals()
    async with counting.iter(CountDown(), state=Left(3), journal=journals, mission="m") as run:
        await run.next()
    left = Left(99)
    result = await counting.run(CountDown(), state=left, journal=journals, mission="m")
    assert (result.output, left.counter) == (0, 0)


@dataclass
class Raises(BaseNode[None, None, int], retries=1):
    async def run(self, ctx: GraphRunContext) -> End[int]:
        if ctx.attempt == 0:
            raise ConnectionError("away")
        raise ValueError("no number")


raising = Graph(nodes=[Raises])


async def _run() -> Any:
    return (await raising.run(Raises(), clock=VirtualClock())).output


async def _iter() -> Any:
    async with raising.iter(Raises(), clock=VirtualClock()) as run:
        await run.next()


@pytest.mark.parametrize("use", [_run, _iter])
async def test_what_a_node_raised_is_the_cause_of_what_the_caller_gets(use: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(MissionFailed, match="no number") as caught:
        await use()
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("use", ["run", "run_sync", "iter"])
def test_persistence_is_refused_with_what_takes_its_place(use: str) -> None:
    async def main() -> None:
        given: Any = {"persistence": object()}
        if use == "run":
            await halving.run(Halve(1), **given)
        else:
            async with halving.iter(Halve(1), **given):
                pass

    with pytest.raises(UsageError, match="give `journal=` and `mission=`"):
        halving.run_sync(Halve(1), persistence=object()) if use == "run_sync" else asyncio.run(main())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["FullStatePersistence", "FileStatePersistence", "GraphBuilder", "GraphRuntimeError"])
def test_names_without_a_counterpart_say_what_takes_their_place(name: str) -> None:
    with pytest.raises(ImportError, match=f"tenex has no {name}: .*See docs/workflows.md"):
        exec(f"from tenex import {name}")
    assert name not in tenex.__all__


def _answering(*answers: Any) -> tuple[FunctionModel, list[str]]:
    """A model that gives objects as outputs, one after another, and what it was asked last each time."""
    prompts: list[str] = []
    rest = list(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        prompts.extend(str(part.content) for part in last.parts if isinstance(part, UserPromptPart))
        output = rest.pop(0)
        tools = [tool.name for tool in info.output_tools if type(output).__name__ in tool.name]
        name = tools[0] if tools else info.output_tools[0].name
        return ModelResponse(parts=[ToolCallPart(name, json.dumps(vars(output)))])

    return FunctionModel(answer), prompts


async def test_nodes_call_agents_and_keep_their_messages_in_the_state() -> None:
    first, second = Letter("Hello", "Hi"), Letter("Hello", "Hi, apples")
    writing, asked = _answering(first, second)
    judging, judged = _answering(Wanting(what="Name apples."), Good())
    desk = Desk("Ada")
    with author.override(model=writing), critic.override(model=judging):
        result = await letters.run(Draft(), state=desk)
    assert result.output == second
    assert asked == ["To Ada. ", "To Ada. Name apples."]
    assert judged == ["Hi", "Hi, apples"]
    assert [type(message) for message in desk.drafts[::3]] == [ModelRequest, ModelRequest]
    assert letters.mermaid_code(start_node=Draft).splitlines()[1:] == [
        "    [*] --> Draft",
        "    Draft --> Judge : written",
        "    Judge --> Draft",
        "    Judge --> [*] : good",
    ]


async def test_a_pool_of_processes_is_a_dependency() -> None:
    with ProcessPoolExecutor(1) as executor:
        result = await multiples.run(Multiple(3), deps=Workers(executor))
    assert result.output == 5
