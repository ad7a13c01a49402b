"""Settings that are each within their bounds, and make no sense together."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from tenex.nostr.urls import is_loopback, normalise_url
from tenex.settings import Settings

from .findings import Finding, warning
from .format import shown

CYCLE: Final = 4
"""Turns of the shortest way through all gates: execute, verification, chores, reflection."""
SERVICE_STOP: Final = 90.0
"""systemd's own TimeoutStopSec: a longer deadline of ours ends in a kill."""


def doubts(settings: Settings, doubtful: frozenset[str]) -> Iterator[Finding]:
    """What to look at twice; sections that could not be read are left out."""
    for section, look in (("relays", _relays), ("limits", _limits), ("models", _models), ("metrics", _metrics)):
        if section not in doubtful:
            yield from look(settings)
    if settings.shutdown.deadline > SERVICE_STOP:
        yield warning(
            f"a service manager kills after {SERVICE_STOP:g} s, or ten in a container, before this has passed",
            "shutdown.deadline",
            "lower it, or raise TimeoutStopSec above it",
        )


def _relays(settings: Settings) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for url in settings.relays.urls:
        try:
            plain = normalise_url(url)
        except ValueError:
            continue  # `relays` says so
        if plain in seen:
            yield warning(f"{shown(url)} is listed twice", "relays.urls", "leave one of them out")
        seen[plain] = url
        if plain.startswith("ws://") and not is_loopback(plain):
            yield warning(
                f"{shown(url)} is not encrypted: everybody on the way reads along", "relays.urls", "use wss://"
            )


def _limits(settings: Settings) -> Iterator[Finding]:
    limits, models = settings.limits, settings.models
    if not (limits.cost_per_day_usd and limits.tokens_per_day):
        where = "limits.tokens_per_day" if limits.cost_per_day_usd else "limits.cost_per_day_usd"
        yield warning("0 is no limit: nothing bounds what a day may use", where, "set it above 0")
    if limits.turns_per_message < CYCLE:
        yield warning(
            f"{limits.turns_per_message} turns are too few: the way through all gates takes {CYCLE}",
            "limits.turns_per_message",
            f"set it to at least {CYCLE}",
        )
    for name in (name for name in type(limits).model_fields if name.startswith("tokens_per_")):
        if 0 < (most := getattr(limits, name)) < models.context_tokens:
            yield warning(
                f"one call may take more ({models.context_tokens:,} tokens) than this allows ({most:,})",
                f"limits.{name}",
                "raise it, or lower models.context_tokens",
            )
    if models.max_output_tokens >= models.context_tokens:
        yield warning(
            f"an answer may be as long ({models.max_output_tokens:,}) as all a model is sent"
            f" ({models.context_tokens:,})",
            "models.max_output_tokens",
            "lower it",
        )
    for name, expected in limits.expectations:
        if expected is None:
            continue
        for slow, seconds in (
            ("models.timeout", models.timeout),
            ("tools.shell.timeout", settings.tools.shell.timeout),
        ):
            if seconds > expected.close_after:
                yield warning(
                    f"a run is closed after {expected.close_after:g} s, before {slow} ({seconds:g} s) can pass",
                    f"limits.expectations.{name}.close_after",
                    f"raise it, or lower {slow}",
                )


def _models(settings: Settings) -> Iterator[Finding]:
    models = settings.models
    names = {name for chain in models.named().values() for name in chain}
    used = {name.partition(":")[0] for name in names}
    for price in models.prices.keys() - names:
        yield warning(
            "no setting names this model, so its price is never used",
            f'models.prices."{price}"',
            f"the models in use: {', '.join(sorted(names))}",
        )
    for provider in models.providers.keys() - used:
        yield warning(
            "no setting names a model of this provider",
            f"models.providers.{provider}",
            f"name one as {provider}:MODEL, or take the table out",
        )
    if settings.people.open and names != {"offline"}:
        yield warning("anyone may talk to models that cost money", "people.open", "list members instead")


def _metrics(settings: Settings) -> Iterator[Finding]:
    host = settings.metrics.host
    try:
        is_near = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_near = False
    if settings.metrics.port is not None and not is_near:
        yield warning(
            "others can reach the metrics, and nobody is asked for a password", "metrics.host", 'set it to "127.0.0.1"'
        )
