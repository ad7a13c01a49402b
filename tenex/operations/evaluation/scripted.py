"""A model whose answers a scenario holds: by agent and phase, in order."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from itertools import product
from typing import Any, Final

from tenex.core.errors import ModelRefused
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep, Usage
from tenex.core.ports import Model, OnText, ignore_text

from .scenario import ANY, Script, calls_of, decision_of

PACE: Final = 0.02
"""Seconds an answer takes, so that calls of parallel agents overlap as those of real models do."""


class ScriptedModel:
    """A `Model` that answers from a script, then asks another model; `missing` is set where there is none."""

    def __init__(self, script: Script, otherwise: Model | None) -> None:
        self._script = script
        self._otherwise = otherwise
        self._given: Counter[tuple[str, str]] = Counter()
        self._calls = 0
        self.missing = ""
        """The first request without an answer."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Give the next answer of the agent in its phase.

        Raises:
            ModelRefused: there is none.
        """
        found, answer = self._next(request)
        if not found and self._otherwise is not None:
            return await self._otherwise.step(request, on_text)
        await asyncio.sleep(PACE)
        if not found:
            self.missing = self.missing or f"the script has no further answer of {request.agent} in {request.phase}"
            raise ModelRefused(self.missing)
        usage = Usage(cost_usd=0.0)
        if request.purpose == "route":
            decision = {"reason": "scripted", **decision_of(answer)}
            return ModelStep(text=json.dumps(decision), model="scripted", usage=usage)
        calls = calls_of(answer)
        if calls is None:
            return ModelStep(text=answer, model="scripted", usage=usage)
        wanted = tuple(self._call(tool, arguments) for tool, arguments in calls)
        return ModelStep(calls=wanted, model="scripted", usage=usage)

    def _next(self, request: ModelRequest) -> tuple[bool, Any]:
        agents = [str(request.agent), *([ANY] if request.purpose == "work" else [])]
        for agent, phase in product(agents, (str(request.phase), ANY)):
            answers = self._script.get(agent, {}).get(phase, [])
            place = self._given[agent, phase]
            if place < len(answers):
                self._given[agent, phase] += 1
                return True, answers[place]
        return False, None

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> CallRequest:
        self._calls += 1
        return CallRequest(id=CallId(f"scripted-{self._calls}"), tool=tool, arguments=arguments)


class Paced:
    """A `Model` whose answers take `PACE`: the offline model answers at once."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer after a moment."""
        await asyncio.sleep(PACE)
        return await self._model.step(request, on_text)


class Held:
    """A `Model` that is asked when a function of the request has returned."""

    def __init__(self, model: Model, before: Callable[[ModelRequest], Awaitable[None]]) -> None:
        self._model = model
        self._before = before

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Wait for the function, then ask."""
        await self._before(request)
        return await self._model.step(request, on_text)
