"""A request that is too large for a model's window is cut to what fits and asked again, and refused if it cannot."""

import json
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import exceptions as library
from structlog.testing import capture_logs

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import fitted, request_tokens
from tenex.core.messages import CallResult, Entry, UserText
from tenex.llm.overflow import Overflow, overflow
from tests.fakes.modelprotocol import Answer, Call, Fails, Json, Reply, Sends

from .clients import WRITE, asked, called, talking, vendor, work
from .otherservers import Request, anthropic, google

WINDOW = 2_000
SYSTEM = "You are a test. " * 20
TEXTS = (
    "This model's maximum context length is 2000 tokens. However, your messages resulted in 2,600 tokens.",
    "Input tokens exceed the configured limit of 2000 tokens. Your messages resulted in 2600 tokens.",
    "Request too large for model in organization x on tokens per min (TPM): Limit 2000, Requested 2600.",
    "maximum context length is 2000 tokens. However, you requested 2600 tokens (2600 in messages, 0 in the answer).",
    "The decoder prompt (length 2600) is longer than the maximum model length of 2000.",
    "request (2600 tokens) exceeds the available context size (2000 tokens), try increasing it",
    "Requested tokens (2600) exceed context window of 2000",
    "keep the first 2600 tokens when context the overflows. The model is loaded with context length of only 2000",
    "maximum context length is 2000 tokens. However, you requested about 2600 tokens (2600 of text, 0 in the output)",
    "Prompt contains 2600 tokens and 0 draft tokens, too large for model with 2000 maximum context length",
    "prompt is too long: 2600 tokens > 2000 maximum",
    "prompt token count of 2600 exceeds the limit of 2000",
    "The input token count (2600) exceeds the maximum number of tokens allowed (2000).",
)
"""What servers of all kinds write, with the limit and the tokens that were sent."""
WITH_ANSWER = {
    "You passed 2600 input tokens and requested 100 output tokens. However, the model's context length is only 2000 "
    "tokens, resulting in a maximum input length of 1900 tokens.": 100,
    "input length and `max_tokens` exceed context limit: 2600 + 50 > 2000": 50,
}
"""Likewise, with the tokens of the answer."""
WITHOUT_NUMBERS = (
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "the request exceeds the available context size. try increasing the context size",
    "the input length exceeds the context length",
    "prompt too long; exceeded max context length by 600 tokens",
    "Context size has been exceeded.",
    "Input is longer than what this deployment takes",
    "There are too many tokens in this conversation",
)


@pytest.mark.parametrize("text", [*TEXTS, *WITH_ANSWER, *WITHOUT_NUMBERS])
def test_the_numbers_of_an_overflow_are_read_from_what_servers_write(text: str) -> None:
    found = Overflow() if text in WITHOUT_NUMBERS else Overflow(2000, 2600, WITH_ANSWER.get(text, 0))
    for body in ({"message": text}, {"error": {"message": text}}, text):
        assert overflow(library.ModelHTTPError(400, "m", body=body)) == found


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Rate limit reached: tokens per minute limit exceeded"),
        (429, "You exceeded your current quota"),
        (400, "max_tokens is too large: 9000. This model supports at most 4096 completion tokens"),
        (400, "Unsupported parameter: 'max_tokens'"),
        (401, "the token has exceeded its lifetime"),
    ],
)
def test_a_limit_of_another_kind_is_no_overflow(status: int, message: str) -> None:
    assert overflow(library.ModelHTTPError(status, "m", body={"message": message})) is None


