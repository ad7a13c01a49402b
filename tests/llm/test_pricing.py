"""Prices: ours first, then the library's list, nothing for a machine of one's own, else unknown."""

from typing import Any

import pytest
from openai.types import CompletionUsage
from pydantic_ai.usage import RequestUsage

from tenex.core.messages import Usage
from tenex.llm.compatible import readable_usage
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.pricing import bill_for, price_of, usage_of

FREE, GPT = Price(input=0.0, output=0.0), Price(input=2.5, output=10.0, cached_input=1.25)
CLAUDE = Price(input=3.0, output=15.0, cached_input=0.3, cache_write=3.75)
OWN = Price(input=3.0, output=15.0)


def config(**settings: Any) -> ModelClientConfig:
    return ModelClientConfig(providers={"mine": ProviderConfig(name="mine", **settings)}, prices={"mine:priced": OWN})


@pytest.mark.parametrize(
    ("name", "settings", "price"),
    [
        ("mine:priced", {"kind": "openai"}, OWN),
        ("mine:gpt-4o", {"kind": "openai"}, GPT),
        ("mine:gpt-4o", {"kind": "openai-responses"}, GPT),
        ("mine:gpt-4o", {"kind": "openai", "base_url": "http://127.0.0.1:8000/v1"}, None),
        ("mine:claude-sonnet-4-5", {"kind": "anthropic"}, CLAUDE),
        ("mine:qwen3:8b", {"kind": "ollama"}, FREE),
        ("mine:qwen3", {"kind": "ollama", "base_url": "http://10.0.0.7:11434/v1"}, FREE),
        ("mine:qwen3-cloud", {"kind": "ollama"}, None),
        ("mine:nobody-knows-it", {"kind": "openai"}, None),
        ("offline", {}, FREE),
        ("nonsense", {}, None),
    ],
)
def test_a_call_is_billed_by_the_price_that_is_shown(name: str, settings: Any, price: Price | None) -> None:
    """A price without one for what a cache held or stored bills it as other input."""
    assert price_of(config(**settings), name) == price
    used = RequestUsage(input_tokens=1000, cache_read_tokens=400, cache_write_tokens=300, output_tokens=100)
    bill = bill_for(config(**settings), name)(used, name.partition(":")[2])
    if price is None:
        assert bill is None
    else:
        read, stored = (price.input if p is None else p for p in (price.cached_input, price.cache_write))
        dollars = (300 * price.input + 400 * read + 300 * stored + 100 * price.output) / 1e6
        assert bill == pytest.approx(dollars)


def test_the_name_the_server_gives_is_looked_up_first() -> None:
    used = RequestUsage(input_tokens=1000)
    assert bill_for(config(kind="openai"), "mine:my-alias")(used, "gpt-4o") == pytest.approx(0.0025)
    assert bill_for(config(kind="openai"), "mine:gpt-4o")(used, "") == pytest.approx(0.0025)


def test_what_a_server_miscounts_takes_nothing_away() -> None:
    """Fewer than no tokens would give the cycle's budget back; more cached than sent is no negative price."""
    bill = bill_for(config(), "mine:priced")
    usage = usage_of(RequestUsage(input_tokens=-5_000, output_tokens=-1), "priced", bill)
    assert usage == Usage(input_tokens=0, output_tokens=0, cost_usd=0.0)
    odd = RequestUsage(input_tokens=10, cache_read_tokens=50, cache_write_tokens=7)
    assert bill(odd, "priced") == pytest.approx(30 / 1e6)
    assert usage_of(odd, "priced", bill).cache_read_tokens == 10


@pytest.mark.parametrize(
    ("reported", "cached", "stored"),
    [
        ({}, 0, 0),
        ({"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20}}, 60, 20),
        ({"prompt_tokens_details": None, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}, 60, 0),
        ({"cached_tokens": 60, "prompt_tokens_details": {"audio_tokens": None}}, 60, 0),
        ({"cache_read_input_tokens": 60, "cache_creation_input_tokens": 20}, 60, 20),
        ({"cached_tokens": "many", "cache_creation_input_tokens": -3}, 0, 0),
    ],
    ids=["nothing", "openai", "deepseek", "moonshot", "litellm", "nonsense"],
)
def test_what_a_cache_held_is_read_under_every_name(reported: dict[str, Any], cached: int, stored: int) -> None:
    given = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, **reported}
    usage = readable_usage(CompletionUsage.model_construct(None, **given))
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    details = usage.prompt_tokens_details.model_dump()
    assert (usage.prompt_tokens, details["cached_tokens"], details["cache_write_tokens"]) == (100, cached, stored)
