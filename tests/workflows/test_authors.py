"""User code that fails in unexpected places: its failure is reported, and nothing waits for ever."""

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.errors import InternalError
from tenex.workflows.agents import BaseAgent, State, tool
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tests.fakes.python_agents import ScriptedModel, calls, script

from .mission_kit import Journals, alone, play

Ctx = GraphRunContext[None, None]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def mute(*_: Any) -> Any:
    raise Mute


@pytest.mark.parametrize("within", [False, True])
def test_an_error_without_words_fails_its_node(within: bool) -> None:
    async def body(ctx: Ctx) -> None:
        if within:
            await ctx.step("mute", mute)
        mute()

    result = play(alone(body))
    assert (result.outcome, result.kind) == ("failed", "Mute")
    assert "Mute" in result.error


@pytest.mark.parametrize(
    ("cost", "name"),
    [
        ({"cost_usd": math.nan}, "cost_usd"),
        ({"cost_usd": -1}, "cost_usd"),
        ({"cost_usd": "much"}, "cost_usd"),
        ({"cost_usd": True}, "cost_usd"),
        ({"model": None}, "model"),
        ({"output_tokens": 1.5}, "output_tokens"),
        ({"input_tokens": -1}, "input_tokens"),
    ],
)
def test_a_cost_that_is_none_fails_the_node_that_reported_it(cost: Any, name: str) -> None:
    """A sum with one that is no number would never reach a limit; one that cannot be stored would end the process."""
    journal = Journals()

    async def body(ctx: Ctx) -> None:
        ctx.spend(**{"model": "own:client", **cost})

    result = play(alone(body), journal=journal)
    assert (result.outcome, result.kind) == ("failed", "WorkflowError")
    assert f"`{name}`" in result.error
    assert not [one for one in journal.records() if isinstance(one, r.MissionUsageRecorded)]


def test_the_reason_of_a_pause_is_a_text_that_users_can_read() -> None:
    async def body(ctx: Ctx) -> None:
        await ctx.pause(reason)

    reason: Any = 404
    assert play(alone(body)).kind == "WorkflowError"
    reason = "wait " * 10_000
    assert len(play(alone(body)).error) == 2_000


@pytest.mark.parametrize("has_other_node", [False, True])
def test_what_a_node_had_spent_when_its_time_was_up_is_booked_once(has_other_node: bool) -> None:
    journal = Journals()

    async def ask(ctx: Ctx) -> None:
        ctx.spend("own:client", input_tokens=60)
        await asyncio.sleep(100)

    @dataclass
    class Slow(BaseNode[None, None, None], timeout=5, on_error="After" if has_other_node else None):
        async def run(self, ctx: Ctx) -> "After | End[None]":
            await ctx.step("ask", ask, ctx)
            return End(None)

    @dataclass
    class After(BaseNode[None, None, None]):
        async def run(self, ctx: Ctx) -> End[None]:
            await asyncio.sleep(1)
            return End(None)

    graph: Graph[None, None, Any] = Graph(nodes=(Slow, After), state_type=None)
    assert play(graph, journal=journal).outcome == ("finished" if has_other_node else "failed")
    assert [one.usage.input_tokens for one in journal.records() if isinstance(one, r.MissionUsageRecorded)] == [60]


# ---- agents by themselves --------------------------------------------------------------------------------------------


class Worker(BaseAgent):
    """Has one tool that cannot state why it failed."""

    __system_message__ = "You work."
    n: State[int] = State(default=0)

    @tool("Try it")
    def attempt(self) -> str:
        self.n = 1
        return str(mute())


def test_a_tool_s_error_without_words_is_its_result() -> None:
    model = ScriptedModel(script(calls("attempt"), "It failed."))
    journal = Journals()
    result = asyncio.run(asyncio.wait_for(Worker(model=model, journal=journal).run("Try"), 20))
    assert result.final_output == "It failed."
    (returned,) = [one for one in journal.records() if isinstance(one, r.ToolCallCompleted)]
    assert (returned.ok, returned.content) == (False, "attempt failed: Mute")


def test_a_call_no_one_offered_does_not_end_an_agent_that_is_by_itself() -> None:
    """A model may name `finish`, which it knows from elsewhere; the talk with the caller has no such end."""
    for call in (calls("finish", summary="bye"), calls("handoff", target="person"), calls("delete_context", key="a")):
        journal, name = Journals(), call.calls[0].tool
        agent = Worker(model=ScriptedModel(script(call, "Done.")), journal=journal)
        assert [asyncio.run(agent.run(words)).final_output for words in ("One", "Two")] == ["Done.", "Done."]
        refused = [one.sentence for one in journal.records() if isinstance(one, r.ToolCallRejected)]
        assert [sentence.startswith(f"There is no tool {name}.") for sentence in refused] == [True, True]


def test_work_that_dies_ends_the_run_and_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any, **__: Any) -> Any:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no such character")

    monkeypatch.setattr("tenex.workflows.agents.invoke.log.error", dies)
    monkeypatch.setattr("tenex.runtime.executors.log.exception", dies)
    agent = Worker(model=ScriptedModel(script(calls("attempt"), "It failed.")))
    with pytest.raises(InternalError, match="UnicodeEncodeError"):
        asyncio.run(asyncio.wait_for(agent.run("Try"), 20))
