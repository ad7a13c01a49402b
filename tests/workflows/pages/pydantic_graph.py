"""Graphs in the forms of pydantic-graph's pages: type arguments left out, annotations as text, labelled edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tenex import BaseNode, Edge, End, Graph, GraphRunContext


@dataclass
class Halve(BaseNode[None, None, int]):
    number: int

    async def run(self, ctx: GraphRunContext) -> Add | End[int]:
        return End(self.number // 2) if self.number % 2 == 0 else Add(self.number)


@dataclass
class Add(BaseNode):
    number: int

    async def run(self, ctx: GraphRunContext) -> Halve:
        return Halve(self.number + 1)


halving = Graph(nodes=[Halve, Add])


Prices = dict[str, float]


@dataclass
class Basket:
    paid: float = 0.0
    product: str | None = None


@dataclass
class Pay(BaseNode[Basket, Prices]):
    amount: float

    async def run(self, ctx: GraphRunContext[Basket, Prices]) -> Annotated[Choose, Edge(label="paid")]:
        ctx.state.paid += self.amount
        return Choose()


@dataclass
class Choose(BaseNode[Basket, Prices]):
    async def run(self, ctx: GraphRunContext[Basket, Prices]) -> Take:
        return Take(min(ctx.deps, key=lambda name: ctx.deps[name]))


@dataclass
class Take(BaseNode[Basket, Prices, None]):
    product: str

    async def run(self, ctx: GraphRunContext[Basket, Prices]) -> End | Pay:
        price = ctx.deps[self.product]
        if ctx.state.paid < price:
            return Pay(price - ctx.state.paid)
        ctx.state.paid -= price
        ctx.state.product = self.product
        return End(None)


selling = Graph(nodes=(Pay, Choose, Take))


@dataclass
class Left:
    counter: int


@dataclass
class CountDown(BaseNode[Left, None, int]):
    async def run(self, ctx: GraphRunContext[Left]) -> CountDown | End[int]:
        if ctx.state.counter <= 0:
            return End(ctx.state.counter)
        ctx.state.counter -= 1
        return CountDown()


counting = Graph(nodes=[CountDown])
