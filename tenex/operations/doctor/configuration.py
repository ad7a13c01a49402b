"""Settings, settings that contradict each other, agents, workflows and models."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tenex.configuration.agents import read_library
from tenex.configuration.own_tools import find_own_tools
from tenex.core.errors import ConfigurationError, TenexError
from tenex.nostr.keys import parse_public_key
from tenex.nostr.urls import is_loopback, normalise_url
from tenex.operations.configuration_check import check_configuration
from tenex.plugins.packages import brought
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.settings import CONFIG_NAMES, Settings, load, resolve_paths
from tenex.settings.sections import NO_USERS

from .findings import Case, Finding, fault, ok, url_text, warning

if TYPE_CHECKING:
    from tenex.llm.config import ModelClientConfig
    from tenex.llm.probe import Purpose

SHORTEST_CYCLE: Final = 4
"""Turns of the shortest way through all gates: execute, verification, chores, reflection."""
SYSTEMD_STOP: Final = 90.0
"""Seconds: systemd's default TimeoutStopSec; a longer shutdown ends in a kill."""


def settings(case: Case) -> Iterator[Finding]:
    """Report all faults of the settings at once; valid ones are put into the case."""
    for name in CONFIG_NAMES:
        path = case.data / name
        if case.config is None and os.path.lexists(path) and not path.is_file():
            yield fault("this is not a file, so it is not read", path, "move it away")
    try:
        case.settings = load(
            case.config,
            case.data,
            env=case.env,
            parse_key=parse_public_key,
            trust=case.trust,
            features=case.features,
        )
    except ConfigurationError as error:
        for sentence in error.faults:
            yield fault(*_split(sentence), "correct it; config/tenex.example.toml explains every setting")
        yield warning("without valid settings most checks are skipped", case.data, "fix the faults above; run it again")
        return
    case.paths = resolve_paths(case.settings)
    case.has_settings = True
    if case.settings.file is None:
        yield warning(
            "there is no configuration: the defaults apply and no user may talk here",
            case.data,
            f"run `tenex init`, which writes {' or '.join(CONFIG_NAMES)}; or name another folder with --data",
        )
    else:
        yield ok("every setting is readable and within its bounds", case.settings.file)


def configuration(case: Case) -> Iterator[Finding]:
    """Report what `tenex config check` does, and settings that are probably not meant."""
    faults, remarks = check_configuration(case.settings)
    for sentence in faults:
        if case.daemon and case.settings.file is None and NO_USERS in sentence:
            message = "the running daemon was given its owner, as `tenex demo` does, and there is no configuration"
            yield warning(message, case.data, "run `tenex init` before `tenex run`, which would refuse to start")
        elif not sentence.endswith("it must be a folder"):  # the check `folders` reports it
            yield fault(*_split(sentence), "correct it; `tenex config check` repeats this check")
    for remark in remarks:
        yield warning(*_split(remark), "correct it, or remove it; `tenex config check` repeats this check")
    if not faults:
        yield ok("users, folders, agents, tools, workflows and models are configured without contradiction")
    yield from _own_tools(case)
    for location, message, fix in _doubts(case.settings):
        yield warning(message, location, fix)


def _own_tools(case: Case) -> Iterator[Finding]:
    """List the code that runs with all rights of the daemon; what is wrong with it was reported."""
    try:
        plugins = find_own_tools(case.settings, case.paths).plugins
    except ConfigurationError:
        return
    brings = {source.name: [*source.claims] for source in plugins.sources if source.claims}
    for package, others in brought(case.settings.plugins.allow).items():
        brings[package] = [*brings.get(package, ()), *others]
    for place, names in brings.items():
        yield ok(f"its code has all rights of the daemon; it brings {', '.join(names)}", place)


def _split(sentence: str) -> tuple[str, str]:
    """Message and location of a sentence of a `ConfigurationError`, in which the location is first."""
    location, colon, message = sentence.partition(": ")
    return (message, location) if colon else (sentence, "")


