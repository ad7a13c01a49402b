"""A day of work in an hour: many conversations at once over real HTTP, a restart in the middle, every token found.

What a provider bills is an answer it delivered. Answers that were being thought or written when the daemon stopped are
asked for again by the next one, so they may be billed twice; what must hold is that each answer the server delivered
is in the journals exactly once, and nothing else is.
"""

import asyncio
import random
from pathlib import Path

import pytest

from tests.fakes.modelprotocol import Json, Reply
from tests.fakes.modelscripts import Asked, Team, diligent, straight
from tests.fakes.modelserver import ModelServer, model_server

from .kit import Folder, phases
from .loopback import agree, billed, folder_with_model, rounded, serving, settled, spent

WAY = ["execute", "verification", "execute", "verification", "chores", "reflection"]
SETTINGS = "[shutdown]\ndeadline = 3\n"


class Thinking:
    """The team, taking its time; while `is_stuck` its answers do not come at all."""

    def __init__(self, seed: int, most: float) -> None:
        self._team, self._rng, self._most = Team(straight, diligent), random.Random(seed), most
        self.is_stuck = False

    async def __call__(self, request: Json) -> Reply:
        await asyncio.sleep(self._rng.uniform(0, self._most))
        if self.is_stuck and Asked(request).question is None:
            await asyncio.Event().wait()  # until the client goes away
        return self._team(request)


async def day_of_work(tmp_path: Path, relay: str, count: int, most: float, *, hour: float) -> None:
    """Hold so many conversations to their end, with a restart after half of the answers."""
    model = Thinking(seed=count, most=most)
    files = [f"note-{number:02}.txt" for number in range(1, count + 1)]
    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, SETTINGS)
        async with serving(folder, server) as process:
            names = [await folder.write(f"Please write {file}.") for file in files]
            await server.until(lambda s: len(s.delivered()) >= 10 * count, within=hour)
            model.is_stuck = True
            await server.until(lambda s: s.at_once >= min(8, count), within=hour)
            assert await process.stop() == 5, "answers that never come are cut off at the deadline"
        model.is_stuck = False
        assert any(exchange.outcome == "cut" for exchange in server.exchanges)
        agree(server, [usage for name in names for usage in spent(folder.records(name))])
        async with serving(folder, server) as process:
            for name in names:
                await settled(folder, name, within=hour)
    assert server.refused == []
    for name, file in zip(names, files, strict=True):
        assert phases(folder.view(name)) == WAY
        assert (folder.workspace / file).read_text() == f"{file}: all done\n"
        assert (folder.workspace / file.replace(".txt", ".md")).read_text() == f"# About {file}\n"
    await check_books(folder, server, names)


async def check_books(folder: Folder, server: ModelServer, names: list[str]) -> None:
    """The server's log, the journals, the views and the statistics agree to the token."""
    agree(server, [usage for name in names for usage in spent(folder.records(name))])
    views = [folder.view(name)["usage"] for name in names]
    summed = {key: sum(usage[key] for usage in views) for key in views[0]}
    assert rounded(summed) == billed(server.delivered())
    stats = await folder.facts("conversations", "stats")
    assert rounded(stats["total"]["usage"]) == billed(server.delivered())
    assert {row["id"]: row["usage"]["calls"] for row in stats["conversations"]} == {
        name: folder.view(name)["usage"]["calls"] for name in names
    }


async def test_a_morning_of_work_with_a_restart(tmp_path: Path, relay: str) -> None:
    await day_of_work(tmp_path, relay, 5, most=0.05, hour=60)


@pytest.mark.soak
async def test_a_day_of_work_with_a_restart(tmp_path: Path, relay: str) -> None:
    await day_of_work(tmp_path, relay, 50, most=0.5, hour=900)
