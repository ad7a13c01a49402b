"""An agent's requests to models: passed on with the key of the settings, measured, and kept to models and limits.

The vendors' own clients speak with the proxy, and a server on loopback speaks their protocols.
"""

import asyncio
import gzip
import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors, types

from tenex.core.effects import Work
from tenex.core.messages import Usage
from tenex.core.work.fair_queue import STEP, Step
from tenex.features.acp_agents import proxy as proxy_module
from tenex.features.acp_agents.proxy import Proxy, Remaining
from tenex.llm.client import ModelClient
from tenex.llm.scripted.model import OfflineModel

from .proxy_kit import CHAT, CLAUDE, COST, GEMINI, PRICE, config_for, proxy, with_provider
from .vendor_server import (
    CACHED,
    INPUT,
    KEY,
    OUTPUT,
    Sent,
    Talk,
    answer,
    answers,
    chat_chunks,
    message,
    message_events,
    vendor_server,
)

HELLO: Any = [{"role": "user", "content": "Say hello."}]
OWN_KEY = "sk-of-the-agent"


def by_openai(made: Proxy) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=made.addresses["openai"], api_key=OWN_KEY, max_retries=0)


def by_anthropic(made: Proxy) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=made.addresses["anthropic"], api_key=OWN_KEY, max_retries=0)


def by_google(made: Proxy) -> Any:
    options = types.HttpOptions(base_url=made.addresses["google"])
    return genai.Client(api_key=OWN_KEY, http_options=options).aio


async def ask_gemini(made: Proxy, model: str = "test-gemini") -> Any:
    async with by_google(made) as client:
        return await client.models.generate_content(model=model, contents="Say hello, and nothing else to me.")


async def ask_chat(made: Proxy, **more: Any) -> Any:
    async with by_openai(made) as client:
        return await client.chat.completions.create(model="test-chat", messages=HELLO, **more)


async def ask_claude(made: Proxy, model: str = "test-claude", **more: Any) -> Any:
    async with by_anthropic(made) as client:
        return await client.messages.create(model=model, messages=HELLO, max_tokens=100, **more)


async def by_chat(made: Proxy) -> str:
    return (await ask_chat(made)).choices[0].message.content or ""


