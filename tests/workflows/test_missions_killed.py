"""A mission that is killed at every moment goes on and finishes, with each effect once.

Killed in this process: at every append of its journal, before it is kept and after. And a real process, by SIGKILL.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tenex.core import records as r
from tenex.core.errors import AppendFailed, StepFailed
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, GraphRunResult

from .mission_kit import ROOT, Journals, competition, example, play


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


def test_the_oracle_sees_an_effect_that_is_had_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a step that may not run twice still open after a restart, some moment of death would show it."""
    appends = whole(tmp_path)
    monkeypatch.setattr("tenex.workflows.missions.decide._forsake", lambda draft, mission, sentence: None)
    twice = 0
    for at in range(1, appends + 1):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        journal, world = Journals(), World(folder / "effects")
        journal.at = (at, "before")
        lead(journal, world)
        twice += sorted(world.effects()) != sorted(EXPECTED)
    assert twice == 3, "each payment, lost between its effect and its record"


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_shipped_mission_killed_at_every_append_hands_in_once(tmp_path: Path, when: str) -> None:
    mission = example()

    def attempt(journal: Journals, folder: Path) -> Any:
        state = mission.MissionState(mission_id="m", topic="curve")
        return play(mission.graph, state=state, deps=mission.offline(folder), journal=journal)

    free = Journals()
    wanted = attempt(free, competition(tmp_path / "free"))
    assert wanted.output.success
    for at in range(1, free.appends + 1):
        journal, folder = Journals(), competition(tmp_path / f"{at}")
        journal.at = (at, when)
        with pytest.raises(AppendFailed):
            attempt(journal, folder)
        result = attempt(journal, folder)
        assert result.output == wanted.output, at
        assert len(list((folder / "submissions").glob("*.json"))) == 1, at
        assert result.state.model_dump(exclude={"final_submission_id"}) == wanted.state.model_dump(
            exclude={"final_submission_id"}
        )


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tenex.operations.mission_folder import mission_folder
from tests.workflows.test_missions_killed import GRAPH, Book, Trip, World

class Reporting(World):
    def act(self, what):
        done = super().act(what)
        print("did", what, flush=True)
        sys.stdin.readline()
        return done

async def main(folder):
    async with mission_folder(folder / "journals") as journal:
        world = Reporting(folder / "effects")
        result = await GRAPH.run(Book(), state=Trip(), deps=world, journal=journal, mission="main")
        print("end", result.output, flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_real_process_killed_while_an_effect_has_just_been_had(tmp_path: Path) -> None:
    """SIGKILL after the first booking, and in the middle of the first payment; the third process finishes."""

    def start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def follow(process: "subprocess.Popen[str]", until: str) -> list[str]:
        """Let it go on, effect by effect, until a line begins with that; kill it there."""
        assert process.stdout is not None
        assert process.stdin is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith(until):
                break
            process.stdin.write("\n")
            process.stdin.flush()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        process.stdout.close()
        process.stdin.close()
        return lines

    assert follow(start(), "did train")[-1] == "did train"
    assert follow(start(), "did pay-2")[-1] == "did pay-2"
    assert follow(start(), "end")[-1] == "end pay-2 pay-1 pay-0"
    assert sorted(World(tmp_path / "effects").effects()) == sorted(EXPECTED)
    (view,) = (tmp_path / "journals").glob("*/conversation.json")
    assert json.loads(view.read_text())["status"] == "ended"