@pytest.mark.parametrize(
    ("status", "body", "window"),
    [
        (
            413,
            {
                "error": {
                    "code": "tokens_limit_reached",
                    "message": "Request body too large for gpt-4o model. Max size: 2000 tokens.",
                }
            },
            WINDOW,
        ),
        (500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}, WINDOW),
        (413, "", WINDOW),
        (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", WINDOW),
        (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 2000. Given: 2600 `inputs` tokens"}, WINDOW),
        (400, {"error": {"message": "Range of input length should be [1, 2000]"}}, WINDOW),
        (400, {"error": {"message": "Prompt 超长", "code": "1261"}}, WINDOW),
        (400, {"errors": [{"message": "the number of input tokens 2600 cannot exceed the total limit 2000"}]}, WINDOW),
        (
            400,
            [{"error": {"code": 400, "message": "The input token count (2600) exceeds the maximum allowed."}}],
            WINDOW,
        ),
        (
            400,
            {"error": {"message": "Provider returned error", "metadata": {"raw": "prompt is too long: 2600 tokens"}}},
            WINDOW,
        ),
        (
            429,
            {"error": {"message": "Request too large for gpt-4o on tokens per min: Limit 2000, Requested 2600."}},
            2000,
        ),
    ],
)
async def test_a_full_window_is_shortened_and_sent_again_in_whatever_words_it_is_said(
    status: int, body: Json, window: int
) -> None:
    def respond(request: Json) -> Reply:
        return Fails(status=status, body=body) if size(request) > window else Answer(text="Short.")

    (step,), server = await asked(respond, work(*long_run(), tools=(WRITE,), system=SYSTEM))
    assert step.text == "Short."
    assert 2 <= len(server.exchanges) <= 5


@pytest.mark.parametrize("is_event", [True, False])
async def test_a_full_window_that_is_said_within_a_good_answer_is_shortened_too(
    stream: bool, *, is_event: bool
) -> None:
    error = b'{"error": {"message": "the request exceeds the available context size", "code": 400}}'
    events = Sends(body=b"data: " + error + b"\n\n", content_type="text/event-stream")
    full = events if is_event and stream else Sends(body=error)

    def respond(request: Json) -> Reply:
        return full if size(request) > WINDOW else Answer(text="Short.")

    (step,), _ = await asked(respond, work(*long_run(), tools=(WRITE,), system=SYSTEM), stream=stream)
    assert step.text == "Short."


async def test_an_answer_to_a_request_that_was_cut_silently_is_none_and_warns_once() -> None:
    """Ollama keeps the end of what it is sent, and answers that."""

    def respond(request: Json) -> Reply:
        sent = size(request)
        is_cut = sent > 4 * WINDOW
        return Answer(text="What would you like me to do?" if is_cut else "Done.", usage=(min(sent, WINDOW), 40))

    entries = long_run(40)
    with capture_logs() as logs:
        (first, second), server = await asked(respond, *[work(*entries, tools=(WRITE,), system=SYSTEM)] * 2)
    assert [first.text, second.text] == ["Done.", "Done."]
    warnings = [entry for entry in logs if entry["event"] == "model.input_cut"]
    assert len(warnings) == 1
    assert "OLLAMA_CONTEXT_LENGTH" in warnings[0]["remedy"]
    assert len(server.exchanges) == 3, "what was learnt holds for the second request"


async def test_a_window_that_nothing_fits_into_waits_for_the_operator() -> None:
    entries = (UserText(author="Ada", text="Hello"),)
    request = work(*entries, system="Be careful. " * 3_000)
    (failed,), server = await asked(Answer(text="What?", usage=(600, 40)), request)
    assert isinstance(failed, ModelUnavailable)
    assert failed.needs_operator
    assert "OLLAMA_CONTEXT_LENGTH" in str(failed)
    assert len(server.exchanges) == 1


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("word " * 8_000, 8_000),
        ("=" * 40_000, 700),  # one token holds dozens of them
        ("word " * 8_000, 12),  # it counts something else
        ("word " * 8_000, 0),
        ("word " * 1_000, 600),
    ],
)
async def test_the_answer_of_an_honest_server_is_never_thrown_away(text: str, reported: int) -> None:
    (step,), server = await asked(Answer(text="Done.", usage=(reported, 4)), work(UserText(author="Ada", text=text)))
    assert step.text == "Done."
    assert len(server.exchanges) == 1


async def test_a_server_that_counts_only_what_its_cache_did_not_hold_is_believed() -> None:
    usages = [(9_000, 4), (800, 4)]
    request = work(UserText(author="Ada", text="some words " * 3_300))
    (first, second), server = await asked(lambda _: Answer(text="Done.", usage=usages.pop(0)), request, request)
    assert (first.text, second.text, len(server.exchanges)) == ("Done.", "Done.", 2)


def test_fields_count_before_words_and_other_errors_are_none() -> None:
    body = {"message": "the request exceeds the available context size", "n_prompt_tokens": 2600, "n_ctx": 2000}
    assert overflow(library.ModelHTTPError(400, "m", body=body)) == Overflow(2000, 2600)
    coded = library.ModelHTTPError(400, "m", body={"message": "no"}, provider_error_code="context_length_exceeded")
    assert overflow(coded) == Overflow()
    assert overflow(library.ModelHTTPError(400, "m", body={"message": "bad tools"})) is None
    assert overflow(OSError("prompt is too long")) is None


def size(request: Json) -> int:
    """Tokens as the server counts them, not as they are estimated."""
    return len(json.dumps(request)) // 3


