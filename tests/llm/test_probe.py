"""One small call that tells whether key and model are right."""

import pytest

from tenex.core.errors import ConfigurationError, ModelUnavailable
from tenex.llm.config import DeskConfig, Price
from tenex.llm.probe import ROOM, price_of, probe
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import ModelServer, model_server
from tests.llm.desks import NAME, provider


def config(server: ModelServer, **settings: str) -> DeskConfig:
    return DeskConfig(
        providers={"local": provider(server, **settings)}, prices={NAME: Price(input=2.0, output=4.0)},
        max_output_tokens=16_000,
    )  # fmt: skip


async def test_a_model_that_answers_is_told_with_what_it_cost() -> None:
    async with model_server(lambda _request: Answer(text="OK", usage=(20, 2))) as server:
        found = await probe(config(server), NAME)
        assert price_of(config(server), NAME) == Price(input=2.0, output=4.0)
    assert (found.model, found.usage.input_tokens) == (NAME, 20)
    assert found.seconds > 0
    assert found.sentence.endswith("(20 tokens in, 2 out, $0.000048)")
    assert (server.exchanges[0].request["max_tokens"], server.exchanges[0].stream) == (ROOM, False)


async def test_a_model_that_thinks_too_long_is_there_all_the_same() -> None:
    async with model_server(lambda _request: Answer(reasoning="hm", finish="length", usage=(20, ROOM))) as server:
        assert (await probe(config(server), NAME)).usage.output_tokens == ROOM


async def test_a_wrong_key_a_closed_port_and_a_missing_key_are_told() -> None:
    async with model_server(lambda _request: Answer(text="OK")) as server:
        with pytest.raises(ModelUnavailable, match="does not accept our key") as caught:
            await probe(config(server, api_key="sk-wrong-one"), NAME)
        assert "sk-wrong" not in str(caught.value)
        await server.down()
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            await probe(config(server), NAME)
    with pytest.raises(ConfigurationError, match="no key"):
        await probe(DeskConfig(), "anthropic:claude-sonnet-4-5")


async def test_the_model_made_of_rules_needs_no_call() -> None:
    found = await probe(DeskConfig(), "offline")
    assert found.usage.cost_usd == 0.0
    assert "no network" in found.sentence
