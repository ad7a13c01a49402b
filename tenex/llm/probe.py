"""Small real calls that check whether a model works with the current settings.

They use what real work uses: tools, streaming, `models.max_output_tokens`, and the schema of a routing decision.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from tenex.core.errors import ModelRefused
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, ToolSpec, UserText
from tenex.core.router.answer import DECISION_SCHEMA, parse, schema_of_possible

from .client import ModelClient
from .config import OFFLINE, ModelClientConfig
from .scripted import OfflineModel

PATIENCE: Final = 30.0
"""Seconds for each call of a vendor's model: a user waits for it. One of this machine may be slow, which is said."""

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
        possible=schema_of_possible(["probe"], ["chat"]),
        system='Answer with the JSON object {"agents": ["USER"], "reason": "a test"} and nothing else.',
        entries=(UserText(author="operator", text="Are you there?"),),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How long a model took to answer, and what may not work, as sentences."""

    seconds: float
    doubts: tuple[str, ...] = ()


async def probe(config: ModelClientConfig, name: str, purposes: Sequence[Purpose] = ("work", "route")) -> Probe:
    """Ask a model once for each purpose.

    Raises:
        ConfigurationError: the model cannot be made: name, kind, key or package.
        ModelUnavailable: it could not be reached, or rejects the key or the request.
    """
    is_near = config.provider(name.partition(":")[0]).is_near
    timeout = config.timeout if is_near else min(config.timeout, PATIENCE)
    client = ModelClient(replace(config, timeout=timeout), lambda *_: (name,), OfflineModel())
    doubts: list[str] = []
    try:
        client.check([name])
        began = time.perf_counter()
        for purpose in purposes if name != OFFLINE else ():
            asked = time.perf_counter()
            try:
                doubts += _doubts(purpose, name, await client.step(_REQUESTS[purpose]))
                doubts += _too_slow(purpose, name, time.perf_counter() - asked)
            except ModelRefused as error:  # cut off while thinking, or filtered: it is there, and it took the key
                from .answer_limits import exceeded  # loads the HTTP library, which the offline model does not need

                if exceeded(error) is not None:
                    doubts.append(str(error))
    finally:
        await client.close()
    return Probe(seconds=time.perf_counter() - began, doubts=tuple(dict.fromkeys(doubts)))


def _too_slow(purpose: Purpose, name: str, seconds: float) -> list[str]:
    if seconds <= PATIENCE:
        return []
    what = "a call of a tool" if purpose == "work" else "a decision"
    return [f"{name} is slow: {what} of a few words took {seconds:.0f} s, and one request takes several of both"]


def _doubts(purpose: Purpose, name: str, step: ModelStep) -> list[str]:
    doubts = []
    if purpose == "work" and not step.calls:
        doubts.append(f"{name} did not call the tool it was asked to call: agents may not be able to work with it")
    if purpose == "route" and isinstance(parse(step.text), str):
        doubts.append(f"{name} did not answer with a routing decision: set models.router to another model")
    if step.usage.estimated:
        doubts.append(f"the server of {name} does not report its usage: tokens and cost are estimated")
    return doubts
