"""Prices: ours first, then the library's list, nothing for a machine of one's own, else unknown."""

import pytest
from pydantic_ai.usage import RequestUsage

from tenex.core.messages import Usage
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.pricing import bill_for, price_of, usage_of

USED = RequestUsage(input_tokens=1000, cache_read_tokens=400, output_tokens=100)


def config(**settings: object) -> ModelClientConfig:
    provider = ProviderConfig(name="mine", **settings)  # type: ignore[arg-type]
    return ModelClientConfig(providers={"mine": provider}, prices={"mine:priced": Price(input=3.0, output=15.0)})


@pytest.mark.parametrize(
    ("name", "settings", "price"),
    [
        ("mine:priced", {"kind": "openai"}, Price(input=3.0, output=15.0)),
        ("mine:gpt-4o", {"kind": "openai"}, Price(input=2.5, output=10.0, cached_input=1.25)),
        ("mine:gpt-4o", {"kind": "openai-responses"}, Price(input=2.5, output=10.0, cached_input=1.25)),
        ("mine:gpt-4o", {"kind": "openai", "base_url": "http://127.0.0.1:8000/v1"}, None),
        (
            "mine:claude-sonnet-4-5",
            {"kind": "anthropic"},
            Price(input=3.0, output=15.0, cached_input=0.3, cache_write=3.75),
        ),
        ("mine:qwen3", {"kind": "ollama"}, Price(input=0.0, output=0.0)),
        ("mine:qwen3", {"kind": "ollama", "base_url": "http://10.0.0.7:11434/v1"}, Price(input=0.0, output=0.0)),
        ("mine:qwen3-cloud", {"kind": "ollama"}, None),
        ("mine:nobody-knows-it", {"kind": "openai"}, None),
        ("offline", {}, Price(input=0.0, output=0.0)),
        ("nonsense", {}, None),
    ],
)
def test_the_price_of_talking(name: str, settings: dict[str, object], price: Price | None) -> None:
    assert price_of(config(**settings), name) == price


@pytest.mark.parametrize(
    ("name", "settings", "dollars"),
    [
        ("mine:priced", {"kind": "openai"}, (1000 * 3 + 100 * 15) / 1e6),
        ("mine:gpt-4o", {"kind": "openai"}, (600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6),
        ("mine:qwen3", {"kind": "ollama"}, 0.0),
        ("mine:own", {"kind": "openai", "base_url": "http://127.0.0.1:8000/v1"}, None),
        ("nonsense", {}, None),
    ],
)
def test_a_call_is_billed_by_it(name: str, settings: dict[str, object], dollars: float | None) -> None:
    bill = bill_for(config(**settings), name)(USED, name.partition(":")[2])
    assert bill == (None if dollars is None else pytest.approx(dollars))


def test_more_cached_than_sent_is_no_negative_price() -> None:
    odd = RequestUsage(input_tokens=10, cache_read_tokens=50, cache_write_tokens=7)
    bill = bill_for(config(), "mine:priced")
    assert bill(odd, "priced") == pytest.approx(30 / 1e6)
    assert usage_of(odd, "priced", bill).cache_read_tokens == 10


@pytest.mark.parametrize(
    ("name", "settings", "dollars"),
    [
        ("mine:priced", {"kind": "openai"}, 1000 * 3 / 1e6),
        ("mine:claude-sonnet-4-5", {"kind": "anthropic"}, (300 * 3 + 400 * 0.3 + 300 * 3.75) / 1e6),
        ("mine:gpt-4o", {"kind": "openai"}, (600 * 2.5 + 400 * 1.25) / 1e6),
    ],
)
def test_what_a_cache_stored_is_billed_by_the_price_list(
    name: str, settings: dict[str, object], dollars: float
) -> None:
    """A price without one for storing bills it as other input."""
    stored = RequestUsage(input_tokens=1000, cache_read_tokens=400, cache_write_tokens=300)
    assert bill_for(config(**settings), name)(stored, name.partition(":")[2]) == pytest.approx(dollars)


def test_what_a_server_miscounts_takes_nothing_away() -> None:
    """Fewer than no tokens would give the cycle's budget back."""
    bill = bill_for(config(), "mine:priced")
    usage = usage_of(RequestUsage(input_tokens=-5_000, output_tokens=-1), "priced", bill)
    assert usage == Usage(input_tokens=0, output_tokens=0, cost_usd=0.0)


def test_the_name_the_server_gives_is_looked_up_first() -> None:
    assert bill_for(config(kind="openai"), "mine:my-alias")(USED, "gpt-4o") is not None
    assert bill_for(config(kind="openai"), "mine:gpt-4o")(USED, "") is not None
