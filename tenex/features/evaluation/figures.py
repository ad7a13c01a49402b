"""What the models of a run took.

- calls: requests to models, the router's included.
- sequential calls: the longest chain of calls in which each began after the one before had ended; of calls that ran at
  the same time one counts.
- prompt tokens: as the server reports them, else estimated from the bytes of the request.
- cached share: of the bytes of all requests that have an earlier request of the same agent, the part in the longest
  common prefix with one of those (tools, then system, then messages); the most that a vendor's cache can serve.
- cost: in US dollars, of the calls whose price is known; None where none is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import BYTES_PER_TOKEN
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Usage
from tenex.core.ports import Model, OnText, ignore_text
from tenex.llm.request_params import serialized


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to a model; times in seconds."""

    agent: str
    sent: bytes
    began: float
    ended: float
    usage: Usage = NO_USAGE

    @property
    def prompt_tokens(self) -> int:
        """Of the request."""
        return self.usage.input_tokens or -(-len(self.sent) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a run; `cached` is a fraction, None where no agent was asked twice."""

    calls: int
    sequential_calls: int
    prompt_tokens: int
    cached: float | None
    cost: float | None


class CallRecorder:
    """A `Model` that keeps what another is asked."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.calls: list[Call] = []
        self.is_closed = False
        """Set where a run ends early: what its models still answer is not counted."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Ask, and keep the call, also one that fails."""
        sent = serialized(request)
        began = monotonic()
        usage = NO_USAGE
        try:
            step = await self._model.step(request, on_text)
            usage = step.usage
        except (ModelRefused, ModelUnavailable) as error:
            usage = error.usage
            raise
        finally:
            if not self.is_closed:
                self.calls.append(
                    Call(agent=str(request.agent), sent=sent, began=began, ended=monotonic(), usage=usage)
                )
        return step


def figures_of(calls: Iterable[Call]) -> Figures:
    """The figures of calls, in any order."""
    each = sorted(calls, key=lambda call: call.began)
    costs = [call.usage.cost_usd for call in each if call.usage.cost_usd is not None]
    return Figures(
        calls=len(each),
        sequential_calls=_sequential(each),
        prompt_tokens=sum(call.prompt_tokens for call in each),
        cached=_cached(each),
        cost=sum(costs) if costs else None,
    )


def _sequential(calls: Iterable[Call]) -> int:
    count = 0
    last = 0.0
    for call in sorted(calls, key=lambda call: call.ended):  # the one that ends first leaves most room
        if call.began >= last:
            count = count + 1
            last = call.ended
    return count


def _cached(calls: Iterable[Call]) -> float | None:
    earlier: dict[str, list[bytes]] = {}
    shared = whole = 0
    for call in calls:
        before = earlier.setdefault(call.agent, [])
        if before:
            shared += max(_common(call.sent, one) for one in before)
            whole += len(call.sent)
        before.append(call.sent)
    return shared / whole if whole else None


def _common(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix; by halves, because slices are compared much faster than bytes."""
    least = 0
    most = min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least
