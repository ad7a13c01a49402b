"""Which model `tenex demo` uses, and the sentence that announces it."""

import asyncio
import time
from pathlib import Path

import pytest

from tenex.cli.demo_model import demo_model
from tenex.core.errors import UsageError
from tenex.settings import load
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import model_server

CLOSED = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no Ollama."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", CLOSED)


def chosen(data: Path, name: str | None = None, *, in_terminal: bool = True) -> tuple[str | None, str]:
    """The name of the model in the settings, where one is set, and the announcement."""
    found = demo_model(load(None, data, env={}), data / "keys", name, in_terminal=in_terminal)
    return found.overrides.get("models", {}).get("default"), found.announcement


def test_without_key_or_server_it_is_the_offline_one(tmp_path: Path) -> None:
    model, line = chosen(tmp_path)
    assert model == "offline"
    assert "free" in line
    assert "--model" in line


@pytest.mark.parametrize(
    ("variable", "model"),
    [
        ("OPENAI_API_KEY", "openai:gpt-5-mini"),
        ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
        ("GEMINI_API_KEY", "google:gemini-2.5-flash"),
    ],
)
def test_a_vendor_s_key_is_used_and_its_cost_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, model: str
) -> None:
    monkeypatch.setenv(variable, "sk-test")
    found, line = chosen(tmp_path)
    assert found == model
    assert line.startswith(f"Model: {model} (key in ${variable}); it COSTS MONEY, ")
    assert "--model offline" in line
    assert "sk-test" not in line
    assert chosen(tmp_path, "offline")[0] == "offline", "the option goes before the key"


def test_without_a_terminal_no_money_is_spent_unless_a_model_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model, line = chosen(tmp_path, in_terminal=False)
    assert model == "offline"
    assert line == "Model: offline, fixed rules, free, because this is no terminal. For a real one use --model."
    assert chosen(tmp_path, "openai:gpt-5-mini", in_terminal=False)[0] == "openai:gpt-5-mini"


def test_a_configured_model_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (tmp_path / "tenex.toml").write_text('[models]\ndefault = "offline"\n')
    assert chosen(tmp_path) == (None, "Model: offline, as configured.")


def test_a_named_model_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="openai needs a key"):
        chosen(tmp_path, "openai:gpt-5-mini")


@pytest.mark.parametrize("host", ["192.0.2.7:11434", "ollama.example.com"])
def test_ollama_elsewhere_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    begun = time.monotonic()
    assert chosen(tmp_path)[0] == "offline"
    assert time.monotonic() - begun < 5


async def test_a_server_without_a_model_that_talks_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with model_server(lambda _: Answer(text="OK"), key="", models=("nomic-embed-text",)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.split("/")[2])
        model, _ = await asyncio.to_thread(chosen, tmp_path)
    assert model == "offline"


async def test_a_model_of_ollama_on_this_machine_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with model_server(lambda _: Answer(text="OK"), key="", models=("nomic-embed-text", "test")) as server:
        host = server.url.split("/")[2]
        monkeypatch.setenv("OLLAMA_HOST", host)
        model, line = await asyncio.to_thread(chosen, tmp_path)
    assert model == "ollama:test"
    assert line.startswith(f"Model: ollama:test (Ollama at http://{host}/v1); it is free. Choose another")
