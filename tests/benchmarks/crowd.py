"""A thousand conversations at once, with models that think for two seconds.

Each user writes again as soon as the conversation waits for them. The ideal is that nothing takes any time but the
models.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

import structlog

from tenex.cli.run import tune_gc
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text

from .daemon import Instant
from .people import Crowd, among_people
from .rig import Row, in_process, resident_mb

CONVERSATIONS = 1_000
TURNS = 2
THOUGHT = 2.0
"""Seconds of each answer."""
THOUGHTS = 3
"""Answers to a turn: the router's, the agent's, and the router's that it is the user's turn."""
PATIENCE = 240.0
"""Seconds for a round: several times as long as it takes."""


class Thoughtful(Instant):
    """The model of the other rows, after two seconds."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer."""
        await asyncio.sleep(THOUGHT)
        return await super().step(request, on_text)


async def _measure(data: Path) -> dict[str, float]:
    async with among_people(data, Thoughtful()) as (app, crowd):
        await _round(crowd, 20, 1)  # what is loaded once
        tune_gc()  # as the daemon does
        before = _settled_mb()
        took, processor = await _round(crowd, CONVERSATIONS, TURNS)
        waiting = len([actor for actor in app.runtime.coordinator if actor.conversation is not None])
        held = _settled_mb() - before
    return {"took": took, "processor": processor, "waiting": waiting, "held": held}


async def _round(crowd: Crowd, count: int, turns: int) -> tuple[float, float]:
    """Seconds, and seconds of a processor, until the last conversation waits."""
    began, used = time.perf_counter(), time.process_time()
    crowd.begin(count, turns)
    async with asyncio.timeout(PATIENCE):
        await crowd.done.wait()
    return time.perf_counter() - began, time.process_time() - used


def _settled_mb() -> float:
    gc.collect()
    return resident_mb()


async def measure(data: Path) -> list[Row]:
    """Hold the conversations in a process of its own."""
    found = await in_process("crowd", str(data))
    ideal = TURNS * THOUGHTS * THOUGHT
    turns = CONVERSATIONS * TURNS
    return [
        Row(work=f"{CONVERSATIONS:,} conversations at once, {TURNS} turns each", figure=found["took"], unit="s"),
        Row(
            work="the same, rate against the ideal one",
            figure=ideal / found["took"],
            unit="x",
            budget=0.9,
            sense="at least",
        ),
        Row(work="the same, processor time to a turn", figure=found["processor"] / turns * 1000, unit="ms"),
        Row(
            work="memory for each that waits, still open",
            figure=found["held"] / max(1, found["waiting"]) * 1024,
            unit="KB",
            budget=50,
        ),
    ]


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(json.dumps(asyncio.run(_measure(Path(sys.argv[1])))))
