"""One small real call that tells whether a model can be talked to with the key we have.

Never: stream, retry, or send anything of a person.
"""

import time
from dataclasses import dataclass, replace
from typing import Final

from tenex.core.errors import ModelRefused
from tenex.core.ids import Slug
from tenex.core.steps import ModelRequest, PersonText, Usage

from .config import OFFLINE, DeskConfig, Price
from .desk import ModelDesk
from .offline import OfflineModel
from .prices import price_of

PATIENCE: Final = 30.0
"""Seconds: a person waits for it."""

ROOM: Final = 256
"""Tokens for the answer: some models think before they say two letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A model that answered. `sentence` says so to a person, with what the call cost."""

    model: str
    seconds: float
    usage: Usage
    sentence: str


async def probe(config: DeskConfig, name: str) -> Probe:
    """Ask a model for one word.

    Raises:
        ConfigurationError: the model cannot be made: name, kind, key or package.
        ModelUnavailable: it could not be reached, or does not take our key.
    """
    small = replace(
        config, stream=False, timeout=min(config.timeout, PATIENCE),
        max_output_tokens=min(config.max_output_tokens or ROOM, ROOM),
    )  # fmt: skip
    desk = ModelDesk(small, lambda _purpose, _agent, _phase: (name,), OfflineModel())
    request = ModelRequest(
        purpose="work", agent=Slug("probe"), phase="chat", system="Answer with the one word OK.",
        entries=(PersonText(author="operator", text="Are you there?"),),
    )  # fmt: skip
    began = time.perf_counter()
    try:
        desk.check([name])
        began = time.perf_counter()
        usage = (await desk.step(request)).usage
    except ModelRefused as error:
        usage = error.usage  # cut off while thinking, or filtered: it is there, and it took the key
    finally:
        await desk.close()
    seconds = time.perf_counter() - began
    return Probe(model=name, seconds=seconds, usage=usage, sentence=_sentence(name, seconds, usage))


def _sentence(name: str, seconds: float, usage: Usage) -> str:
    if name == OFFLINE:
        return "offline answers by rules; it costs nothing and needs no network"
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.6f}"
    return f"{name} answered in {seconds:.1f} s ({usage.input_tokens} tokens in, {usage.output_tokens} out{cost})"


__all__ = ["PATIENCE", "Price", "Probe", "price_of", "probe"]