def _doubts(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """What is valid and probably not meant: location, message, fix."""
    host = settings.metrics.host
    seen = set[str]()
    for url in settings.relays.urls:
        try:
            plain = normalise_url(url)
        except ValueError:
            continue  # the check `relays` reports it
        if plain in seen:
            yield "relays.urls", f"{url_text(url)} is listed twice", "remove one of them"
        seen.add(plain)
        if plain.startswith("ws://") and not is_loopback(plain):
            yield "relays.urls", f"{url_text(url)} is not encrypted: anyone on the network can read it", "use wss://"
    if settings.metrics.port is not None and not is_loopback(f"//[{host}]" if ":" in host else f"//{host}"):
        yield "metrics.host", "others can reach the metrics, without a password", 'set it to "127.0.0.1"'
    if settings.shutdown.deadline > SYSTEMD_STOP:
        message = (
            f"a service manager kills the daemon after {SYSTEMD_STOP:g} s, or ten in a container, before this passes"
        )
        yield "shutdown.deadline", message, "lower it, or raise TimeoutStopSec above it"
    yield from _doubts_of_models(settings)
    yield from _doubts_of_limits(settings)


def _doubts_of_models(settings: Settings) -> Iterator[tuple[str, str, str]]:
    models = settings.models
    names = {name for chain in models.named().values() for name in chain}
    for price in models.prices.keys() - names:
        fix = f"the models in use: {', '.join(sorted(names))}"
        yield f'models.prices."{price}"', "no setting names this model, so its price is never used", fix
    for provider in models.providers.keys() - {name.partition(":")[0] for name in names}:
        fix = f"name one as {provider}:MODEL, or remove the table"
        yield f"models.providers.{provider}", "no setting names a model of this provider", fix
    if settings.people.open and names != {"offline"}:
        yield "people.open", "anyone may talk to models that cost money", "list members instead"
    if (longest := models.max_output_tokens) >= models.context_tokens:
        message = f"an answer may be as long ({longest:,}) as the whole context ({models.context_tokens:,})"
        yield "models.max_output_tokens", message, "lower it"


def _doubts_of_limits(settings: Settings) -> Iterator[tuple[str, str, str]]:
    limits = settings.limits
    models = settings.models
    if not (limits.cost_per_day_usd and limits.tokens_per_day):
        name = "tokens_per_day" if limits.cost_per_day_usd else "cost_per_day_usd"
        yield f"limits.{name}", "0 is no limit: nothing bounds what a day may use", "set it above 0"
    if (turns := limits.turns_per_message) < SHORTEST_CYCLE:
        message = f"{turns} turns are too few: the way through all gates takes {SHORTEST_CYCLE}"
        yield "limits.turns_per_message", message, f"set it to at least {SHORTEST_CYCLE}"
    for name in (name for name in type(limits).model_fields if name.startswith("tokens_per_")):
        if 0 < (most := getattr(limits, name)) < models.context_tokens:
            message = f"one call may take more ({models.context_tokens:,} tokens) than this allows ({most:,})"
            yield f"limits.{name}", message, "raise it, or lower models.context_tokens"
    for setting, seconds in (("models.timeout", models.timeout), ("tools.shell.timeout", settings.tools.shell.timeout)):
        for name, expected in limits.expectations:
            if expected is not None and seconds > expected.close_after:
                message = f"a run is closed after {expected.close_after:g} s, before {setting} ({seconds:g} s) can pass"
                yield f"limits.expectations.{name}.close_after", message, f"raise it, or lower {setting}"


def models(case: Case) -> Iterator[Finding]:
    """Report models whose price is not known; with `probe` whether each answers."""
    from tenex.configuration.models import client_config, models_in_use
    from tenex.llm.config import OFFLINE
    from tenex.llm.pricing import price_of

    try:
        library = read_library(case.paths.agents, code_refusal=case.paths.code_refusal)
    except ConfigurationError:  # the check `configuration` reports it
        library = PromptLibrary.load(builtin_prompts())
    used = models_in_use(case.settings, library)
    names = sorted({name for chain in used.values() for name in chain} - {OFFLINE})
    if not names:
        yield ok("only the offline model is in use: rules, and no intelligence", "models.default")
        return
    config, _ = client_config(case.settings, case.paths)
    for name in names:
        if price_of(config, name) is None:
            message = f"the price of {name} is not known, so what it costs is not counted"
            yield warning(message, "models.prices", f'set models.prices."{name}", in US dollars per million tokens')
    if not case.probe:
        yield ok(f"{', '.join(names)} in use; --probe asks each once")
        return
    uses: dict[Purpose, set[str]] = {
        "work": {name for setting, chain in used.items() if setting != "models.router" for name in chain},
        "route": {*case.settings.models.for_router()},
    }

    async def probe_all() -> list[list[Finding]]:
        asked = {name: [purpose for purpose, named in uses.items() if name in named] for name in names}
        return await asyncio.gather(*(_probe(config, name, purposes) for name, purposes in asked.items()))

    for findings in asyncio.run(probe_all()):
        yield from findings


async def _probe(config: "ModelClientConfig", name: str, purposes: "Sequence[Purpose]") -> list[Finding]:
    from tenex.llm.probe import probe

    try:
        answer = await probe(config, name, purposes)
    except TenexError as error:
        return [fault(f"{name}: {error}", "models", "check the model's name, its key and its server", type(error))]
    fix = "choose another model if agents have trouble with it"
    return [
        ok(f"{name} answers in {answer.seconds:.1f} s", "models"),
        *(warning(doubt, "models", fix) for doubt in answer.doubts),
    ]
