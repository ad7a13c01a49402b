"""No server fills the memory or stops the event loop, whatever it sends; on a real connection, with little memory.

The client of most tests is a process that may take 400 MB beside what it has when it begins.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from tenex.cli.shared.provider import models_of
from tenex.llm.answer_limits import limit_client
from tenex.llm.config import ModelClientConfig, ProviderConfig
from tenex.llm.probe import probe
from tenex.llm.providers import make_provider
from tests.fakes.forkserver import run
from tests.fakes.hostileserver import hostile_server
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import ModelServer
from tests.service.kit import ROOT, environment

from .clients import talking, work

MOST_MB = 150
"""That the memory may grow by: many times an answer of the largest size, and a part of what each attack would send."""

COMPRESSED = ("gzip", "deflate", "raw-deflate", "gzip-of-gzip", "gzip-in-a-stream")
WHOLE = ("endless-body", "endless-string", "endless-objects", "endless-lists")
STREAMED = (
    "endless-line",
    "endless-data-lines",
    "endless-objects-in-an-event",
    "endless-comments",
    "endless-empty-lines",
    "endless-text",
    "endless-wide-text",
    "endless-thoughts",
    "endless-arguments",
    "endless-calls",
    "endless-call-in-one-event",
)
CUT = ("endless-error", "endless-overload", "gzip-error", "endless-redirect", "endless-headers")
UNREADABLE = ("deep", "deep-event", "deep-error", "long-number", "long-number-event")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with hostile_server() as address:
        yield address


def outcome(url: str, attack: str, **asked: Any) -> dict[str, Any]:
    """What became of one call of a client with little memory."""
    return outcomes(url, [attack], **asked)[attack]


def outcomes(url: str, attacks: Sequence[str], *, kind: str = "openai", **asked: Any) -> dict[str, dict[str, Any]]:
    """What became of calls one after the other, which together have that memory."""
    calls = [json.dumps({"kind": kind, "url": f"{url}/{attack}/v1", **asked}) for attack in attacks]
    done = run(["tests.llm.limitedclient", *calls], environment(), ROOT, seconds=60)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]  # others are logged
    return dict(zip(attacks, found, strict=True))


@pytest.mark.parametrize("attack", [*COMPRESSED, *WHOLE, *STREAMED])
def test_an_answer_without_end_is_refused_with_its_cost_and_takes_little_memory(url: str, attack: str) -> None:
    found = outcome(url, attack, stream=attack not in WHOLE)
    assert found["outcome"] == "ModelRefused", found
    assert found["message"].startswith("the server of openai:test sent more than "), found
    assert "models.providers.openai" in found["message"]
    assert len(found["message"].split()) < 25
    assert found["cost"] > 0
    assert found["mb"] < MOST_MB


@pytest.mark.parametrize("attack", CUT)
def test_the_beginning_of_an_error_without_end_is_what_it_says(url: str, attack: str) -> None:
    found = outcome(url, attack)
    assert found["outcome"] == "ModelUnavailable", found
    assert found["mb"] < MOST_MB
    words = {"endless-error": "(400)", "endless-overload": "overloaded", "gzip-error": "(500)"}
    assert words.get(attack, "openai:test") in found["message"]


@pytest.mark.parametrize("attack", UNREADABLE)
def test_json_that_cannot_be_read_is_an_ordinary_failure(url: str, attack: str) -> None:
    found = outcome(url, attack, stream=attack.endswith("event"))
    assert found["outcome"] == "ModelUnavailable", found
    assert found["mb"] < MOST_MB


def test_an_error_of_digits_does_not_hold_the_daemon(url: str) -> None:
    """Each digit was the beginning of a search that went to the end."""
    assert "too long for openai:test" in outcome(url, "digits-error")["message"]


def test_small_events_without_end_take_no_memory_and_end_with_the_time_of_the_call(url: str) -> None:
    found = outcome(url, "endless-deltas", seconds=2)
    assert (found["outcome"], found["mb"] < MOST_MB) == ("ModelUnavailable", True), found


@pytest.mark.parametrize("kind", ["anthropic", "google", "ollama", "openai-responses"])
def test_the_limits_hold_for_the_libraries_of_all_vendors(url: str, kind: str) -> None:
    expected = {"gzip": "ModelRefused", "endless-line": "ModelRefused", "gzip-error": "ModelUnavailable"}
    found = outcomes(url, [*expected], kind=kind)  # some libraries take seconds to load
    assert {attack: one["outcome"] for attack, one in found.items()} == expected, found
    assert max(one["mb"] for one in found.values()) < MOST_MB


def test_a_decision_is_limited_too(url: str) -> None:
    assert outcome(url, "gzip", purpose="route")["outcome"] == "ModelRefused"


async def test_a_probe_names_a_limit_that_was_exceeded(url: str) -> None:
    """Other refusals show that the server is there."""
    provider = ProviderConfig(name="a", kind="openai", base_url=f"{url}/gzip/v1", api_key="none")
    found = await probe(ModelClientConfig(providers={"a": provider}), "a:test", ["work"])
    assert ["more than 4 MB in one answer" in doubt for doubt in found.doubts] == [True]


def test_a_list_of_models_without_end_is_no_list(url: str) -> None:
    assert [models_of(f"{url}/{attack}/v1") for attack in ("gzip", "endless-body", "deep")] == [None, None, None]


async def test_the_limits_hold_for_a_client_of_the_older_http_library(url: str) -> None:
    """Some vendors' libraries still use it; it decompresses a piece at once.

    The server compresses for two seconds of a processor before its first byte: on a machine with other work that is
    longer than the 5 s for which this library waits by itself.
    """
    async with limit_client(httpx.AsyncClient(timeout=60)) as client:
        with pytest.raises(Exception, match="more than 4 MB"):
            await client.get(f"{url}/gzip-of-gzip/")
        error = await client.get(f"{url}/gzip-error/")
    assert (error.status_code, len(error.content)) == (500, 64 * 1024)


async def test_a_compressed_answer_of_ordinary_size_is_read(url: str) -> None:
    async with limit_client(httpx.AsyncClient()) as client:
        answers = [await client.get(f"{url}/{name}/") for name in ("ordinary-gzip", "ordinary-gzip-of-gzip")]
    assert [answer.json() for answer in answers] == [{"a": "b"}, {"a": "b"}]


async def test_a_connection_is_used_again_after_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = 0
    accept = ModelServer._accept

    def counted(self: ModelServer, *streams: Any) -> Any:
        nonlocal connections
        connections += 1
        return accept(self, *streams)

    monkeypatch.setattr(ModelServer, "_accept", counted)
    async with talking(Answer(text="hello")) as (client, _):
        for _ in range(3):
            assert (await client.step(work())).text == "hello"
    assert connections == 1


async def test_a_long_answer_of_a_token_an_event_is_read_whole() -> None:
    words = " ".join(f"word{number}" for number in range(20_000))
    seen: list[str] = []
    async with talking(Answer(text=words)) as (client, _):
        await client.step(work())  # from now on it is known how the model marks its thoughts
        step = await client.step(work(), seen.append)
    assert step.text == words
    assert seen[-1] == words
    assert sum(map(len, seen)) < 200 * len(words)  # passed on as a whole for each event it would be 10,000 times


async def test_other_work_goes_on_while_a_large_answer_is_read(url: str) -> None:
    """The loop turns between two parts of an answer, even of one that came at once."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    async with limit_client(httpx.AsyncClient()) as client:
        with pytest.raises(Exception, match="more than 4 MB"):
            await client.get(f"{url}/endless-string/")
    turning.cancel()
    assert turns > 4 * 1024 // 16


def test_what_is_limited_is_every_client_a_provider_makes() -> None:
    """One that is made after the first was closed too."""
    provider = make_provider(ProviderConfig(name="a", kind="openai", base_url="http://127.0.0.1:9", api_key="none"))
    assert provider._own_http_client is not None
    assert provider._http_client_factory is not None
    hooks = [made.event_hooks["response"] for made in (provider._own_http_client, provider._http_client_factory())]
    assert [len(hook) for hook in hooks] == [1, 1]
