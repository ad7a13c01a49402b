"""The port: determinism, usage, streaming and pace."""

import asyncio
import json
from itertools import pairwise

import pytest

from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, Note, ToolSpec, Usage, UserText
from tenex.core.phases import Phase
from tenex.core.ports import Model
from tenex.llm.scripted import OfflineModel

TOOLS = ("read_file", "list_files", "write_file", "check", "learn", "complete", "ask")


def work(text: str, phase: str = "chat", tools: tuple[str, ...] = ()) -> ModelRequest:
    offered = tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in tools)
    entries = (UserText(author="Ada", text=text),)
    return ModelRequest(purpose="work", agent=Slug("executor"), phase=phase, system="", entries=entries, tools=offered)


@pytest.mark.parametrize("phase", list(Phase))
async def test_equal_requests_get_equal_answers(phase: Phase) -> None:
    """Two models, the same request: the same step, to the last field."""
    request = work("Create hello.py that prints hello", phase=phase.value, tools=TOOLS)
    one: Model = OfflineModel()
    assert await one.step(request) == await OfflineModel().step(request) == await one.step(request)


async def test_it_uses_no_tokens_and_costs_nothing() -> None:
    step = await OfflineModel().step(work("one two three"))
    assert step.model == "offline"
    assert step.usage == Usage(cost_usd=0.0)


async def test_streamed_text_grows_to_the_whole_answer() -> None:
    streamed: list[str] = []
    step = await OfflineModel().step(work("hi", tools=("complete",)), streamed.append)
    assert len(streamed) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(streamed))
    assert streamed[-1] == step.calls[0].arguments["response"]


async def test_the_router_streams_nothing_and_answers_json() -> None:
    streamed: list[str] = []
    note = Note(title="routing", text="{}")
    request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=(note,))
    step = await OfflineModel().step(request, streamed.append)
    assert streamed == []
    assert step.calls == ()
    assert json.loads(step.text)["agents"] == ["USER"]


async def test_the_pace_is_kept_before_each_answer() -> None:
    """The demonstration holds the model back; cancelling the wait cancels the step."""
    gate = asyncio.Event()
    seen: list[ModelRequest] = []

    async def pace(request: ModelRequest) -> None:
        seen.append(request)
        await gate.wait()

    request = work("hi")
    task = asyncio.create_task(OfflineModel(pace=pace).step(request))
    for _ in range(3):
        await asyncio.sleep(0)
    assert seen == [request]
    assert not task.done()
    gate.set()
    assert (await asyncio.wait_for(task, 5)).text
    gate.clear()
    held = asyncio.create_task(OfflineModel(pace=pace).step(request))
    await asyncio.sleep(0)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


async def test_without_a_pace_nothing_is_awaited() -> None:
    """A step is done at its first send, so that benchmarks measure the core."""
    step = OfflineModel().step(work("hi"))
    with pytest.raises(StopIteration):
        step.send(None)
