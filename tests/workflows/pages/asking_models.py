"""Graphs in the forms of pydantic-graph's pages whose nodes call agents of pydantic-ai, or a pool of processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessage

from tenex import BaseNode, Edge, End, Graph, GraphRunContext


@dataclass
class Letter:
    subject: str
    body: str


class Wanting(BaseModel):
    what: str


class Good(BaseModel):
    pass


@dataclass
class Desk:
    reader: str
    drafts: list[ModelMessage] = field(default_factory=list)


author = Agent("test", output_type=Letter, instructions="Write a letter.")
critic = Agent[None, Wanting | Good]("test", output_type=Wanting | Good, instructions="Judge a letter.")  # type: ignore[arg-type]


@dataclass
class Draft(BaseNode[Desk]):
    """Writes a letter, or the next one."""

    docstring_notes = True
    wanting: str = ""

    async def run(self, ctx: GraphRunContext[Desk]) -> Annotated[Judge, Edge(label="written")]:
        prompt = f"To {ctx.state.reader}. {self.wanting}"
        result = await author.run(prompt, message_history=ctx.state.drafts)
        ctx.state.drafts += result.new_messages()
        return Judge(result.output)


@dataclass
class Judge(BaseNode[Desk, None, Letter]):
    letter: Letter

    async def run(self, ctx: GraphRunContext[Desk]) -> Draft | Annotated[End[Letter], Edge(label="good")]:
        result = await critic.run(self.letter.body)
        if isinstance(result.output, Wanting):
            return Draft(wanting=result.output.what)
        return End(self.letter)


letters = Graph(nodes=(Draft, Judge), state_type=Desk)


@dataclass
class Workers:
    executor: Executor


@dataclass
class Multiple(BaseNode[None, Workers, int]):
    number: int

    async def run(self, ctx: GraphRunContext[None, Workers]) -> Next | End[int]:
        return End(self.number) if self.number % 5 == 0 else Next(self.number)


@dataclass
class Next(BaseNode[None, Workers]):
    number: int

    async def run(self, ctx: GraphRunContext[None, Workers]) -> Multiple:
        loop = asyncio.get_running_loop()
        return Multiple(await loop.run_in_executor(ctx.deps.executor, self.compute))

    def compute(self) -> int:
        return self.number + 1


multiples = Graph(nodes=[Multiple, Next])
