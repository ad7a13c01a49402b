"""Which model `tenex demo` uses, and the sentence that announces it."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from tenex.cli.shared.demo_model import demo_model
from tenex.cli.shared.provider import models_of
from tenex.core.errors import UsageError
from tenex.settings import load
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import model_server


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no Ollama."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")


def chosen(data: Path, name: str | None = None, *, in_terminal: bool = True) -> tuple[str | None, str]:
    """The name of the model in the settings, where one is set, and the announcement."""
    models, announcement = demo_model(load(None, data, env={}), data / "keys", name, in_terminal=in_terminal)
    return models["default"] if models else None, announcement


@pytest.mark.parametrize("host", ["127.0.0.1:1", "192.0.2.7:11434", "ollama.example.com"])
def test_without_a_key_or_a_server_on_this_machine_it_is_the_offline_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    begun = time.monotonic()
    model, line = chosen(tmp_path)
    assert (model, "free" in line, "--model" in line) == ("offline", True, True)
    assert time.monotonic() - begun < 5
    with pytest.raises(UsageError, match="openai needs a key"):
        chosen(tmp_path, "openai:gpt-5-mini")


@pytest.mark.parametrize(
    ("variable", "model"),
    [
        ("OPENAI_API_KEY", "openai:gpt-5-mini"),
        ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
        ("GEMINI_API_KEY", "google:gemini-2.5-flash"),
    ],
)
def test_a_vendor_s_key_is_used_and_its_cost_announced_unless_the_settings_or_an_option_name_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, model: str
) -> None:
    monkeypatch.setenv(variable, "sk-test")
    found, line = chosen(tmp_path)
    assert (found, "--model offline" in line, "sk-test" in line) == (model, True, False)
    assert line.startswith(f"Model: {model} (key in ${variable}); it COSTS MONEY, ")
    assert chosen(tmp_path, "offline")[0] == "offline"
    without = "Model: offline, fixed rules, free, because this is no terminal. For a real one use --model."
    assert chosen(tmp_path, in_terminal=False) == ("offline", without)
    assert chosen(tmp_path, model, in_terminal=False)[0] == model
    (tmp_path / "tenex.toml").write_text('[models]\ndefault = "offline"\n')
    assert chosen(tmp_path) == (None, "Model: offline, as configured.")


def test_a_key_whose_package_is_missing_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.anthropic", None)
    model, line = chosen(tmp_path)
    assert (model, "free. The key in $ANTHROPIC_API_KEY is not used." in line) == ("offline", True)
    assert "pip install 'tenexd[anthropic]'" in line


@pytest.mark.parametrize(
    ("models", "expected"), [(("nomic-embed-text",), "offline"), (("nomic-embed-text", "test"), "ollama:test")]
)
async def test_a_model_of_ollama_on_this_machine_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: tuple[str, ...], expected: str
) -> None:
    async with model_server(lambda _: Answer(text="OK"), key="", models=models) as server:
        host = server.url.split("/")[2]
        monkeypatch.setenv("OLLAMA_HOST", host)
        model, line = await asyncio.to_thread(chosen, tmp_path)
        assert await asyncio.to_thread(models_of, server.url) == sorted(models)
    assert await asyncio.to_thread(models_of, server.url) is None
    assert model == expected
    ollama = f"Model: ollama:test (Ollama at http://{host}/v1); it is free. Choose another"
    assert line.startswith(ollama) is (model != "offline")