async def by_chat_stream(made: Proxy) -> str:
    async with by_openai(made) as client:
        stream = await client.chat.completions.create(model="test-chat", messages=HELLO, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def by_responses(made: Proxy) -> str:
    async with by_openai(made) as client:
        return (await client.responses.create(model="test-chat", input="Say hello.")).output_text


async def by_responses_stream(made: Proxy) -> str:
    async with by_openai(made) as client:
        stream = await client.responses.create(model="test-chat", input="Say hello.", stream=True)
        events = [event async for event in stream]
        if events[-1].type == "error":  # the client gives it as an event
            raise openai.APIError(events[-1].message, httpx2.Request("POST", ""), body=None)
        return "".join([event.delta for event in events if event.type == "response.output_text.delta"])


async def by_messages(made: Proxy) -> str:
    return str((await ask_claude(made)).content[0].text)


async def by_messages_stream(made: Proxy) -> str:
    async with (
        by_anthropic(made) as client,
        client.messages.stream(model="test-claude", messages=HELLO, max_tokens=100) as stream,
    ):
        return "".join([text async for text in stream.text_stream])


async def by_generate(made: Proxy) -> str:
    return (await ask_gemini(made)).text or ""


async def by_generate_stream(made: Proxy) -> str:
    async with by_google(made) as client:
        stream = await client.models.generate_content_stream(model="test-gemini", contents="Say hello.")
        return "".join([chunk.text or "" async for chunk in stream])


WAYS = [
    (by_chat, CHAT),
    (by_chat_stream, CHAT),
    (by_responses, CHAT),
    (by_responses_stream, CHAT),
    (by_messages, CLAUDE),
    (by_messages_stream, CLAUDE),
    (by_generate, GEMINI),
    (by_generate_stream, GEMINI),
]


@pytest.mark.parametrize(("ask", "model"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_the_answer_passes_and_what_the_server_reports_is_measured(ask: Any, model: str) -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made:
        assert await ask(made) == "Hello"
        used = made.taken()
        assert made.taken() == {}, "it is taken once"
    cost: Any = pytest.approx(COST)
    assert used == {model: Usage(input_tokens=INPUT, output_tokens=OUTPUT, cost_usd=cost, cache_read_tokens=CACHED)}
    (sent,) = server.requests
    assert OWN_KEY not in str(sent), "its own key goes nowhere"
    assert KEY in str(sent.headers)


async def test_usage_is_asked_for_and_not_shown_to_who_did_not_ask() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, by_openai(made) as client:
        for wanted in (False, True):
            options: Any = {"stream_options": {"include_usage": True}} if wanted else {}
            stream = await client.chat.completions.create(model="test-chat", messages=HELLO, stream=True, **options)
            reported = [chunk.usage for chunk in [chunk async for chunk in stream] if chunk.usage is not None]
            assert len(reported) == wanted
        assert made.taken()[CHAT].calls == 2
    assert all(sent.body["stream_options"] == {"include_usage": True} for sent in server.requests)


async def test_a_server_without_that_option_is_asked_without_it_and_estimated() -> None:
    async def strict(talk: Talk, sent: Sent) -> None:
        if "stream_options" in sent.body:
            await talk.json({"error": {"message": "extra fields not permitted: stream_options"}}, status=422)
            return
        await talk.begin_events()
        for chunk in chat_chunks(sent):
            await talk.event(chunk)
        await talk.end_events()

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = strict
        assert await by_chat_stream(made) == "Hello"
        assert await by_chat_stream(made) == "Hello"
        used = made.taken()[CHAT]
    assert ["stream_options" in sent.body for sent in server.requests] == [True, False, False]
    assert used.calls == 2
    assert used.estimated == used.tokens > 0


async def test_counting_tokens_passes_and_costs_nothing() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, by_anthropic(made) as client:
        counted = await client.messages.count_tokens(model="test-claude", messages=HELLO)
        assert counted.input_tokens == INPUT
        async with by_google(made) as google:
            assert (await google.models.count_tokens(model="test-gemini", contents="x")).total_tokens == INPUT
        assert made.taken() == {}


async def test_events_pass_before_the_answer_is_complete() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, by_anthropic(made) as client:
        seen = asyncio.Event()

        async def reply(talk: Talk, sent: Sent) -> None:
            first, *rest = message_events(sent.body["model"])
            await talk.begin_events()
            await talk.event(first, first["type"])
            await talk.unless_gone(seen.wait())
            for event in rest:
                await talk.event(event, event["type"])
            await talk.end_events()

        server.reply = reply
        stream = await client.messages.create(model="test-claude", messages=HELLO, max_tokens=9, stream=True)
        async with asyncio.timeout(20):
            assert (await anext(aiter(stream))).type == "message_start"
            seen.set()
            assert [event.type async for event in stream][-1] == "message_stop"


# ---- what is refused ----------------------------------------------------------------------------------------------


async def test_only_models_of_the_file_are_asked() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made:
        assert await ask_claude(made, "test-small") is not None
        with pytest.raises(anthropic.NotFoundError, match=r"does not name the model .*It may use test-claude, test-sm"):
            await ask_claude(made, "test-large")
        with pytest.raises(openai.NotFoundError, match="does not name the model"):
            async with by_openai(made) as client:
                await client.chat.completions.create(model="test-claude", messages=HELLO)
        with pytest.raises(errors.ClientError, match="does not name the model"):
            await ask_gemini(made, "other")
    assert len(server.requests) == 1


HOSTED: list[tuple[str, dict[str, Any], str]] = [
    ("openai/responses", {"model": "test-chat", "input": "x", "tools": [{"type": "web_search"}]}, "web_search"),
    ("openai/responses", {"model": "test-chat", "input": "x", "background": True}, "background"),
    (
        "openai/chat/completions",
        {"model": "test-chat", "messages": HELLO, "web_search_options": {"a": 1}},
        "web_search",
    ),
    ("anthropic/v1/messages", {"model": "test-claude", "tools": [{"type": "web_fetch_20250910"}]}, "web_fetch"),
    ("anthropic/v1/messages", {"model": "test-claude", "mcp_servers": [{"url": "https://a.example"}]}, "mcp_servers"),
    ("google/v1beta/models/test-gemini:generateContent", {"tools": [{"urlContext": {}}]}, "urlContext"),
    (
        "anthropic/v1/messages",
        {"model": "test-claude", "messages": [{"content": [{"source": {"type": "url", "url": "http://a/"}}]}]},
        "http://a/",
    ),
    (
        "openai/responses",
        {"model": "test-chat", "input": [{"content": [{"type": "input_image", "image_url": "https://a/"}]}]},
        "https://a/",
    ),
    (
        "openai/chat/completions",
        {"model": "test-chat", "messages": [{"content": [{"image_url": {"url": "https://b/"}}]}]},
        "https://b/",
    ),
    (
        "google/v1beta/models/test-gemini:generateContent",
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://c/"}}]}]},
        "https://c/",
    ),
]


@pytest.mark.parametrize(("path", "body", "named"), HOSTED)
async def test_nothing_is_run_or_fetched_by_the_provider(path: str, body: dict[str, Any], named: str) -> None:
    vendor, _, rest = path.partition("/")
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient() as client:
        answer = await client.post(f"{made.addresses[vendor]}/{rest}", json=body)
        assert answer.status_code == 403
        assert named in answer.json()["error"]["message"]
    assert server.requests == []


LOCAL: list[tuple[str, dict[str, Any]]] = [
    ("openai/responses", {"model": "test-chat", "input": "x", "tools": [{"type": "function"}, {"type": "custom"}]}),
    ("openai/chat/completions", {"model": "test-chat", "messages": HELLO, "tools": [{"type": "function"}]}),
    ("anthropic/v1/messages", {"model": "test-claude", "tools": [{"name": "a"}, {"type": "bash_20250124"}]}),
    (
        "anthropic/v1/messages",
        {
            "model": "test-claude",
            "messages": [{"content": [{"type": "tool_use", "input": {"image_url": "https://a/"}}]}],
            "tools": [{"name": "a", "input_schema": {"properties": {"image_url": {"url": "https://a/"}}}}],
        },
    ),
    (
        "openai/chat/completions",
        {"model": "test-chat", "messages": [{"content": [{"image_url": {"url": "data:image/png;base64,AA"}}]}]},
    ),
]


@pytest.mark.parametrize(("path", "body"), LOCAL)
async def test_tools_of_the_agent_itself_and_its_own_files_pass(path: str, body: dict[str, Any]) -> None:
    vendor, _, rest = path.partition("/")
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient() as client:
        answer = await client.post(f"{made.addresses[vendor]}/{rest}", json=body)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "names no model"),
        (b"[" * 100_000, "no JSON object"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(body: bytes, said: str) -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient() as client:
        answer = await client.post(f"{made.addresses['openai']}/chat/completions", content=body)
        assert answer.status_code == 400
        assert said in answer.json()["error"]["message"]


async def test_a_name_that_is_there_twice_is_sent_as_it_was_judged() -> None:
    body = b'{"model": "test-large", "model": "test-chat", "messages": []}'
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient() as client:
        await client.post(f"{made.addresses['openai']}/chat/completions", content=body)
    assert server.requests[0].body["model"] == "test-chat"


async def test_other_paths_and_secrets_find_nothing() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient() as client:
        address = made.addresses["openai"]
        secret = address.split("/")[3]
        for path in ("/", "/x", f"/{secret}", f"/{secret}/other", address.replace(secret, "x" * 22)):
            assert (await client.post(httpx2.URL(address).join(path), json={})).status_code == 404
        assert (await client.get(f"{address}/models")).status_code == 404
        assert (await client.post(f"{address}/files", json={"model": "test-chat"})).status_code == 404
        assert (await client.post(f"{made.addresses['google']}/v1beta/models/../x", json={})).status_code == 404
    assert server.requests == []


@pytest.mark.parametrize(
    "left", [Remaining(tokens=0), Remaining(tokens=10), Remaining(cost_usd=0.0), Remaining(cost_usd=0.000_001)]
)
async def test_nothing_is_asked_beyond_the_limits_of_the_run(left: Remaining) -> None:
    async with vendor_server() as server, proxy(config_for(server), remaining=left) as made:
        with pytest.raises(anthropic.APIStatusError, match="limit of tokens or money") as refused:
            await ask_claude(made)
        assert refused.value.status_code == 402
        assert refused.value.response.headers["x-should-retry"] == "false", "clients do not repeat it"
        with pytest.raises(openai.APIStatusError, match="limit of tokens or money"):
            await ask_chat(made)
        with pytest.raises(errors.ClientError, match="limit of tokens or money"):
            await ask_gemini(made)
    assert server.requests == []


async def test_what_was_used_counts_until_it_is_taken() -> None:
    async with vendor_server() as server, proxy(config_for(server), remaining=Remaining(tokens=1_060)) as made:
        await ask_claude(made)
        with pytest.raises(anthropic.APIStatusError, match="limit"):
            await ask_claude(made)
        assert made.taken()[CLAUDE].tokens == INPUT + OUTPUT
        await ask_claude(made)


async def test_requests_under_way_count() -> None:
    held = asyncio.Event()

    async def reply(talk: Talk, _: Sent) -> None:
        held.set()
        await talk.unless_gone(asyncio.Event().wait())

    async with vendor_server() as server, proxy(config_for(server), remaining=Remaining(tokens=200)) as made:
        server.reply = reply
        body = {"model": "test-claude", "messages": [{"role": "user", "content": "x" * 600}]}
        async with httpx2.AsyncClient(timeout=30) as client:
            first = asyncio.create_task(client.post(f"{made.addresses['anthropic']}/v1/messages", json=body))
            await held.wait()
            second = await client.post(f"{made.addresses['anthropic']}/v1/messages", json=body)
            first.cancel()
            await asyncio.wait((first,))
        assert second.status_code == 402
        await server.gone.wait()


async def test_requests_wait_in_the_queue_of_our_own_calls() -> None:
    async with vendor_server() as server:
        config = with_provider(config_for(server), "claude", concurrency=1)
        client = ModelClient(config, lambda *_: (), OfflineModel())
        async with proxy(config, queue_of=client.queue) as made:
            async with client.queue("claude").turn():
                asking = asyncio.create_task(by_messages(made))
                async with asyncio.timeout(20):
                    while client.queue("claude").waiting == 0:
                        await asyncio.sleep(0)
                assert server.requests == []
            assert await asking == "Hello"

            client.queue("claude").pause(60.5, CLAUDE)
            with pytest.raises(anthropic.RateLimitError, match="asked to wait") as refused:
                await ask_claude(made)
            assert refused.value.response.headers["retry-after"] == "61"


async def test_a_pause_that_a_server_asks_for_is_kept() -> None:
    async def reply(talk: Talk, _: Sent) -> None:
        await talk.json({"error": {"message": "slow down"}}, status=429, headers={"retry-after": "90"})

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        for _ in range(2):
            with pytest.raises(anthropic.RateLimitError):
                await ask_claude(made)
        assert len(server.requests) == 1
        server.reply = answer
        assert (await ask_claude(made, "test-small")).content, "another model may be asked"


async def test_the_step_in_which_the_proxy_was_started_is_not_marked_as_waiting() -> None:
    step = Step(Work.MODEL, begin=lambda: pytest.fail("it has begun already"))
    STEP.set(step)
    async with vendor_server() as server, proxy(config_for(server)) as made:
        assert await by_messages(made) == "Hello"
    assert STEP.get() is step


# ---- what goes wrong ----------------------------------------------------------------------------------------------


async def test_an_error_passes_with_when_to_try_again_and_costs_nothing() -> None:
    async def reply(talk: Talk, _: Sent) -> None:
        error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
        given = {"retry-after": "7", "anthropic-ratelimit-requests-remaining": "0", "set-cookie": "a=b"}
        await talk.json(error, status=429, headers=given)

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        with pytest.raises(anthropic.RateLimitError, match="slow down") as failed:
            await ask_claude(made)
        headers = failed.value.response.headers
        assert (headers["retry-after"], headers["anthropic-ratelimit-requests-remaining"]) == ("7", "0")
        assert "set-cookie" not in headers
        assert made.taken() == {}


async def test_a_failure_of_the_server_passes() -> None:
    async def reply(talk: Talk, _: Sent) -> None:
        await talk.json({"error": {"message": "it fell over"}}, status=500)

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        with pytest.raises(openai.InternalServerError, match="it fell over"):
            await ask_chat(made)


async def test_a_server_that_is_away_is_named_in_the_vendors_form() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made:
        await server.down()
        with pytest.raises(anthropic.InternalServerError, match="claude:test-claude: its server could not be reached"):
            await ask_claude(made)
        with pytest.raises(openai.InternalServerError, match="could not be reached"):
            await ask_chat(made)
        with pytest.raises(errors.ServerError, match="could not be reached"):
            await ask_gemini(made)
        assert made.taken() == {}
        await server.up()
        assert await by_messages(made) == "Hello"


async def test_a_refused_key_is_the_operators_and_no_part_of_it_is_shown() -> None:
    async with vendor_server() as server, proxy(config_for(server, key="sk-wrong-key")) as made:
        with pytest.raises(openai.AuthenticationError, match=r"correct models\.providers\.gpt") as refused:
            await ask_chat(made)
        assert "sk-wrong" not in str(refused.value.response.text)
        with pytest.raises(anthropic.AuthenticationError, match=r"correct models\.providers\.claude"):
            await ask_claude(made)
        assert made.taken() == {}


async def test_a_key_that_was_corrected_is_taken_at_once() -> None:
    async with vendor_server() as server:
        corrected = config_for(server)
        old = config_for(server, key="sk-old", read_again=lambda provider: corrected.providers[provider.name])
        async with proxy(old) as made:
            assert await by_chat(made) == "Hello"
            assert await by_chat(made) == "Hello"
        assert len(server.requests) == 3, "refused once"


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (by_chat_stream, openai.APIError),
        (by_responses_stream, openai.APIError),
        (by_messages_stream, anthropic.APIError),
    ],
)
async def test_a_stream_that_is_cut_ends_with_an_error_and_counts(ask: Any, error: type[Exception]) -> None:
    async def reply(talk: Talk, sent: Sent) -> None:
        await talk.begin_events()
        _, events = answers(sent)
        for event in events[: -2 if len(events) > 3 else -1]:
            await talk.event(event, event.get("type", ""))
        await talk.close()

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        with pytest.raises(error, match="broke off"):
            await ask(made)
        (used,) = made.taken().values()
    assert used.input_tokens > 0
    assert used.output_tokens > 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [(by_messages, "within 0.5 s, which models.timeout sets"), (by_messages_stream, "fell silent within its answer")],
    ids=["whole", "stream"],
)
async def test_silence_ends_in_time(ask: Any, said: str) -> None:
    async def reply(talk: Talk, sent: Sent) -> None:
        if sent.body.get("stream"):
            await talk.begin_events()
            await talk.event(message_events("m")[0], "message_start")
        await talk.unless_gone(asyncio.Event().wait())

    async with vendor_server() as server, proxy(config_for(server, timeout=0.5, idle_timeout=0.2)) as made:
        server.reply = reply
        with pytest.raises(anthropic.APIError, match=said):
            await ask(made)
        async with asyncio.timeout(20):
            await server.gone.wait()
        assert made.taken()[CLAUDE].input_tokens > 0, "the server had read it"