def long_run(texts: int = 12, each: int = 2_000) -> list[Entry]:
    made: list[Entry] = [UserText(author="Ada", text="Read all of it.")]
    for number in range(texts):
        step = called(f"c{number}")
        text = f"{number} " * (each // 3)
        made += [step, CallResult(id=step.calls[0].id, tool="read", ok=True, content=text)]
    return made


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "This model's maximum context length is {w} tokens. However, your messages resulted in {n} tokens."),
        (429, "Request too large for model on tokens per min (TPM): Limit {w}, Requested {n}."),
        (500, "the request exceeds the available context size. try increasing the context size"),
    ],
)
async def test_a_request_that_is_too_large_is_cut_to_what_fits(status: int, text: str) -> None:
    def respond(request: Json) -> Reply:
        if (tokens := size(request)) > WINDOW:
            return Fails(status=status, message=text.format(n=tokens, w=WINDOW))
        return Answer(text="I have read it.")

    request = work(*long_run(), tools=(WRITE,), system=SYSTEM)
    async with talking(respond, stream=False) as (client, server):
        with capture_logs() as logs:
            assert (await client.step(request)).text == "I have read it."
        tries = len(server.exchanges)
        await client.step(request)
    assert 2 <= tries <= 5
    assert len(server.exchanges) == tries + 1, "what fits was forgotten"
    assert [log["event"] for log in logs].count("model.request_changed") == 1
    assert "Read all of it." in json.dumps(server.exchanges[-1].request)


@pytest.mark.parametrize(
    ("kind", "model", "text", "answer"),
    [
        ("anthropic", "claude-sonnet-4-6", "prompt is too long: {n} tokens > {w} maximum", anthropic),
        ("google", "gemini-2.5-pro", "input token count ({n}) exceeds the number of tokens allowed ({w}).", google),
    ],
)
async def test_vendors_report_an_overflow_in_their_own_protocols(kind: str, model: str, text: str, answer: Any) -> None:
    def answering(request: Request) -> tuple[int, str, bytes]:
        if (tokens := size(request.body)) <= WINDOW:
            taken: tuple[int, str, bytes] = answer(request)
            return taken
        fault = {"type": "error", "error": {"code": 400, "message": text.format(n=tokens, w=WINDOW)}}
        return 400, "application/json", json.dumps(fault).encode()

    async with vendor(answering, kind, model) as (client, served):
        assert (await client.step(work(*long_run(), tools=(WRITE,), system=SYSTEM))).calls
    assert 2 <= len(served.requests) <= 5


@pytest.mark.parametrize(
    ("message", "entries", "most"),
    [
        ("the request exceeds the available context size", long_run(1), 3),
        ("prompt is too long: {n} tokens > {less} maximum", long_run(30), 6),
        ("'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens", long_run(), 1),
    ],
    ids=["system prompt too large", "limit below whatever was sent", "answer too large"],
)
async def test_a_request_that_no_cut_helps_is_refused_with_what_to_do(
    message: str, entries: list[Entry], most: int
) -> None:
    def respond(request: Json) -> Reply:
        return Fails(status=400, message=message.format(n=size(request), less=size(request) - 1))

    system = "x" * 40_000 if len(entries) == 3 else SYSTEM
    (refused,), server = await asked(respond, work(*entries, tools=(WRITE,), system=system))
    assert isinstance(refused, ModelRefused)
    assert "too long for local:test: lower models.context_tokens or models.max_output_tokens" in str(refused)
    assert len(server.exchanges) <= most


async def test_a_long_message_of_a_person_is_cut_where_nothing_else_can_be() -> None:
    def respond(request: Json) -> Reply:
        is_long = size(request) > WINDOW
        return Fails(status=400, message="the input is too long") if is_long else Answer(text="Short.")

    _, server = await asked(respond, work(UserText(author="Ada", text="begin " + "x" * 30_000 + " end")))
    sent = json.dumps(server.exchanges[-1].request)
    assert all(part in sent for part in ("begin", "end\\n", "characters left out"))


async def test_a_long_run_of_a_model_that_thinks_is_never_sent_more_than_the_budget() -> None:
    """Thinking is sent back, so it counts; the estimate is no smaller than the bytes, but for JSON's escapes."""
    budget, escapes, system = 30_000, 1.1, "Be careful. " * 700

    def respond(request: Json) -> Reply:
        arguments = {"path": "a.py", "content": f"print('{len(request['messages'])}')\n" * 300}
        calls = (Call(tool="write_file", arguments=arguments),)
        return Answer(text="On.", reasoning="Let me see. " * 1_500, calls=calls)

    entries: list[Entry] = [UserText(author="Ada", text="Write it." + " please" * 500)]
    sizes: list[float] = []
    async with talking(respond) as (client, server):
        for _ in range(9):
            sent = fitted(system, entries, (WRITE,), budget)
            step = await client.step(work(*sent, tools=(WRITE,), system=system))
            sizes.append(len(json.dumps(server.exchanges[-1].request, ensure_ascii=False).encode()) / 4)
            assert sizes[-1] <= escapes * request_tokens(system, sent, (WRITE,))
            entries.append(step)
            entries += [CallResult(id=c.id, tool=c.tool, ok=True, content="a line\n" * 1_000) for c in step.calls]
        assert not server.refused
    assert 0.8 * budget < max(sizes) <= escapes * budget
    assert any(after < before for before, after in pairwise(sizes)), "nothing had to be left out"
