"""Usage as servers that speak OpenAI's protocol report it."""

from typing import Any

import pytest
from openai.types import CompletionUsage

from tenex.llm.compatible import readable_usage


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