async def test_an_agent_that_leaves_ends_the_request_and_pays() -> None:
    for is_streamed in (True, False):
        began = asyncio.Event()

        async def reply(talk: Talk, sent: Sent, began: asyncio.Event = began) -> None:
            if sent.body.get("stream"):
                await talk.begin_events()
                await talk.event(message_events("m")[0], "message_start")
            began.set()
            await talk.unless_gone(asyncio.Event().wait())

        async with vendor_server() as server, proxy(config_for(server)) as made:
            server.reply = reply
            asking = asyncio.create_task(ask_claude(made, stream=is_streamed))
            await began.wait()
            if is_streamed:
                stream = await asking
                await stream.close()
            else:
                asking.cancel()
                await asyncio.wait((asking,))
            async with asyncio.timeout(20):
                await server.gone.wait()
                while not (used := made.taken()):
                    await asyncio.sleep(0)
            assert used[CLAUDE].input_tokens == (INPUT if is_streamed else used[CLAUDE].estimated)


async def test_closing_ends_requests_and_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()

    async def reply(talk: Talk, _: Sent) -> None:
        began.set()
        await talk.unless_gone(asyncio.Event().wait())

    async with vendor_server() as server:
        server.reply = reply
        async with proxy(config_for(server)) as made:
            asking = asyncio.create_task(ask_claude(made))
            await began.wait()
        async with asyncio.timeout(20):
            await server.gone.wait()
        assert made.taken()[CLAUDE].input_tokens > 0
        with pytest.raises(anthropic.APIError):
            await asking
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_an_answer_that_is_too_large_is_not_passed_on() -> None:
    async def reply(talk: Talk, _: Sent) -> None:
        await talk.send(b'{"text": "' + b"x" * 5_000_000 + b'"}')

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        with pytest.raises(anthropic.InternalServerError, match="more than 4 MB"):
            await ask_claude(made)


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient(timeout=60) as client:
        body = json.dumps({"model": "test-claude", "x": "y" * 33 * 1024 * 1024})
        answer = await client.post(f"{made.addresses['anthropic']}/v1/messages", content=body)
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"


