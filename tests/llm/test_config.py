"""The configuration of the client: names, defaults, and keys that do not show."""

from dataclasses import replace

import pytest

from tenex.llm.config import ModelClientConfig, Price, ProviderConfig, split_name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("openai:gpt-5", ("openai", "gpt-5")),
        ("local:qwen3:8b", ("local", "qwen3:8b")),
        ("or:a/b", ("or", "a/b")),
        ("gpt-5", None),
        (":gpt", None),
        ("openai:", None),
        ("openai: ", None),
        ("", None),
    ],
)
def test_a_name_is_a_provider_and_a_model(name: str, parts: tuple[str, str] | None) -> None:
    assert split_name(name) == parts


def test_a_provider_without_settings_is_its_own_kind() -> None:
    config = ModelClientConfig(providers={"local": ProviderConfig(name="local", kind="openai")})
    assert config.provider("local").protocol == "openai"
    assert config.provider("anthropic") == ProviderConfig(name="anthropic")
    assert config.provider("anthropic").protocol == "anthropic"


def test_a_key_shows_nowhere() -> None:
    provider = ProviderConfig(name="openai", api_key="sk-secret")
    config = ModelClientConfig(providers={"openai": provider}, prices={"openai:x": Price(input=1, output=2)})
    for value in (provider, config, replace(provider, concurrency=3)):
        assert "sk-secret" not in repr(value)
        assert "sk-secret" not in str(value)
