"""The client: chains, what failures cost, configuration checked at once, laziness, closing."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.errors import ConfigurationError, ModelRefused, ModelUnavailable
from tenex.core.ids import Slug
from tenex.core.messages import UserText
from tenex.llm.client import ModelClient
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.scripted import OfflineModel
from tests.fakes.modelprotocol import Answer, Fails, Json, Reply
from tests.fakes.modelserver import model_server

from .clients import NAME, asked, client_for, provider, result, talking, work

PRICES = {f"local:{name}": Price(input=1.0, output=1.0) for name in ("a", "b", "c")}
ADA = UserText(author="Ada", text="hi")


def by_model(**replies: Reply) -> Callable[[Json], Reply]:
    return lambda request: replies[request["model"]]


def waits(status: int, seconds: int) -> Fails:
    return Fails(status=status, headers={"Retry-After": str(seconds)})


async def test_the_next_model_answers_and_what_the_first_cost_is_counted() -> None:
    cut = Answer(text="Half", finish="length", usage=(100, 50))
    replies = by_model(a=Fails(status=500), b=cut, c=Answer(text="Whole", usage=(100, 5)))
    (step,), server = await asked(replies, chain=("local:a", "local:b", "local:c"), prices=PRICES)
    assert (step.text, step.model) == ("Whole", "local:c")
    assert (step.usage.input_tokens, step.usage.output_tokens, step.usage.calls) == (200, 55, 2)
    assert step.usage.cost_usd == pytest.approx(255 / 1_000_000)
    assert [exchange.request["model"] for exchange in server.exchanges] == ["a", "b", "c"]


async def test_without_an_answer_the_shortest_wait_is_reported() -> None:
    async with model_server(by_model(a=waits(429, 70), b=waits(503, 40))) as server:
        client = client_for(provider(server), provider(server, name="other"), chain=("local:a", "other:b"))
        with pytest.raises(ModelUnavailable, match="other:b is overloaded") as caught:
            await client.step(work())
        await client.close()
    assert (caught.value.retry_after, caught.value.model) == (40, "other:b")
    replies = by_model(a=waits(429, 20), b=Fails(status=500))
    (failed,), _ = await asked(replies, chain=("local:b", "local:a"))
    assert failed.retry_after is None, "a model that asks for no wait may be asked soon"


async def test_a_limit_of_one_model_stops_neither_the_next_in_the_chain_nor_another_of_the_provider() -> None:
    replies = by_model(a=waits(429, 3600), b=Answer(text="Hello"))
    chain = ["local:a", "local:b"]
    async with model_server(replies) as server:
        config = ModelClientConfig(providers={"local": provider(server)})
        client = ModelClient(config, lambda *_: tuple(chain), OfflineModel())
        assert (await client.step(work())).model == "local:b"
        assert (await client.step(work())).model == "local:b"
        chain[:] = ["local:b"]
        assert (await client.step(work())).model == "local:b"
        await client.close()
    assert [exchange.request["model"] for exchange in server.exchanges] == ["a", "b", "b", "b"]


async def test_no_credit_stops_all_models_of_the_provider() -> None:
    none_left = Fails(status=429, code="insufficient_quota", headers={"Retry-After": "3600"})
    replies = by_model(a=none_left, b=Answer(text="Hello"))
    (failed,), server = await asked(replies, chain=("local:a", "local:b"))
    assert isinstance(failed, ModelUnavailable)
    assert len(server.exchanges) == 1


async def test_a_success_ends_a_pause() -> None:
    """The server asked for an hour, once, and answers everything since."""
    replies: list[Reply] = [waits(429, 3600), *[Answer(text="Hello")] * 3]
    async with talking(replies) as (client, server):
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                await client.step(work())
        assert len(server.exchanges) == 1
        assert (await client.step(replace(work(), is_urgent=True))).text == "Hello"  # `/continue`
        assert client.status()[0].paused == 0
        for _ in range(2):
            assert (await client.step(work())).text == "Hello"


async def test_a_refused_key_is_tried_again_only_when_it_has_changed_or_a_user_wants_it(tmp_path: Path) -> None:
    """Its place is named; a server is not asked again and again with a key it does not take."""
    file = tmp_path / "local.api-key"
    file.write_text("sk-wrong")

    def read(config: ProviderConfig) -> ProviderConfig:
        return replace(config, api_key=file.read_text(), key_source=str(file))

    async with model_server(lambda _: Answer(text="Hello")) as server:
        config = ModelClientConfig(providers={"local": read(provider(server))}, read_again=read)
        client = ModelClient(config, lambda *_: (NAME,), OfflineModel())
        for request in (work(), work(), replace(work(), is_urgent=True)):
            with pytest.raises(
                ModelUnavailable, match=rf"does not accept the key .*it is in {file}; correct"
            ) as caught:
                await client.step(request)
            assert caught.value.needs_operator
        assert server.wrong_keys == 2
        file.write_text(server.key)
        assert (await client.step(work())).text == "Hello"
        assert (await client.step(work())).text == "Hello"
        await client.close()


async def test_a_model_that_a_key_may_not_use_holds_no_other_model() -> None:
    """Nor does a window that nothing fits into, which also waits for the operator."""
    chain = ["local:a"]
    replies = by_model(a=Fails(status=403, message="No access to the model"), b=Answer(text="Hello"))
    async with model_server(replies) as server:
        client = ModelClient(
            ModelClientConfig(providers={"local": provider(server)}), lambda *_: tuple(chain), OfflineModel()
        )
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="is not permitted to this key"):
                await client.step(work())
        chain[:] = ["local:b"]
        assert (await client.step(work())).text == "Hello"
        await client.close()
    assert [exchange.request["model"] for exchange in server.exchanges] == ["a", "b"]


async def test_a_request_that_a_server_cuts_silently_holds_no_other_request() -> None:
    def respond(request: Json) -> Reply:
        is_long = len(json.dumps(request["messages"])) > 20_000
        return Answer(text="Hm?", usage=(1_000, 40)) if is_long else Answer(text="Hello")

    system = " ".join(f"Rule {number}: be brief." for number in range(2_000))
    (failed, step), _ = await asked(respond, work(system=system), work())
    assert isinstance(failed, ModelUnavailable)
    assert failed.needs_operator
    assert step.text == "Hello"


async def test_a_chain_goes_on_with_the_next_provider_where_a_key_is_refused() -> None:
    async with model_server(lambda _: Answer(text="Hello")) as server:
        wrong = provider(server, name="wrong", api_key="sk-wrong")
        client = client_for(wrong, provider(server), chain=("wrong:a", NAME))
        assert [(await client.step(work())).model for _ in range(3)] == [NAME] * 3
        await client.close()
    assert server.wrong_keys == 1


async def test_the_last_refusal_is_reported_with_the_cost_of_all() -> None:
    (failed,), _ = await asked(Answer(finish="length", usage=(10, 5)), chain=("local:a", "local:b"))
    assert isinstance(failed, ModelRefused)
    assert (failed.usage.output_tokens, failed.model) == (10, "local:b")


async def test_the_offline_model_may_end_a_chain() -> None:
    (step,), _ = await asked(Fails(status=500), work(ADA), chain=(NAME, "offline"))
    assert step.model == "offline"


async def test_a_step_of_another_vendor_is_sent_in_neutral_form() -> None:
    """The model is chosen again for each request."""
    chain, asked_for = ["one:test"], list[tuple[str, str, str]]()

    def choose(purpose: str, agent: Slug, phase: str) -> tuple[str, ...]:
        asked_for.append((purpose, agent, phase))
        return tuple(chain)

    replies = [Answer(text="ok", reasoning="a private thought"), Answer(text="Done")]
    async with model_server(lambda _request: replies.pop(0)) as server:
        providers = {name: provider(server, name=name) for name in ("one", "two")}
        client = ModelClient(ModelClientConfig(providers=providers), choose, OfflineModel())
        step = await client.step(work(ADA))
        chain[:] = ["two:test"]
        await client.step(work(ADA, step, ADA, result("lost", "an orphan")))
        await client.close()
    assert step.vendor is not None
    assert asked_for == [("work", "executor", "execute")] * 2
    assert server.exchanges[1].request["messages"][2] == {"role": "assistant", "content": "ok"}
    assert not server.refused


async def test_no_model_at_all_is_held_not_lost() -> None:
    with pytest.raises(ModelUnavailable, match=r"models\.default"):
        await client_for(chain=()).step(work())
    with pytest.raises(ModelUnavailable, match="no key"):
        await client_for(chain=("anthropic:claude",)).step(work())


def test_all_faults_of_a_configuration_are_reported_at_once() -> None:
    client = client_for(ProviderConfig(name="openai", api_key="k"))
    client.check(["offline", "openai:gpt-5"])
    names = ["offline", "openai:gpt-5", "gpt-4", "anthropic:a", "anthropic:b", "nobody:x", "gpt-4", ":x", "openai:"]
    with pytest.raises(ConfigurationError) as caught:
        client.check(names)
    assert len(caught.value.faults) == 5
    message = "\n".join(caught.value.faults)
    for part in ('"gpt-4"', '":x"', '"openai:"', "models.providers.anthropic: no key", '"nobody" is no provider'):
        assert part in message


def test_neither_the_package_nor_a_client_loads_the_library() -> None:
    """`tenex --help` stays fast, and a daemon of the offline model stays small."""
    program = (
        "import sys, asyncio\n"
        "from tenex.llm.config import ModelClientConfig\n"
        "from tenex.llm.client import ModelClient\n"
        "from tenex.llm import probe\n"
        "from tenex.llm.scripted import OfflineModel\n"
        "ModelClient(ModelClientConfig(), lambda *asked: ('offline',), OfflineModel()).check(['offline'])\n"
        "print(asyncio.run(probe.probe(ModelClientConfig(), 'offline')).doubts)\n"
        "assert not {'pydantic_ai', 'openai', 'httpx', 'httpx2', 'genai_prices'} & sys.modules.keys()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("()\n", "")


async def test_closing_lets_what_is_under_way_finish() -> None:
    async with talking(Answer(text="Hello", delay=0.1)) as (client, server):
        task = asyncio.create_task(client.step(work()))
        await server.until(lambda at: at.exchanges)
        await client.close()
        assert task.done()
        assert (await task).text == "Hello"
        await client.close()
        assert client.status() == ()
