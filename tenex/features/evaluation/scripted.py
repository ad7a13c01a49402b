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

PACE: Final = 0.005
"""Seconds between two looks whether all other work waits for models, too."""

LOOKS: Final = 400
"""After so many, two seconds, an answer is given all the same."""


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


class Together:
    """A `Model` that gives its answers when all work waits for one, and then all at once.

    So calls of parallel agents overlap, as those of real models do, which take seconds: how many are made one after
    the other is no matter of time.
    """

    def __init__(self, model: Model, under_way: Callable[[], int]) -> None:
        """Wrap a model.

        Args:
            model: it is asked then.
            under_way: how much work there is, of which a call to a model is a part.
        """
        self._model = model
        self._under_way = under_way
        self._calls = 0
        self._all_wait = asyncio.Event()
        """Set for the calls that wait now, and replaced for later ones."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Wait for the others, then ask."""
        all_wait = self._all_wait
        self._calls += 1
        try:
            for _ in range(LOOKS):
                await asyncio.sleep(PACE)
                if all_wait.is_set() or self._calls >= self._under_way():
                    break
            all_wait.set()
            if self._all_wait is all_wait:
                self._all_wait = asyncio.Event()
            return await self._model.step(request, on_text)
        finally:
            self._calls -= 1


class Held:
    """A `Model` that is asked when a function of the request has returned."""

    def __init__(self, model: Model, before: Callable[[ModelRequest], Awaitable[None]]) -> None:
        self._model = model
        self._before = before

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Wait for the function, then ask."""
        await self._before(request)
        return await self._model.step(request, on_text)
