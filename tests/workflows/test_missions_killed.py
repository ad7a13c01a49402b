"""A mission that is killed at every moment goes on and finishes, with each effect once.

Killed in this process: at every append of its journal, before it is kept and after. And a real process, by SIGKILL.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from tenex.core import records as r
from tenex.core.errors import AppendFailed, StepFailed
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, GraphRunResult

from .mission_kit import Journals, play


class Trip(BaseModel):
    """A state."""

    paid: list[str] = []
    steps: int = 0
    current_phase: str = ""
    phases_completed: list[str] = []


@dataclass
class World:
    """What is outside: a file of effects that no process can forget."""

    file: Path

    def act(self, what: str) -> str:
        """Have an effect."""
        with self.file.open("a") as file:
            file.write(f"{what}\n")
        return what

    def act_once(self, what: str, *, idempotency_key: str) -> str:
        """Have an effect that the other side knows by its key."""
        known = self.file.with_name(f"key-{idempotency_key[-4:].replace(':', '-')}")
        if not known.exists():
            known.touch()
            self.act(what)
        return what

    def effects(self) -> list[str]:
        """All of them, in order."""
        return self.file.read_text().split() if self.file.exists() else []


Ctx = GraphRunContext[Trip, World]
Node = BaseNode[Trip, World, str]


@dataclass
class Book(Node):
    """Effects that may be repeated by their key, side by side, and a retry between."""

    async def run(self, ctx: Ctx) -> "Pay":
        """Book three things."""
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
        """Pay once, whatever happens."""
        what = f"pay-{self.left}"
        while True:
            try:
                paid = await ctx.step("pay", ctx.deps.act, what)
                break
            except StepFailed as error:
                if not error.is_unknown:
                    raise
                if await ctx.step("look", lambda: what in ctx.deps.effects(), replay="read"):
                    paid = what
                    break
        ctx.state.paid = [*ctx.state.paid, paid]
        return Pay(left=self.left - 1) if self.left else End(" ".join(ctx.state.paid))


GRAPH: Graph[Trip, World, str] = Graph(nodes=(Book, Pay), state_type=Trip, name="trip")
EXPECTED = ["hotel", "train", "plane", "pay-2", "pay-1", "pay-0"]


def lead(journal: Journals, world: World) -> GraphRunResult[Trip, str]:
    """Run until it is over, however often the process dies."""
    for _ in range(3):
        try:
            result: GraphRunResult[Trip, str] = play(GRAPH, state=Trip(), deps=world, journal=journal)
        except AppendFailed:
            continue
        return result
    raise AssertionError("it never came to its end")


def whole(folder: Path) -> int:
    """How many appends a mission takes that no one kills."""
    journal, world = Journals(), World(folder / "whole")
    assert lead(journal, world).output == "pay-2 pay-1 pay-0"
    assert sorted(world.effects()) == sorted(EXPECTED)
    return journal.appends


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_append_each_effect_is_had_once(tmp_path: Path, when: str) -> None:
    appends = whole(tmp_path)
    assert appends > 12
    for at in range(1, appends + 1):
        folder = tmp_path / f"{when}-{at}"
        folder.mkdir()
        journal, world = Journals(), World(folder / "effects")
        journal.at = (at, when)
        result = lead(journal, world)
        assert result.output == "pay-2 pay-1 pay-0", at
        assert (result.state.steps, result.state.phases_completed) == (2, ["book", "pay"]), at
        assert sorted(world.effects()) == sorted(EXPECTED), (at, world.effects())
        permitted = [(rec.step, rec.seq) for rec in journal.records() if isinstance(rec, r.StepStarted)]
        assert len(permitted) == len(set(permitted))
