"""The port: an offline model that answers requests by rules.

Never: a rule about what to answer; those are in `router` and `worker`.
"""

from collections.abc import Awaitable, Callable

from tenex.core.ports import Whisper, unheard
from tenex.core.steps import AgentText, CallResult, ModelRequest, ModelStep, Note, PersonText, Usage

from .router import answer_route
from .worker import answer_work, words_to_say

NAME = "offline"
_PIECES = 4  # enough that a client shows an answer growing, few enough to cost nothing

Pace = Callable[[ModelRequest], Awaitable[None]]


class OfflineModel:
    """A `core.ports.Model` without a mind, a network or a memory: equal requests get equal answers.

    `pace` is awaited before each answer and between the pieces of what it says; a demonstration gives one so that
    people can follow. Usage counts words where a vendor counts tokens, and costs nothing.
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace

    async def step(self, request: ModelRequest, whisper: Whisper = unheard) -> ModelStep:
        """Answer once: a routing decision as JSON, or an agent's next calls or last words."""
        if self._pace is not None:
            await self._pace(request)
        if request.purpose == "route":
            return _counted(request, ModelStep(text=answer_route(request)))
        answer = answer_work(request)
        said = words_to_say(answer)
        for piece in _growing(said):
            whisper(piece)
            if self._pace is not None:
                await self._pace(request)
        return _counted(request, answer)


def _growing(text: str) -> list[str]:
    """A text in a few pieces, each holding the ones before it, cut between words."""
    words = text.split(" ")
    if not text or len(words) < _PIECES:
        return [text] if text else []
    return [" ".join(words[: len(words) * part // _PIECES]) for part in range(1, _PIECES + 1)]


def _counted(request: ModelRequest, step: ModelStep) -> ModelStep:
    read = len(request.system.split()) + sum(map(_size, request.entries))
    return ModelStep(
        text=step.text,
        calls=step.calls,
        model=NAME,
        usage=Usage(input_tokens=read, output_tokens=_size(step), cost_usd=0.0),
    )


def _size(entry: PersonText | Note | AgentText | ModelStep | CallResult) -> int:
    """Words in an entry, those in a call's arguments included."""
    match entry:
        case PersonText(text=text) | Note(text=text) | AgentText(text=text):
            return len(text.split())
        case CallResult(content=content):
            return len(content.split())
        case ModelStep(text=text, calls=calls):
            arguments = (str(value) for call in calls for value in call.arguments.values())
            return len(text.split()) + sum(1 + len(value.split()) for value in arguments)
