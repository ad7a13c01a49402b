"""Models made from configuration: every vendor, its address and key, missing packages and keys, no retries."""

import json
import sys
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile

from tenex.core.errors import ConfigurationError, ModelUnavailable
from tenex.core.ids import Slug
from tenex.core.messages import AgentText, Note, Usage, UserText
from tenex.core.router.answer import DECISION_SCHEMA, RoutingDecision, parse
from tenex.llm.config import ModelClientConfig, ProviderConfig
from tenex.llm.providers import _ADDRESSES, base_settings, make_model, make_provider
from tenex.llm.request_params import DECISION, Form, best_form, parameters
from tests.fakes.modelprotocol import Answer

from .clients import WRITE, asked, client_for, result, route, vendor, work
from .otherservers import anthropic, google, serving

KEY = "sk-very-secret"
FAILS = (500, "application/json", b'{"error": {"message": "x"}}')


def faults_of(**settings: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make_provider(ProviderConfig(**settings))
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "model", "address"),
    [
        ("openai", "gpt-5", "https://api.openai.com/v1/"),
        ("openai-responses", "gpt-5", "https://api.openai.com/v1/"),
        ("anthropic", "claude-sonnet-4-5", "https://api.anthropic.com"),
        ("google", "gemini-2.5-pro", "https://generativelanguage.googleapis.com/"),
        ("ollama", "qwen3", "http://127.0.0.1:11434/v1/"),
        ("openrouter", "x/y", "https://openrouter.ai/api/v1"),
        ("deepseek", "deepseek-chat", "https://api.deepseek.com"),
    ],
)
def test_every_vendor_is_made_without_the_environment_and_shows_no_key(
    kind: str, model: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL"):
        monkeypatch.setenv(name, "http://elsewhere.invalid/v1")
    config = ProviderConfig(name=kind, api_key=KEY)
    provider = make_provider(config)
    made = make_model(config, provider, model)
    assert (made.model_name, provider.base_url) == (model, address)
    assert getattr(provider.client, "max_retries", base_settings(config, made).get("max_retries")) == 0
    assert KEY not in f"{config} {ModelClientConfig(providers={kind: config})}"


@pytest.mark.parametrize(("given", "used"), [("http://h:1", "http://h:1/v1/"), ("http://h:1/api", "http://h:1/api/")])
def test_a_bare_address_of_an_ollama_is_completed(given: str, used: str) -> None:
    assert make_provider(ProviderConfig(name="ollama", base_url=given)).base_url == used


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"kind": "openai"}, ["OPENAI_API_KEY"]),
        ({"kind": "anthropic"}, ["ANTHROPIC_API_KEY", "no key"]),
        ({"kind": "google"}, ["GOOGLE_API_KEY"]),
        ({"kind": "openrouter"}, ["OPENROUTER_API_KEY", "mine.api_key_env", "mine.api_key_file", "/etc/tenex/key"]),
        ({"base_url": "http://127.0.0.1:1/v1"}, ['models.providers.mine: "mine" is no provider', 'kind = "openai"']),
        ({"kind": "deepseek", "api_key": KEY, "base_url": "http://127.0.0.1:1"}, ["takes no base_url"]),
    ],
)
def test_what_is_missing_or_wrong_is_named_with_a_way_out(
    settings: dict[str, str], parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)  # not taken unasked
    message = faults_of(name="mine", key_sources="the file /etc/tenex/key", **settings)
    assert not [part for part in parts if part not in message]


