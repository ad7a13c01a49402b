"""A request that is too large for a model's window is cut to what fits and asked again, and refused if it cannot."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenex.core.context.window import request_tokens, squeezed
from tenex.core.errors import ModelRefused
from tenex.core.messages import CallResult, Entry, Note, UserText
from tenex.llm.config import ProviderConfig
from tests.fakes.modelprotocol import Answer, Fails, Json, Reply

from .clients import NAME, WRITE, called, client_for, talking, work
from .otherservers import Request, anthropic, google, serving

WINDOW = 2_000
SYSTEM = "You are a test. " * 20


def size(request: Json) -> int:
    """Tokens as the server counts them, not as they are estimated."""
    return len(json.dumps(request)) // 3


def long_run(texts: int = 12, each: int = 2_000) -> list[Entry]:
    made: list[Entry] = [UserText(author="Ada", text="Read all of it.")]
    for number in range(texts):
        made += [
            called(f"c{number}"),
            CallResult(id=called(f"c{number}").calls[0].id, tool="read", ok=True, content=f"{number} " * (each // 3)),
        ]
    return made


ANSWERS: dict[str, tuple[int, dict[str, Any]]] = {
    "openai": (
        400,
        {
            "message": "This model's maximum context length is {w} tokens. However, your messages resulted in "
            "{n} tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
    ),
    "openai-newer": (
        400,
        {
            "message": "Input tokens exceed the configured limit of {w} tokens. Your messages resulted "
            "in {n} tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
    ),
    "openai-without-numbers": (
        400,
        {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "code": "context_length_exceeded",
        },
    ),
    "openai-tokens-a-minute": (
        429,
        {
            "message": "Request too large for model in organization x on tokens per min "
            "(TPM): Limit {w}, Requested {n}.",
            "code": "rate_limit_exceeded",
        },
    ),
    "vllm": (
        400,
        {
            "message": "This model's maximum context length is {w} tokens. However, you requested {n} tokens "
            "({n} in the messages, 0 in the completion). Please reduce the length of the messages or "
            "completion.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "vllm-newer": (
        400,
        {
            "message": "You passed {n} input tokens and requested 100 output tokens. However, the model's "
            "context length is only {w} tokens, resulting in a maximum input length of 1900 tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "vllm-engine": (
        400,
        {
            "message": "The decoder prompt (length {n}) is longer than the maximum model length of {w}.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (
        400,
        {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": "{n}",
            "n_ctx": "{w}",
        },
    ),
    "llama.cpp-as-500": (
        500,
        {
            "code": 500,
            "message": "the request exceeds the available context size. try increasing "
            "the context size or enable context shift",
            "type": "server_error",
        },
    ),
    "llama.cpp-newer": (
        400,
        {
            "code": 400,
            "message": "request ({n} tokens) exceeds the available context size ({w} tokens), try increasing it",
            "type": "exceed_context_size_error",
        },
    ),
    "llama-cpp-python": (400, {"message": "Requested tokens ({n}) exceed context window of {w}"}),
    "ollama": (400, {"message": "the input length exceeds the context length", "type": "invalid_request_error"}),
    "ollama-cloud": (400, {"message": "prompt too long; exceeded max context length by {o} tokens"}),
    "lm-studio": (
        400,
        {
            "message": "Trying to keep the first {n} tokens when context the overflows. However, the model "
            "is loaded with context length of only {w} tokens, which is not enough."
        },
    ),
    "openrouter": (
        400,
        {
            "message": "This endpoint's maximum context length is {w} tokens. However, you requested "
            "about {n} tokens ({n} of text input, 0 in the output).",
            "code": 400,
        },
    ),
    "mistral": (
        400,
        {
            "message": "Prompt contains {n} tokens and 0 draft tokens, too large for model with {w} maximum "
            "context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
}


def refusal(name: str, tokens: int) -> tuple[int, bytes]:
    status, error = ANSWERS[name]

    def filled(value: Any) -> Any:
        if value in ("{n}", "{w}"):
            return tokens if value == "{n}" else WINDOW
        return value.format(n=tokens, w=WINDOW, o=tokens - WINDOW) if isinstance(value, str) else value

    return status, json.dumps({"error": {key: filled(value) for key, value in error.items()}}).encode()


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_request_that_is_too_large_is_cut_to_what_fits(name: str) -> None:
    def answering(request: Request) -> tuple[int, str, bytes]:
        tokens = size(request.body)
        if tokens > WINDOW:
            status, body = refusal(name, tokens)
            return status, "application/json", body
        message = {"role": "assistant", "content": "I have read it."}
        whole = {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "id": "x",
            "model": "m",
            "created": 1,
            "object": "chat.completion",
        }
        return 200, "application/json", json.dumps(whole).encode()

    entries = long_run()
    async with serving(answering) as served:
        client = client_for(ProviderConfig(name="local", kind="openai", base_url=served.url, api_key="k"), stream=False)
        with capture_logs() as logs:
            step = await client.step(work(*entries, tools=(WRITE,), system=SYSTEM))
        tries = len(served.requests)
        entries += [step, UserText(author="Ada", text="Good.")]
        await client.step(work(*entries, tools=(WRITE,), system=SYSTEM))
        await client.close()
    assert step.text == "I have read it."
    assert 2 <= tries <= 5
    assert len(served.requests) == tries + 1, "what fits was forgotten"
    assert [log["event"] for log in logs].count("model.request_changed") == 1
    assert "Read all of it." in json.dumps(served.requests[-1].body)


@pytest.mark.parametrize(
    ("kind", "model", "error", "answer"),
    [
        (
            "anthropic",
            "claude-sonnet-4-6",
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "prompt is too long: {n} tokens > {w} maximum"},
            },
            anthropic,
        ),
        (
            "anthropic",
            "claude-sonnet-4-6",
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "input length and `max_tokens` exceed context limit: {n} + 50 > {w}, "
                    "decrease input length or `max_tokens` and try again",
                },
            },
            anthropic,
        ),
        (
            "google",
            "gemini-2.5-pro",
            {
                "error": {
                    "code": 400,
                    "status": "INVALID_ARGUMENT",
                    "message": "The input token count ({n}) exceeds the maximum number of tokens allowed ({w}).",
                }
            },
            google,
        ),
    ],
)
async def test_vendors_report_an_overflow_in_their_own_protocols(
    kind: str, model: str, error: Json, answer: Any
) -> None:
    def answering(request: Request) -> tuple[int, str, bytes]:
        tokens = size(request.body)
        if tokens <= WINDOW:
            taken: tuple[int, str, bytes] = answer(request)
            return taken
        return (
            400,
            "application/json",
            json.dumps(error).replace("{n}", str(tokens)).replace("{w}", f"{WINDOW}").encode(),
        )

    async with serving(answering) as served:
        client = client_for(
            ProviderConfig(name="x", kind=kind, base_url=served.url, api_key="k"), chain=(f"x:{model}",)
        )
        assert (await client.step(work(*long_run(), tools=(WRITE,), system=SYSTEM))).calls
        await client.close()
    assert 2 <= len(served.requests) <= 5


async def test_a_request_that_cannot_be_cut_is_refused_with_what_to_do() -> None:
    """The system prompt and the tools alone are too much: nothing may be left out of them."""

    def respond(request: Json) -> Reply:
        return Fails(status=400, message="the request exceeds the available context size, try increasing it")

    async with talking(respond) as (client, server):
        with pytest.raises(ModelRefused, match="too long for local:test") as caught:
            await client.step(work(*long_run(1), tools=(WRITE,), system="x" * 40_000))
    assert "models.context_tokens" in str(caught.value)
    assert len(server.exchanges) <= 3


async def test_a_server_that_takes_nothing_is_not_asked_for_ever() -> None:
    """It names a limit a little below whatever it was sent."""

    def respond(request: Json) -> Reply:
        return Fails(status=400, message=f"prompt is too long: {size(request)} tokens > {size(request) - 1} maximum")

    async with talking(respond) as (client, server):
        with pytest.raises(ModelRefused):
            await client.step(work(*long_run(30)))
    assert len(server.exchanges) <= 6


async def test_an_answer_that_alone_would_fill_the_window_is_not_asked_for_again() -> None:
    message = (
        "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 500 "
        "input tokens (9000 > 8192 - 500)."
    )
    async with talking(lambda _request: Fails(status=400, message=message)) as (client, server):
        with pytest.raises(ModelRefused, match=r"models\.max_output_tokens"):
            await client.step(work(*long_run()))
    assert len(server.exchanges) == 1


async def test_a_long_message_of_a_person_is_cut_where_nothing_else_can_be() -> None:
    def respond(request: Json) -> Reply:
        if size(request) > WINDOW:
            return Fails(status=400, message="the input length exceeds the context length")
        return Answer(text="Short.")

    async with talking(respond, chain=(NAME,)) as (client, server):
        await client.step(work(UserText(author="Ada", text="begin " + "x" * 30_000 + " end")))
    sent = json.dumps(server.exchanges[-1].request)
    assert "begin" in sent
    assert "end\\n" in sent
    assert "characters left out" in sent


def test_squeezed_entries_fit_as_long_as_there_is_room_for_them() -> None:
    entries = (UserText(author="Ada", text="a" * 9_000), Note(title="Summary", text="b" * 50_000), *long_run(3))
    for budget in (20_000, 5_000, 1_500):
        shown = squeezed(SYSTEM, entries, (WRITE,), budget)
        assert len(shown) == len(entries)
        assert request_tokens(SYSTEM, shown, (WRITE,)) <= budget
    assert squeezed(SYSTEM, entries, (WRITE,), 10**6) == entries
