"""Settings, settings that contradict each other, agents, workflows and models."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from tenex.configuration.agents import read_library
from tenex.core.errors import ConfigurationError, ModelUnavailable, TenexError
from tenex.nostr.keys import parse_public_key
from tenex.nostr.urls import is_loopback, normalise_url
from tenex.operations.configuration_check import check_configuration
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.settings import CONFIG_NAMES, Settings, load, resolve_paths

from .findings import Case, Finding, fault, ok, run_in_thread, url_text, warning

if TYPE_CHECKING:
    from tenex.llm.config import ModelClientConfig

SHORTEST_CYCLE: Final = 4
"""Turns of the shortest way through all gates: execute, verification, chores, reflection."""
SYSTEMD_STOP: Final = 90.0
"""Seconds: systemd's default TimeoutStopSec; a longer shutdown ends in a kill."""
PRICES_TIMEOUT: Final = 20.0
"""Seconds: importing the library of prices takes one or two on a slow disk."""
PROBE_TIMEOUT: Final = 60.0
"""Seconds for the small calls to one model; a local model may have to be loaded first."""


def settings(case: Case) -> Iterator[Finding]:
    """Report all faults of the settings at once; valid ones are put into the case."""
    for name in CONFIG_NAMES:
        path = case.data / name
        if case.config is None and not path.is_file() and (path.exists() or path.is_symlink()):
            yield fault("this is not a file, so it is not read", path, "move it away")
    try:
        case.settings = load(
            case.config, case.data, env=case.env, parse_key=parse_public_key, code_refusal=case.code_refusal
        )
    except ConfigurationError as error:
        yield from _faults(error.faults, "correct it; config/tenex.example.toml explains every setting")
        yield warning("without valid settings most checks are skipped", case.data, "fix the faults above; run it again")
        return
    case.paths = resolve_paths(case.settings)
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
    if case.settings is None:
        return
    faults, remarks = check_configuration(case.settings)
    yield from _faults(
        (text for text in faults if not text.endswith("it must be a folder")),  # the check `folders` reports it
        "correct it; `tenex config check` repeats this check",
    )
    for remark in remarks:
        location, _, message = remark.partition(": ")
        yield warning(message, location, "correct it, or remove it; `tenex config check` repeats this check")
    if not faults:
        yield ok("users, folders, agents, workflows and models are configured without contradiction")
    for location, message, fix in _doubts(case.settings):
        yield warning(message, location, fix)


Doubt = tuple[str, str, str]
"""Location, message, fix."""


def _doubts(settings: Settings) -> Iterator[Doubt]:
    """What is valid, and probably not meant."""
    models = settings.models
    seen: set[str] = set()
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
    names = {name for chain in models.named().values() for name in chain}
    for price in models.prices.keys() - names:
        yield (
            f'models.prices."{price}"',
            "no setting names this model, so its price is never used",
            f"the models in use: {', '.join(sorted(names))}",
        )
    for provider in models.providers.keys() - {name.partition(":")[0] for name in names}:
        yield (
            f"models.providers.{provider}",
            "no setting names a model of this provider",
            f"name one as {provider}:MODEL, or remove the table",
        )
    if settings.people.open and names != {"offline"}:
        yield "people.open", "anyone may talk to models that cost money", "list members instead"
    host = settings.metrics.host
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if settings.metrics.port is not None and not is_local:
        yield "metrics.host", "others can reach the metrics, without a password", 'set it to "127.0.0.1"'
    if settings.shutdown.deadline > SYSTEMD_STOP:
        yield (
            "shutdown.deadline",
            f"a service manager kills the daemon after {SYSTEMD_STOP:g} s, or ten in a container, before this passes",
            "lower it, or raise TimeoutStopSec above it",
        )
    yield from _doubts_of_limits(settings)


