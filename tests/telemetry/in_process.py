"""A program that imports tenex: each kind of in-process run, with code that fails while it holds a secret.

`python -m tests.telemetry.in_process [logging | structlog]` configures that logging, or none.
"""

import asyncio
import logging
import sys
from dataclasses import dataclass
from typing import Any

import structlog

from tenex.core.errors import TenexError
from tenex.core.messages import CallRequest, ModelRequest, ModelStep
from tenex.workflows.agents import BaseAgent, tool
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tenex.workflows.speakers import TransitionGraph

HELD = "words-of-the-caller"


def _fail(held: str) -> None:
    raise RuntimeError(f"of {len(held)} characters")


@dataclass
class Start(BaseNode[None, None, str], retries=0):
    """A node that fails."""

    async def run(self, ctx: GraphRunContext[None, None]) -> End[str]:
        held = HELD
        await ctx.step("fail", _fail, held)
        return End("")


class Worker(BaseAgent):
    """An agent whose tool fails."""

    __system_message__ = "You work."

    @tool("Work")
    def work(self) -> str:
        held = HELD
        _fail(held)
        return ""


class Calls:
    """A model that calls the tool, and then fails itself."""

    def __init__(self) -> None:
        self._asked = 0

    async def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
        self._asked += 1
        if self._asked == 1:
            return ModelStep(calls=(CallRequest(id="1", tool="work"),))  # type: ignore[arg-type]
        held = HELD
        _fail(held)
        raise AssertionError


async def _main() -> None:
    result = await Graph(nodes=(Start,), state_type=None).run(Start())
    assert result.outcome == "failed"
    answer = await Worker(model=Calls()).run(HELD)
    assert answer.outcome != "finished"
    try:
        await TransitionGraph.round_robin(["a"], max_turns=1).run(HELD, agents={"a": Worker()}, model=Calls())
    except TenexError:
        sys.stdout.write("")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["logging"]:
            logging.basicConfig(level=logging.INFO, stream=sys.stdout)
        case ["structlog"]:
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
        case _:
            structlog.get_logger().info("the program's own line")
    asyncio.run(_main())
