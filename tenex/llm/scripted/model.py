"""The `Model` port of the offline model."""

from collections.abc import Awaitable, Callable

from tenex.core.messages import ModelRequest, ModelStep, Usage
from tenex.core.ports import OnText, ignore_text

from .router import answer_route
from .worker import answer_work

NAME = "offline"
FREE = Usage(cost_usd=0.0)
_PIECES = 4  # enough for a client to show an answer growing

Pace = Callable[[ModelRequest], Awaitable[None]]


class OfflineModel:
    """Answers by fixed rules, free of charge; `pace` is awaited before each answer and each streamed piece of it."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer with a routing decision as JSON, or with an agent's next calls or final text."""
        if self._pace is not None:
            await self._pace(request)
        if request.purpose == "route":
            return ModelStep(text=answer_route(request), model=NAME, usage=FREE)
        answer = answer_work(request)
        text = next((str(call.arguments["response"]) for call in answer.calls if call.tool == "complete"), answer.text)
        words = text.split(" ")
        for part in range(1, _PIECES + 1) if text else ():
            on_text(" ".join(words[: max(1, len(words) * part // _PIECES)]))
            if self._pace is not None:
                await self._pace(request)
        return ModelStep(text=answer.text, calls=answer.calls, model=NAME, usage=FREE)
