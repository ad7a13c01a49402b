"""The client: chains, what failures cost, configuration checked at once, laziness, closing."""

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest

from tenex.core.errors import ConfigurationError, ModelRefused, ModelUnavailable
from tenex.core.ids import Slug
from tenex.core.messages import UserText
from tenex.core.ports import Model
from tenex.llm.client import ModelClient
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.scripted import OfflineModel
from tests.fakes.modelprotocol import Answer, Fails, Json, Reply
from tests.fakes.modelserver import model_server

from .clients import NAME, client_for, provider, result, talking, work

PRICES = {f"local:{name}": Price(input=1.0, output=1.0) for name in ("a", "b", "c")}


def by_model(**replies: Reply) -> object:
    return lambda request: replies[request["model"]]


async def test_the_next_model_answers_and_what_the_first_cost_is_counted() -> None:
    cut = Answer(text="Half", finish="length", usage=(100, 50))
    good = Answer(text="Whole", usage=(100, 5))
    chain = ("local:a", "local:b", "local:c")
    async with talking(by_model(a=Fails(status=500), b=cut, c=good), chain=chain, prices=PRICES) as (client, server):  # type: ignore[arg-type]
        step = await client.step(work())
    assert (step.text, step.model) == ("Whole", "local:c")
    assert (step.usage.input_tokens, step.usage.output_tokens, step.usage.calls) == (200, 55, 2)
    assert step.usage.cost_usd == pytest.approx(255 / 1_000_000)
    assert [exchange.request["model"] for exchange in server.exchanges] == ["a", "b", "c"]


async def test_without_an_answer_the_shortest_wait_is_reported() -> None:
    replies = by_model(
        a=Fails(status=429, headers={"Retry-After": "70"}), b=Fails(status=503, headers={"Retry-After": "40"})
    )
    async with model_server(replies) as server:  # type: ignore[arg-type]
        one, other = provider(server), provider(server, name="other")
        client = client_for(one, other, chain=("local:a", "other:b"))
        with pytest.raises(ModelUnavailable, match="other:b is overloaded") as caught:
            await client.step(work())
        await client.close()
    assert caught.value.retry_after == 40
    assert caught.value.model == "other:b"


async def test_a_model_that_asks_for_no_wait_may_be_asked_soon() -> None:
    replies = by_model(a=Fails(status=429, headers={"Retry-After": "20"}), b=Fails(status=500))
    async with talking(replies, chain=("local:b", "local:a")) as (client, _):  # type: ignore[arg-type]
        with pytest.raises(ModelUnavailable) as caught:
            await client.step(work())
    assert caught.value.retry_after is None


async def test_the_last_refusal_is_reported_with_the_cost_of_all() -> None:
    cut = Answer(text="Half", finish="length", usage=(10, 5))
    async with talking(by_model(a=cut, b=cut), chain=("local:a", "local:b")) as (client, _):  # type: ignore[arg-type]
        with pytest.raises(ModelRefused, match="local:b") as caught:
            await client.step(work())
    assert caught.value.usage.output_tokens == 10
    assert caught.value.model == "local:b"


async def test_the_offline_model_may_end_a_chain() -> None:
    async with talking(lambda _request: Fails(status=500), chain=(NAME, "offline")) as (client, _):
        step = await client.step(work(UserText(author="Ada", text="hi")))
    assert step.model == "offline"


async def test_a_step_of_another_vendor_is_sent_in_neutral_form() -> None:
    chain = ["one:test"]

    def respond(request: Json) -> Reply:
        return (
            Answer(text="ok", reasoning="a private thought") if len(request["messages"]) == 2 else Answer(text="Done")
        )

    async with model_server(respond) as server:
        providers = {name: provider(server, name=name) for name in ("one", "two")}
        client = ModelClient(ModelClientConfig(providers=providers), lambda *_asked: tuple(chain), OfflineModel())
        person = UserText(author="Ada", text="hi")
        step = await client.step(work(person))
        chain[:] = ["two:test"]
        await client.step(work(person, step, person))
        await client.close()
    assert step.vendor is not None
    sent = server.exchanges[1].request["messages"]
    assert sent[2] == {"role": "assistant", "content": "ok"}
    assert not server.refused


