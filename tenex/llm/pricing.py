"""What calls cost: from the configured prices, else from the price list of pydantic-ai, else unknown.

A model on an Ollama of one's own costs nothing. Behind a `base_url` a price is known only if the list knows the
address: the operator of a server there sets them.
"""

from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tenex.core.messages import Usage

from .config import OFFLINE, ModelClientConfig, Price, ProviderConfig, split_name

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

MILLION: Final = 1_000_000

_VENDOR_OF: Final = {"openai-responses": "openai", "openai-chat": "openai"}
"""The price list's name for a kind, where it is another one."""

Bill = Callable[["RequestUsage", str], float | None]
"""Takes what a call used and the model's name as the server gave it; gives dollars, None where no price is known."""


def bill_for(config: ModelClientConfig, name: str) -> Bill:
    """Return the function that prices calls of a model."""
    price = _set_price(config, name)
    own = split_name(name)
    if price is not None:
        return lambda usage, _model: _cost(price, usage)
    if own is None:
        return lambda _usage, _model: None
    provider = config.provider(own[0])
    return lambda usage, model: _listed_cost(provider, model or own[1], usage)


def usage_of(used: "RequestUsage", model: str, bill: Bill, sent: int = 0, written: int = 0) -> Usage:
    """Our usage of one call; tokens that a cache held or stored are part of the input. Negative counts become 0.

    `sent` and `written` are estimates that replace counts the server did not report.
    """
    missing = (0 if used.input_tokens > 0 else sent, 0 if used.output_tokens > 0 else written)
    if any(missing):
        used = copy(used)
        used.input_tokens, used.output_tokens = missing[0] or used.input_tokens, missing[1] or used.output_tokens
    cost = bill(used, model)
    (read, stored) = _cached(used)
    return Usage(
        input_tokens=max(0, used.input_tokens),
        output_tokens=max(0, used.output_tokens),
        cost_usd=None if cost is None else max(0.0, cost),
        estimated=sum(missing),
        cache_read_tokens=read,
        cache_write_tokens=stored,
    )


def price_of(config: ModelClientConfig, name: str) -> Price | None:
    """The price of a model for display; None if unknown. Of several tiers, the lowest."""
    own = split_name(name)
    price = _set_price(config, name)
    if price is not None or own is None:
        return price
    from genai_prices.data_snapshot import get_snapshot

    provider = config.provider(own[0])
    try:
        _, model = get_snapshot().find_provider_model(own[1], None, *_reference(provider))
        listed = model.get_prices(datetime.now(UTC))
    except (LookupError, ValueError):
        return None
    parts = ("input", "output", "cache_read", "cache_write")
    given, answered, read, stored = (_base(getattr(listed, f"{part}_mtok", None)) for part in parts)
    if given is None or answered is None:
        return None
    return Price(input=given, output=answered, cached_input=read, cache_write=stored)


def _set_price(config: ModelClientConfig, name: str) -> Price | None:
    if name in config.prices:
        return config.prices[name]
    own = split_name(name)
    if name == OFFLINE or (own and _is_own_machine(config.provider(own[0]), own[1])):
        return Price(input=0.0, output=0.0)
    return None


def _is_own_machine(provider: ProviderConfig, model: str) -> bool:
    """Whether it is an Ollama on the user's own machine; hosted models are billed."""
    host = urlsplit(provider.base_url or "").hostname or ""
    hosted = model.endswith("-cloud") or host == "ollama.com" or host.endswith(".ollama.com")
    return provider.protocol == "ollama" and not hosted


def _cached(usage: "RequestUsage") -> tuple[int, int]:
    """The tokens of the input that a cache held and stored; more than the input there cannot be."""
    read = max(0, min(usage.cache_read_tokens, usage.input_tokens))
    return read, max(0, min(usage.cache_write_tokens, usage.input_tokens - read))


def _cost(price: Price, usage: "RequestUsage") -> float:
    read, stored = _cached(usage)
    read_price = price.input if price.cached_input is None else price.cached_input
    store_price = price.input if price.cache_write is None else price.cache_write
    plain = (usage.input_tokens - read - stored) * price.input + usage.output_tokens * price.output
    return (plain + read * read_price + stored * store_price) / MILLION


def _listed_cost(provider: ProviderConfig, model: str, usage: "RequestUsage") -> float | None:
    from genai_prices import calc_price

    vendor, url = _reference(provider)
    try:
        calculated = (
            calc_price(usage, model, provider_api_url=url) if url else calc_price(usage, model, provider_id=vendor)
        )
    except (LookupError, ValueError, ArithmeticError):
        return None
    return float(calculated.total_price)


def _reference(provider: ProviderConfig) -> tuple[str | None, str | None]:
    """The provider's name in the price list, or its address: an address may be anybody's."""
    if provider.base_url:
        return None, provider.base_url
    return _VENDOR_OF.get(provider.protocol, provider.protocol), None


def _base(price: object) -> float | None:
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None