def _doubts_of_limits(settings: Settings) -> Iterator[Doubt]:
    limits, models = settings.limits, settings.models
    if not (limits.cost_per_day_usd and limits.tokens_per_day):
        name = "tokens_per_day" if limits.cost_per_day_usd else "cost_per_day_usd"
        yield f"limits.{name}", "0 is no limit: nothing bounds what a day may use", "set it above 0"
    if limits.turns_per_message < SHORTEST_CYCLE:
        yield (
            "limits.turns_per_message",
            f"{limits.turns_per_message} turns are too few: the way through all gates takes {SHORTEST_CYCLE}",
            f"set it to at least {SHORTEST_CYCLE}",
        )
    for name in (name for name in type(limits).model_fields if name.startswith("tokens_per_")):
        if 0 < (most := getattr(limits, name)) < models.context_tokens:
            yield (
                f"limits.{name}",
                f"one call may take more ({models.context_tokens:,} tokens) than this allows ({most:,})",
                "raise it, or lower models.context_tokens",
            )
    if models.max_output_tokens >= models.context_tokens:
        yield (
            "models.max_output_tokens",
            f"an answer may be as long ({models.max_output_tokens:,}) as the whole context ({models.context_tokens:,})",
            "lower it",
        )
    slow = {"models.timeout": models.timeout, "tools.shell.timeout": settings.tools.shell.timeout}
    for name, expected in limits.expectations:
        for setting, seconds in slow.items():
            if expected is not None and seconds > expected.close_after:
                yield (
                    f"limits.expectations.{name}.close_after",
                    f"a run is closed after {expected.close_after:g} s, before {setting} ({seconds:g} s) can pass",
                    f"raise it, or lower {setting}",
                )


async def models(case: Case) -> AsyncIterator[Finding]:
    """Report models whose price is not known; with `probe` whether each answers."""
    from tenex.configuration.models import client_config, models_in_use
    from tenex.llm.config import OFFLINE

    chosen, paths = case.settings, case.paths
    if chosen is None or paths is None:
        return
    try:
        library = read_library(paths.agents, code_refusal=paths.code_refusal)
    except ConfigurationError:  # the check `configuration` reports it
        library = PromptLibrary.load(builtin_prompts())
    used = models_in_use(chosen, library)
    names = sorted({name for chain in used.values() for name in chain} - {OFFLINE})
    if not names:
        yield ok("only the offline model is in use: rules, and no intelligence", "models.default")
        return
    config, _ = client_config(chosen, paths)
    for name in await run_in_thread(lambda: _unpriced(config, names), PRICES_TIMEOUT):
        yield warning(
            f"the price of {name} is not known, so what it costs is not counted",
            "models.prices",
            f'set models.prices."{name}", in US dollars per million tokens',
        )
    if not case.probe:
        yield ok(f"{', '.join(names)} in use; --probe asks each once")
        return
    work = {name for setting, chain in used.items() if setting != "models.router" for name in chain}
    route = chosen.models.for_router()
    probes = (_probe(config, name, work=name in work, route=name in route) for name in names)
    for findings in await asyncio.gather(*probes):
        for finding in findings:
            yield finding


def _unpriced(config: "ModelClientConfig", names: Iterable[str]) -> list[str]:
    from tenex.llm.pricing import price_of

    return [name for name in names if price_of(config, name) is None]


async def _probe(config: "ModelClientConfig", name: str, *, work: bool, route: bool) -> list[Finding]:
    from tenex.llm.probe import Purpose, probe

    fix = "check the model's name, its key and its server"
    purposes: list[Purpose] = [*(["work"] if work else []), *(["route"] if route else [])]  # type: ignore[list-item]
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            answer = await probe(config, name, purposes)
    except TimeoutError:
        return [fault(f"{name} does not answer within {PROBE_TIMEOUT:g} s", "models", fix, ModelUnavailable)]
    except TenexError as error:
        return [fault(f"{name}: {error}", "models", fix, type(error))]
    doubts = [
        warning(doubt, "models", "choose another model if agents have trouble with it") for doubt in answer.doubts
    ]
    return [ok(f"{name} answers in {answer.seconds:.1f} s", "models"), *doubts]


def _faults(sentences: Iterable[str], fix: str) -> Iterator[Finding]:
    """Faults of a `ConfigurationError`: the location is before the first colon and space."""
    for sentence in sentences:
        location, colon, message = sentence.partition(": ")
        yield fault(message, location, fix) if colon else fault(sentence, "", fix)
