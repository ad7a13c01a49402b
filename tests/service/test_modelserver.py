"""The model server of these tests, held to the vendor's own client: what it plays is what a vendor sends."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelserver import KEY, ModelServer, model_server

from .kit import ROOT, environment

ANSWER = Answer(
    text="Two words and more of them",
    calls=(Call(tool="read_file", arguments={"path": "a b.txt"}), Call(tool="list_files")),
    reasoning="I had better look first",
)
MESSAGES: Any = [{"role": "user", "content": "three little words"}]


class Replies:
    """A model that gives these in turn, then `ANSWER`."""

    def __init__(self) -> None:
        self.due: list[Reply] = []

    def __call__(self, request: Json) -> Reply:
        return self.due.pop(0) if self.due else ANSWER


@pytest.fixture
def replies() -> Replies:
    return Replies()


@pytest.fixture
async def server(replies: Replies) -> AsyncIterator[ModelServer]:
    async with model_server(replies) as server:
        yield server


@pytest.fixture
async def client(server: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.url, api_key=server.key, max_retries=0, timeout=0.5) as client:
        yield client


async def asked(client: openai.AsyncOpenAI, stream: bool = False) -> tuple[str, list[tuple[str, str]], Any]:
    """Ask once: the text, the calls, and the usage."""
    if not stream:
        whole = await client.chat.completions.create(model="test", messages=MESSAGES)
        message = whole.choices[0].message
        calls: Any = message.tool_calls or []
        return message.content or "", [(c.function.name, c.function.arguments) for c in calls], whole.usage
    text, names, arguments, usage = "", dict[int, str](), dict[int, str](), None
    events = await client.chat.completions.create(
        model="test", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    async for event in events:
        usage = event.usage or usage
        for choice in event.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                assert call.function is not None
                names[call.index] = names.get(call.index, "") + (call.function.name or "")
                arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    return text, [(names[place], arguments[place]) for place in sorted(names)], usage


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_the_same_whole_and_in_pieces(
    server: ModelServer, client: openai.AsyncOpenAI, stream: bool
) -> None:
    text, calls, usage = await asked(client, stream)
    assert text == ANSWER.text
    assert calls == [(call.tool, call.text) for call in ANSWER.calls]
    (exchange,) = server.exchanges
    assert (exchange.outcome, exchange.stream) == ("delivered", stream)
    assert (usage.prompt_tokens, usage.completion_tokens) == (exchange.input_tokens, exchange.output_tokens)
    assert exchange.output_tokens == 6 + 5 + 4 + 2


BAD: list[tuple[Reply, type[Exception], str]] = [
    (Fails(), openai.InternalServerError, "failed"),
    (Fails(status=429, headers={"retry-after": "1"}), openai.RateLimitError, "failed"),
    (Breaks(answer=Answer(text=nonsense(200))), openai.APIConnectionError, "broken"),
    (Breaks(answer=Answer(text=nonsense(200)), stall=True), openai.APITimeoutError, "cut"),
    (Closes(), openai.APIConnectionError, "broken"),
    (Hangs(), openai.APITimeoutError, "cut"),
    (Sends(body=b"<html>"), json.JSONDecodeError, "broken"),
]


@pytest.mark.parametrize("bad", BAD, ids=[type(reply).__name__ for reply, _, _ in BAD])
@pytest.mark.parametrize("stream", [False, True])
async def test_it_misbehaves_as_configured_and_then_no_more(
    server: ModelServer, client: openai.AsyncOpenAI, replies: Replies, bad: Any, stream: bool
) -> None:
    reply, error, outcome = bad
    if not (stream and isinstance(reply, Sends)):  # a stream without an event is an empty one to this client
        replies.due = [reply]
        with pytest.raises(error):
            await asked(client, stream)
        await server.until(lambda s: s.exchanges[0].outcome == outcome)
        assert server.tokens().calls == 0, "what was not delivered costs nothing"
    assert (await asked(client, stream))[0] == ANSWER.text


async def test_its_port_can_be_closed_and_opened(server: ModelServer, client: openai.AsyncOpenAI) -> None:
    assert [model.id for model in (await client.models.list()).data] == ["test"]
    await server.down()
    with pytest.raises(openai.APIConnectionError):
        await asked(client)
    await server.up()
    assert (await asked(client))[0] == ANSWER.text


async def test_it_refuses_what_a_vendor_refuses(server: ModelServer, client: openai.AsyncOpenAI) -> None:
    """A wrong key, and calls without results: faults of ours that a lenient server would hide."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    open_call: Any = [*MESSAGES, {"role": "assistant", "tool_calls": [call]}, *MESSAGES]
    with pytest.raises(openai.BadRequestError, match="did not have response messages"):
        await client.chat.completions.create(model="test", messages=open_call)
    assert len(server.refused) == 1
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="wrong").models.list()


async def test_a_script_that_fails_fails_the_test() -> None:
    def broken(request: Json) -> Reply:
        raise ValueError("no idea")

    server = ModelServer(broken)
    await server.up()
    async with openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.InternalServerError):
            await asked(client)
    with pytest.raises(ExceptionGroup, match="a script of the model server failed"):
        await server.close()


async def test_it_serves_in_a_process_of_its_own() -> None:
    """The url on its first line, then one line for each exchange."""
    words = [sys.executable, "-m", "tests.fakes.modelserver", "tests.fakes.modelscripts:team"]
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            system: Any = {"role": "system", "content": "You are Ada (`ada`), an agent.\n\n# The phase: chat\n"}
            await client.chat.completions.create(model="test", messages=[system, *MESSAGES])
        line = json.loads(await process.stdout.readline())
        assert (line["id"], line["outcome"]) == ("chatcmpl-1", "delivered")
    finally:
        process.kill()
        await process.wait()