async def test_a_request_of_many_values_is_refused() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient(timeout=60) as client:
        body = b'{"model": "test-claude", "x": [' + b"[]," * 600_000 + b"1]}"
        answer = await client.post(f"{made.addresses['anthropic']}/v1/messages", content=body)
        assert answer.status_code == 413
        assert "values" in answer.json()["error"]["message"]


async def test_many_large_requests_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_HELD", 2_500)

    async def reply(talk: Talk, _: Sent) -> None:
        await talk.unless_gone(asyncio.Event().wait())

    async with vendor_server() as server, proxy(config_for(server)) as made, httpx2.AsyncClient(timeout=60) as client:
        server.reply = reply
        body = {"model": "test-claude", "x": "y" * 1_000}
        asking = [
            asyncio.create_task(client.post(f"{made.addresses['anthropic']}/v1/messages", json=body)) for _ in range(3)
        ]
        async with asyncio.timeout(20):
            done, pending = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        assert refused.result().status_code == 429
        assert refused.result().headers["retry-after"] == "1"
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        server.reply = answer
        async with asyncio.timeout(20):  # until the proxy has seen that they have left
            while (await client.post(f"{made.addresses['anthropic']}/v1/messages", json=body)).status_code != 200:
                await asyncio.sleep(0)


async def test_a_compressed_answer_is_read_and_passed_on_plain() -> None:
    async def reply(talk: Talk, sent: Sent) -> None:
        assert "gzip" in sent.headers["accept-encoding"]
        await talk.send(gzip.compress(json.dumps(message("m")).encode()), headers={"content-encoding": "gzip"})

    async with vendor_server() as server, proxy(config_for(server)) as made:
        server.reply = reply
        assert await by_messages(made) == "Hello"
        assert made.taken()[CLAUDE].input_tokens == INPUT


async def test_a_web_page_or_a_redirect_is_not_passed_on() -> None:
    async def page(talk: Talk, _: Sent) -> None:
        await talk.send(b"<html>", content_type="text/html")

    async def redirect(talk: Talk, _: Sent) -> None:
        await talk.send(b"", status=302, headers={"location": "http://127.0.0.1:1/"})

    async with vendor_server() as server, proxy(config_for(server)) as made:
        for reply, said in ((page, "a web page"), (redirect, "a redirect")):
            server.reply = reply
            with pytest.raises(anthropic.InternalServerError, match=said):
                await ask_claude(made)


async def test_a_provider_without_prices_or_key_counts_tokens() -> None:
    async with vendor_server() as server:
        server.key = "none"
        config = config_for(server, prices={CHAT: PRICE})
        async with proxy(with_provider(config, "claude", api_key=None)) as made:
            await ask_claude(made)
            assert made.taken()[CLAUDE].cost_usd is None
