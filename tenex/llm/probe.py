"""Small real calls that check whether a model works with the current settings.

They use what real work uses: tools, streaming, `models.max_output_tokens`, and the schema of a routing decision.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from tenex.core.errors import ModelRefused
from tenex.core.ids import Slug
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, ToolSpec, Usage, UserText
from tenex.core.routing import DECISION_SCHEMA, parse

from .client import ModelClient
from .config import OFFLINE, ModelClientConfig, Price
from .pricing import price_of
from .scripted import OfflineModel

PATIENCE: Final = 30.0
"""Seconds for each call: a user waits for it."""

Purpose = Literal["work", "route"]

_TOOL: Final = ToolSpec(
    name="complete",
    description="End your turn.",
    parameters={"type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"]},
)
_REQUESTS: Final[dict[Purpose, ModelRequest]] = {
    "work": ModelRequest(
        purpose="work",
        agent=Slug("probe"),
        phase="chat",
        tools=(_TOOL,),
        system="Call the tool `complete` with the response OK.",
        entries=(UserText(author="operator", text="Are you there?"),),
    ),
    "route": ModelRequest(
        purpose="route",
        agent=Slug("probe"),
        phase="chat",
        output_schema=DECISION_SCHEMA,
        system='Answer with the JSON object {"agents": ["USER"], "reason": "a test"} and nothing else.',
        entries=(UserText(author="operator", text="Are you there?"),),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A model that answered. `sentence` reports it to the operator with the cost; `doubts` lists what may not work."""

    model: str
    seconds: float
    usage: Usage
    sentence: str
    doubts: tuple[str, ...] = ()


async def probe(config: ModelClientConfig, name: str, purposes: Sequence[Purpose] = ("work", "route")) -> Probe:
    """Ask a model once for each purpose.

    Raises:
        ConfigurationError: the model cannot be made: name, kind, key or package.
        ModelUnavailable: it could not be reached, or rejects the key or the request.
    """
    client = ModelClient(replace(config, timeout=min(config.timeout, PATIENCE)), lambda *_: (name,), OfflineModel())
    usage, doubts, began = NO_USAGE, list[str](), time.perf_counter()
    try:
        client.check([name])
        began = time.perf_counter()
        for purpose in purposes if name != OFFLINE else ():
            try:
                step = await client.step(_REQUESTS[purpose])
            except ModelRefused as error:
                usage += error.usage  # cut off while thinking, or filtered: it is there, and it took the key
                continue
            usage += step.usage
            doubts += _doubts(purpose, name, step)
    finally:
        await client.close()
    seconds = time.perf_counter() - began
    return Probe(
        model=name,
        seconds=seconds,
        usage=usage,
        sentence=_sentence(name, seconds, usage),
        doubts=tuple(dict.fromkeys(doubts)),
    )


def _doubts(purpose: Purpose, name: str, step: ModelStep) -> list[str]:
    doubts = []
    if purpose == "work" and not step.calls:
        doubts.append(f"{name} did not call the tool it was asked to call: agents may not be able to work with it")
    if purpose == "route" and isinstance(parse(step.text), str):
        doubts.append(f"{name} did not answer with a routing decision: set models.router to another model")
    if step.usage.estimated:
        doubts.append(f"the server of {name} does not report its usage: tokens and cost are estimated")
    return doubts


def _sentence(name: str, seconds: float, usage: Usage) -> str:
    if name == OFFLINE:
        return "offline answers by rules; it costs nothing and needs no network"
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.6f}"
    return f"{name} answered in {seconds:.1f} s ({usage.input_tokens} tokens in, {usage.output_tokens} out{cost})"


__all__ = ["PATIENCE", "Price", "Probe", "price_of", "probe"]
