"""Models: whether each that is named can be built as configured; and, when asked for, whether it answers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from tenex.configuration.agents import read_library
from tenex.core.errors import ConfigurationError, ModelUnavailable, TenexError
from tenex.llm.config import OFFLINE, ModelClientConfig
from tenex.settings import Settings

from .findings import Case, Finding, fault, ok, warning
from .runner import in_thread

BUILD_DEADLINE: Final = 20.0
"""Seconds: importing a vendor's library takes one or two on a slow disk."""
PROBE_DEADLINE: Final = 60.0
"""Seconds for the small calls to one model; a local model may have to be loaded first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    config: ModelClientConfig
    used: dict[str, tuple[str, ...]]
    """Models by whatever names them."""
    faults: list[str]
    unpriced: list[str]


async def models(case: Case) -> AsyncIterator[Finding]:
    """Every model that is named, by the settings or by an agent's file."""
    chosen = case.settings
    if chosen is None or case.places is None or "models" in case.doubtful:
        return
    built = await in_thread(lambda: _built(case, chosen), BUILD_DEADLINE)
    for sentence in dict.fromkeys(built.faults):
        where, colon, what = sentence.partition(": ")
        mend = "mend the setting; config/tenex.example.toml explains [models]"
        yield fault(what, where, mend) if colon else fault(sentence, "models", mend)
    names = list(dict.fromkeys(name for chain in built.used.values() for name in chain))
    real = [name for name in names if name != OFFLINE]
    if not real:
        yield ok("only the offline model is in use: rules, and no intelligence", "models.default")
        return
    for name in built.unpriced:
        yield warning(
            f"the price of {name} is not known, so what it costs is not counted",
            "models.prices",
            f'set models.prices."{name}", in US dollars per million tokens',
        )
    if not built.faults:
        yield ok(f"{', '.join(real)} can be used as configured{'' if case.probe else '; --probe asks each once'}")
    if case.probe:
        work = {name for setting, chain in built.used.items() if setting != "models.router" for name in chain}
        route = chosen.models.for_router()
        probes = (_probed(built.config, name, work=name in work, route=name in route) for name in real)
        for findings in await asyncio.gather(*probes):
            for finding in findings:
                yield finding


def _built(case: Case, chosen: Settings) -> _Built:
    from tenex.configuration import models as minds

    assert case.places is not None
    try:
        library = read_library(case.places.agents, code_refusal=case.places.code_refusal)
    except ConfigurationError:
        library = None  # `agents` says so; what the settings name is looked at all the same
    used = minds.models_in_use(chosen, library) if library else chosen.models.named()
    names = {name for chain in used.values() for name in chain} - {OFFLINE}
    config, faults = minds.desk_config(chosen, case.places)
    if not names:
        return _Built(config=config, used=used, faults=faults, unpriced=[])
    from tenex.llm.client import ModelClient
    from tenex.llm.probe import price_of
    from tenex.llm.scripted import OfflineModel

    desk = ModelClient(config, minds.choice(chosen, {}), OfflineModel())
    for name in sorted(names):  # one by one, so that a fault of one hides none of another
        try:
            desk.check([name])
        except ConfigurationError as error:
            faults += error.faults
    unpriced = [] if faults else sorted(name for name in names if price_of(config, name) is None)
    return _Built(config=config, used=used, faults=faults, unpriced=unpriced)


async def _probed(config: ModelClientConfig, name: str, *, work: bool, route: bool) -> list[Finding]:
    from tenex.llm.probe import Purpose, probe

    mend = "check the model's name, its key and its server"
    try:
        async with asyncio.timeout(PROBE_DEADLINE):
            purposes: list[tuple[Purpose, bool]] = [("work", work), ("route", route)]
            answer = await probe(config, name, [purpose for purpose, is_asked in purposes if is_asked])
    except TimeoutError:
        return [fault(f"{name} does not answer within {PROBE_DEADLINE:g} s", "models", mend, ModelUnavailable)]
    except TenexError as error:
        return [fault(f"{name}: {error}", "models", mend, type(error))]
    doubts = [warning(doubt, "models", "choose another model if agents do not get on") for doubt in answer.doubts]
    return [ok(f"{name} answers in {answer.seconds:.1f} s", "models"), *doubts]