async def test_the_choice_is_asked_for_each_request() -> None:
    asked: list[tuple[str, str, str]] = []

    def choose(purpose: str, agent: Slug, phase: str) -> tuple[str, ...]:
        asked.append((purpose, agent, phase))
        return ("offline",)

    client: Model = ModelClient(ModelClientConfig(), choose, OfflineModel())
    await client.step(work())
    await client.step(replace(work(), phase="plan", agent=Slug("planner")))
    assert asked == [("work", "executor", "execute"), ("work", "planner", "plan")]


async def test_no_model_at_all_is_held_not_lost() -> None:
    with pytest.raises(ModelUnavailable, match=r"models\.default"):
        await client_for(chain=()).step(work())
    with pytest.raises(ModelUnavailable, match="no key"):
        await client_for(chain=("anthropic:claude",)).step(work())


def test_all_faults_of_a_configuration_are_reported_at_once() -> None:
    keyed = ProviderConfig(name="openai", api_key="k")
    client = client_for(keyed)
    with pytest.raises(ConfigurationError) as caught:
        client.check(
            ["offline", "openai:gpt-5", "gpt-4", "anthropic:a", "anthropic:b", "nobody:x", "gpt-4", ":x", "openai:"]
        )
    message = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 5
    for part in ('"gpt-4"', '":x"', '"openai:"', "models.providers.anthropic: no key", '"nobody" is no provider'):
        assert part in message
    client.check(["offline", "openai:gpt-5"])


def test_neither_the_package_nor_a_client_loads_the_library() -> None:
    """`tenex --help` stays fast, and a daemon of the offline model stays small."""
    program = (
        "import sys, asyncio\n"
        "from tenex.llm.config import ModelClientConfig, ProviderConfig, Price\n"
        "from tenex.llm.client import ModelClient\n"
        "from tenex.llm import probe\n"
        "from tenex.llm.scripted import OfflineModel\n"
        "client = ModelClient(ModelClientConfig(), lambda *asked: ('offline',), OfflineModel())\n"
        "client.check(['offline'])\n"
        "print(asyncio.run(probe.probe(ModelClientConfig(), 'offline')).model)\n"
        "assert not {'pydantic_ai', 'openai', 'httpx', 'httpx2', 'genai_prices'} & sys.modules.keys()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("offline\n", "")


async def test_closing_lets_what_is_under_way_finish() -> None:
    slow = Answer(text="Hello", delay=0.1)
    async with talking(lambda _request: slow) as (client, server):
        task = asyncio.create_task(client.step(work()))
        await server.until(lambda at: at.exchanges)
        await client.close()
        assert task.done()
        assert (await task).text == "Hello"
        await client.close()
        assert client.status() == ()


async def test_a_failure_of_one_call_of_many_hurts_no_other() -> None:
    def respond(request: Json) -> Reply:
        return Fails(status=500) if "bad" in str(request["messages"]) else Answer(text="ok")

    async with talking(respond, provider_concurrency=4) as (client, server):
        words = ["good", "bad"] * 8
        done = await asyncio.gather(
            *(client.step(work(UserText(author="Ada", text=word))) for word in words), return_exceptions=True
        )
        assert client.status()[0].active == client.status()[0].waiting == 0
    assert [isinstance(one, ModelUnavailable) for one in done] == [word == "bad" for word in words]
    assert len(server.exchanges) == len(words)


async def test_an_answer_after_a_call_and_its_result_is_understood_by_every_server() -> None:
    async with talking(lambda _request: Answer(text="ok")) as (client, server):
        entries = [UserText(author="Ada", text="hi")]
        await client.step(work(*entries, result("lost", "an orphan")))
    assert not server.refused