@pytest.mark.parametrize(
    ("kind", "module", "install"),
    [
        ("anthropic", "anthropic", "pip install 'tenexd[anthropic]'"),
        ("google", "google.genai", "pip install 'tenexd[google]'"),
        ("groq", "groq", "pip install 'pydantic-ai-slim[groq]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(
    kind: str, module: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name == f"pydantic_ai.providers.{kind}" or name.split(".")[0] == module.split(".")[0]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    message = faults_of(name=kind, api_key=KEY)
    assert install in message
    assert module.split(".")[0] in message


def test_a_provider_without_models_to_talk_to_is_refused() -> None:
    config = ProviderConfig(name="voyageai", api_key=KEY)
    with pytest.raises(ConfigurationError, match=r"models\.providers\.voyageai"):
        make_model(config, make_provider(config), "x")


async def test_claude_is_asked_in_its_own_protocol() -> None:
    async with vendor(anthropic, "anthropic", "claude-sonnet-4-6", max_output_tokens=500) as (client, served):
        person = UserText(author="Ada", text="Write")
        step = await client.step(work(person, tools=(WRITE,)))
        await client.step(work(person, step, result(step.calls[0].id, "no", ok=False), tools=(WRITE,)))
        decision = parse((await client.step(route())).text)
    first, second, third = (request.body for request in served.requests)
    assert KEY in served.requests[0].headers["authorization"]
    assert (first["max_tokens"], first["stream"]) == (500, True)
    (prompt,) = first["system"]
    assert prompt["text"] == "You are a test.", "something was added to the prompt"
    cached = (prompt, first["tools"][-1], first["messages"][-1]["content"][-1], second["messages"][-1]["content"][-1])
    assert all("cache_control" in block for block in cached)
    assert "cache_control" not in json.dumps(second["messages"][:-1]), "no marker stays behind: four are the most"
    assert (step.thinking, step.calls[0].arguments) == ("hm", {"path": "a"})
    assert step.usage == Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=20)
    assert second["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert second["messages"][2]["content"][0]["is_error"] is True
    assert "cache_control" in third["system"][-1]
    assert "cache_control" not in json.dumps(third["messages"]), "the router's question is asked once"
    assert isinstance(decision, RoutingDecision)


async def test_claude_finds_the_conversation_of_an_agents_run_before_in_its_cache() -> None:
    """Anthropic caches whole blocks: each message is one, the last is marked; the notes after it are new each run."""
    said = UserText(author="Ada", text="Write")
    async with vendor(anthropic, "anthropic") as (client, served):
        for entries in (
            (said, Note(title="The phase: execute", text="Build.")),
            (said, AgentText(author="Bob", text="Done."), Note(title="The phase: chores", text="Tidy.")),
        ):
            await client.step(work(*entries, tools=(WRITE,)))
    (first,), (second,) = (request.body["messages"] for request in served.requests)
    assert [block["text"].split("\n")[1] for block in first["content"]] == ["Write", "Build."]
    assert [block["text"].split("\n")[1] for block in second["content"]] == ["Write", "Done.", "Tidy."]
    assert ["cache_control" in block for block in first["content"]] == [True, True]
    assert ["cache_control" in block for block in second["content"]] == [False, True, True]
    assert all(json.dumps(request.body).count('"cache_control"') <= 4 for request in served.requests), "four at most"


async def test_anthropic_itself_is_asked_to_cache_what_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its automatic breakpoint, which moves with the conversation; other servers need not know it."""
    async with serving(anthropic) as served:
        monkeypatch.setitem(_ADDRESSES, "anthropic", served.url)
        client = client_for(ProviderConfig(name="anthropic", api_key=KEY), chain=("anthropic:claude-sonnet-4-6",))
        await client.step(work(tools=(WRITE,)))
        await client.step(route())
        await client.close()
    first, second = (request.body for request in served.requests)
    assert first["cache_control"]["type"] == "ephemeral"
    assert all("cache_control" in first[part][-1] for part in ("system", "tools"))
    assert json.dumps(first).count("cache_control") <= 4, "Anthropic refuses more"
    assert "cache_control" not in second, "the router's question is asked once"


@pytest.mark.parametrize("kind", ["openai", "openai-responses"])
async def test_openai_itself_gets_a_key_of_the_agent_in_its_conversation(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keys_of(config: ProviderConfig) -> list[str | None]:
        client = client_for(config, chain=("openai:gpt-5.6",))
        asked = [replace(work(), conversation=one, agent=Slug(two)) for one in ("a", "b") for two in ("x", "x", "y")]
        for request in (*asked, work()):
            with pytest.raises(ModelUnavailable):
                await client.step(request)
        await client.close()
        bodies = [request.body for request in served.requests]
        served.requests.clear()
        return [body.get("prompt_cache_key") for body in bodies]

    async with serving(lambda _request: FAILS) as served:
        compatible = await keys_of(ProviderConfig(name="openai", kind=kind, api_key=KEY, base_url=served.url))
        monkeypatch.setitem(_ADDRESSES, kind, served.url)
        vendor = await keys_of(ProviderConfig(name="openai", kind=kind, api_key=KEY))
    assert set(compatible) == {None}, "an unknown server may refuse it"
    assert vendor[0] == vendor[1]
    assert len({*vendor[:6]}) == 4
    assert vendor[6] is None, "a question outside of conversations"


async def test_gemini_is_asked_in_its_own_protocol() -> None:
    async with vendor(google, "google", "gemini-2.5-pro", max_output_tokens=500) as (client, served):
        step = await client.step(work(tools=(WRITE,)))
        decision = parse((await client.step(route())).text)
    first, second = served.requests
    assert first.headers["x-goog-api-key"] == KEY
    assert "gemini-2.5-pro:streamGenerateContent" in first.path
    assert first.body["generationConfig"]["maxOutputTokens"] == 500
    assert step.calls[0].arguments == {"path": "a"}
    assert step.usage == Usage(input_tokens=100, output_tokens=9, cache_read_tokens=70)
    assert second.body["generationConfig"]["responseMimeType"] == "application/json"
    assert isinstance(decision, RoutingDecision)


@pytest.mark.parametrize("kind", ["anthropic", "google"])
async def test_no_vendor_tries_again_by_itself(kind: str) -> None:
    async with vendor(lambda _request: FAILS, kind) as (client, served):
        with pytest.raises(ModelUnavailable, match=r"fails \(500"):
            await client.step(work())
    assert len(served.requests) == 1


async def test_ollama_costs_nothing_and_speaks_the_common_protocol() -> None:
    own = {"provider_name": "ollama", "provider_kind": "ollama"}
    (step,), _ = await asked(Answer(text="Hello"), chain=("ollama:qwen3",), **own)
    assert (step.text, step.usage.cost_usd) == ("Hello", 0.0)


def test_the_strictest_form_a_model_takes_is_used() -> None:
    profiles = {Form.NATIVE: {"supports_json_schema_output": True}, Form.TOOL: {}, Form.TEXT: {"supports_tools": False}}
    for form, profile in profiles.items():
        assert best_form(TestModel(profile=cast("ModelProfile", profile))) is form


def test_a_decision_may_be_one_call_that_must_be_made() -> None:
    made = parameters(route(), Form.TOOL)
    assert [(tool.name, tool.parameters_json_schema) for tool in made.output_tools] == [(DECISION, DECISION_SCHEMA)]
    assert not made.allow_text_output
