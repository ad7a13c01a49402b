"""Small calls that check key, model and settings."""

import json

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.llm import probe as probe_module
from tenex.llm.config import ModelClientConfig
from tenex.llm.probe import probe
from tenex.llm.provider_model import DECISION_TOKENS
from tests.fakes.modelprotocol import Answer, Call, Fails, Json, Reply
from tests.fakes.modelserver import ModelServer, model_server

from .clients import NAME, provider


def config(server: ModelServer, **settings: str) -> ModelClientConfig:
    return ModelClientConfig(providers={"local": provider(server, **settings)}, max_output_tokens=16_000)


def able(request: Json) -> Reply:
    """A model that does what it is asked."""
    if "tools" in request and request["tools"][0]["function"]["name"] == "complete":
        return Answer(calls=(Call(tool="complete", arguments={"response": "OK"}),))
    return Answer(text=json.dumps({"agents": ["USER"], "reason": "a test"}))


async def test_a_model_is_asked_as_for_work() -> None:
    async with model_server(able) as server:
        found = await probe(config(server), NAME)
    assert found.doubts == ()
    assert found.seconds > 0
    work, decision = (exchange.request for exchange in server.exchanges)
    assert work["stream"] is True
    assert [tool["function"]["name"] for tool in work["tools"]] == ["complete"]
    assert (work["max_tokens"], decision["max_tokens"]) == (16_000, DECISION_TOKENS)
    assert '"agents"' in json.dumps(decision.get("tools") or decision.get("response_format"))


@pytest.mark.parametrize(
    ("message", "setting"),
    [
        ("max_tokens is too large: 16000. This model supports at most 4096", "models.max_output_tokens"),
        ("registry.ollama.ai/library/gemma3:4b does not support tools", "cannot call tools"),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "cannot call tools"),
        ("Your organization must be verified to stream this model.", "models.stream = false"),
    ],
)
async def test_a_setting_that_work_could_not_be_done_with_is_named(message: str, setting: str) -> None:
    async with model_server(lambda _request: Fails(status=400, message=message)) as server:
        with pytest.raises(ModelUnavailable, match=setting):
            await probe(config(server), NAME)


async def test_missing_abilities_of_a_model_are_reported() -> None:
    async with model_server(lambda _request: Answer(text="OK", reports="nothing")) as server:
        found = await probe(config(server), NAME)
        only = await probe(config(server), NAME, ("route",))
    assert ["call the tool" in doubt for doubt in found.doubts] == [True, False, False]
    assert "models.router" in " ".join(found.doubts)
    assert "estimated" in " ".join(found.doubts)
    assert not any("tool" in doubt for doubt in only.doubts)


async def test_a_slow_model_nearby_is_waited_for_and_called_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "PATIENCE", 0.0)  # seconds, after which a vendor's model is given up
    async with model_server(able) as server:
        found = await probe(config(server), NAME)
    assert [doubt.partition(" took")[0] for doubt in found.doubts] == [
        f"{NAME} is slow: a call of a tool of a few words",
        f"{NAME} is slow: a decision of a few words",
    ]


async def test_a_model_that_thinks_too_long_is_there_all_the_same() -> None:
    async with model_server(lambda _request: Answer(reasoning="hm", finish="length")) as server:
        assert (await probe(config(server), NAME)).doubts == ()
    assert len(server.exchanges) == 2
