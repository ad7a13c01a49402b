"""The port: an offline model that answers requests by rules."""

from collections.abc import Awaitable, Callable

from tenex.core.messages import ModelRequest, ModelStep, Usage
from tenex.core.ports import OnText, ignore_text

from .router import answer_route
from .worker import answer_work, words_to_say

NAME = "offline"
FREE = Usage(cost_usd=0.0)
_PIECES = 4  # enough that a client shows an answer growing, few enough to cost nothing

Pace = Callable[[ModelRequest], Awaitable[None]]


class OfflineModel:
    """A `core.ports.Model` without a mind, a network or a memory: equal requests get equal answers.

    `pace` is awaited before each answer and between the pieces of what it says; a demonstration gives one so that
    people can follow. It uses no tokens and costs nothing.
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once: a routing decision as JSON, or an agent's next calls or last words."""
        if self._pace is not None:
            await self._pace(request)
        if request.purpose == "route":
            return ModelStep(text=answer_route(request), model=NAME, usage=FREE)
        answer = answer_work(request)
        said = words_to_say(answer)
        for piece in _growing(said):
            on_text(piece)
            if self._pace is not None:
                await self._pace(request)
        return ModelStep(text=answer.text, calls=answer.calls, model=NAME, usage=FREE)


def _growing(text: str) -> list[str]:
    """A text in a few pieces, each holding the ones before it, cut between words."""
    words = text.split(" ")
    if not text or len(words) < _PIECES:
        return [text] if text else []
    return [" ".join(words[: len(words) * part // _PIECES]) for part in range(1, _PIECES + 1)]
