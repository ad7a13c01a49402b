"""What a server refuses to be sent is left out or renamed, once, and remembered; real servers' answers, over HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.core.messages import ModelStep
from tests.fakes.modelprotocol import Answer, Call, Fails, Json, Reply, Sends
from tests.fakes.modelserver import model_server

from .clients import WRITE, asked, called, client_for, provider, result, route, work

OK = Answer(text="Hello")
REQUEST = work(tools=(WRITE,))


def refusing(name: str, status: int, body: Any) -> Callable[[Json], Reply]:
    """Refuse every request that has the parameter."""
    return lambda request: Fails(status=status, body=body) if name in request else OK


def openai(message: str, **more: Any) -> Json:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


RENAMED = openai(
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    param="max_tokens",
    code="unsupported_parameter",
)
VLLM = {
    "object": "error",
    "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are forbidden'}]",
}
MISTRAL = {
    "object": "error",
    "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]},
}
LITELLM = openai(
    "litellm.UnsupportedParamsError: together_ai does not support parameters: ['tool_choice'], for model=x."
)
OPENROUTER = {
    "error": {
        "message": "No endpoints found that support the provided 'tool_choice' value. To learn more: ...",
        "code": 404,
    }
}


@pytest.mark.parametrize(
    ("name", "status", "body", "sent_instead"),
    [
        ("max_tokens", 400, RENAMED, "max_completion_tokens"),
        ("max_tokens", 422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs are not permitted"}]}, ""),
        ("stream_options", 400, openai("Unrecognized request argument supplied: stream_options"), ""),
        ("stream_options", 400, VLLM, ""),
        ("stream_options", 422, MISTRAL, ""),
        ("tool_choice", 404, OPENROUTER, ""),
        ("tool_choice", 400, LITELLM, ""),
        ("tool_choice", 400, openai("tool_choice is not supported by this model"), ""),
        (
            "max_tokens",
            400,
            openai("MaxTokens is deprecated, please use max_completion_tokens"),
            "max_completion_tokens",
        ),
        (
            "max_tokens",
            400,
            {"code": "invalid", "error": "Argument not supported: max_tokens"},
            "max_completion_tokens",
        ),
        (
            "stream_options",
            400,
            [{"error": {"code": 400, "message": 'Unknown name "streamOptions": Cannot find field.'}}],
            "",
        ),
        ("stream_options", 400, {"message": "Malformed input request: extraneous key [stream_options]"}, ""),
        ("stream_options", 501, openai("stream_options is not implemented"), ""),
    ],
)
async def test_a_refused_parameter_is_left_out_or_renamed_once_and_remembered(
    name: str, status: int, body: Json, sent_instead: str
) -> None:
    (first, second), server = await asked(
        refusing(name, status, body), REQUEST, REQUEST, max_output_tokens=500, stream=True
    )
    assert [step.text for step in (first, second) if isinstance(step, ModelStep)] == ["Hello", "Hello"]
    sent = [exchange.request for exchange in server.exchanges]
    assert [name in request for request in sent] == [True, False, False]
    assert all({"messages", "model", "tools"} <= request.keys() for request in sent)
    if sent_instead:
        assert [request.get(sent_instead) for request in sent[1:]] == [500, 500]


async def test_requests_that_are_refused_at_the_same_time_are_all_sent_otherwise() -> None:
    """The first learnt it; to the others nothing was left to learn, so that their model counted as out of reach."""
    together, waiting = 3, asyncio.Event()
    arrived = 0

    async def respond(request: Json) -> Reply:
        nonlocal arrived
        if "max_tokens" not in request:
            return OK
        arrived += 1
        if arrived == together:
            waiting.set()
        await waiting.wait()
        return Fails(status=400, body=RENAMED)

    async with model_server(respond) as server:
        client = client_for(provider(server), max_output_tokens=500)
        steps = await asyncio.gather(*(client.step(REQUEST) for _ in range(together)))
        await client.close()
    assert [step.text for step in steps] == ["Hello"] * together
    assert len(server.exchanges) == 2 * together


async def test_a_parameter_that_is_refused_under_both_names_is_left_out() -> None:
    def respond(request: Json) -> Reply:
        for name in ("max_tokens", "max_completion_tokens"):
            if name in request:
                return Fails(status=400, body=openai(f"Unknown parameter: '{name}'.", param=name))
        return OK

    (step,), server = await asked(respond, REQUEST, max_output_tokens=500)
    assert isinstance(step, ModelStep)
    assert len(server.exchanges) == 3


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 500000. This model supports at most 8192 completion tokens.",
        "Invalid value for 'model'",
        "temperature is not supported",  # which is not sent
        "something else is unsupported",
    ],
)
async def test_what_names_nothing_that_was_sent_or_only_a_value_is_not_sent_again(message: str) -> None:
    (failed,), server = await asked(Fails(status=400, message=message), REQUEST, max_output_tokens=500_000)
    assert isinstance(failed, ModelUnavailable)
    assert len(server.exchanges) == 1


async def test_a_server_that_refuses_everything_is_asked_a_bounded_number_of_times() -> None:
    def respond(request: Json) -> Reply:
        names = [name for name in request if name not in ("messages", "model")]
        return Fails(status=400, message=f"Unsupported: {', '.join(names)}")

    (failed,), server = await asked(respond, REQUEST, max_output_tokens=500)
    assert isinstance(failed, ModelUnavailable)
    assert len(server.exchanges) <= 6


async def test_where_a_router_does_not_say_what_is_refused_all_that_is_optional_is_left_out() -> None:
    def respond(request: Json) -> Reply:
        body = {"error": {"message": "No endpoints found that can handle the requested parameters.", "code": 404}}
        return Fails(status=404, body=body) if {"tool_choice", "max_tokens"} & request.keys() else OK

    (step, again), server = await asked(respond, REQUEST, REQUEST, max_output_tokens=500)
    assert isinstance(step, ModelStep)
    assert isinstance(again, ModelStep)
    assert len(server.exchanges) == 3
    assert "tools" in server.exchanges[-1].request


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Only user and assistant roles are supported!",
    ],
)
async def test_a_system_prompt_that_is_refused_is_sent_with_the_first_message(message: str) -> None:
    def respond(request: Json) -> Reply:
        roles = [sent["role"] for sent in request["messages"]]
        return Fails(status=400, message=message) if "system" in roles else OK

    (step, _), server = await asked(respond, REQUEST, REQUEST)
    assert isinstance(step, ModelStep)
    assert len(server.exchanges) == 3
    (sent,) = server.exchanges[-1].request["messages"]
    assert sent["content"].startswith(f"{REQUEST.system}\n\n<message")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("Invalid value for 'content': expected a string, got null.")),
        (422, {"detail": [{"loc": ["body", "messages", 2, "content"], "msg": "Input should be a valid string"}]}),
        (400, openai("'content' is a required property - 'messages.2'")),
    ],
)
async def test_calls_without_a_text_are_sent_with_an_empty_one_where_it_is_demanded(status: int, body: Json) -> None:
    def respond(request: Json) -> Reply:
        texts = [message.get("content") for message in request["messages"]]
        return Fails(status=status, body=body) if None in texts else OK

    request = work(*REQUEST.entries, called("a"), result("a"), tools=(WRITE,))
    (step, _), server = await asked(respond, request, request)
    assert isinstance(step, ModelStep)
    assert len(server.exchanges) == 3


async def test_thoughts_are_not_sent_back_to_a_server_that_refuses_them() -> None:
    groq = (
        "'messages.2' : for 'role:assistant' the following must be satisfied"
        "[('messages.2' : property 'reasoning_content' is unsupported)]"
    )

    def respond(request: Json) -> Reply:
        if any("reasoning_content" in message for message in request["messages"]):
            return Fails(status=400, message=groq)
        return Answer(reasoning="hm", calls=(Call(tool="write_file", arguments={"path": "a"}),))

    async def history(respond: Any) -> ModelStep:
        (step,), _ = await asked(respond, REQUEST)
        assert isinstance(step, ModelStep)
        return step

    thought = await history(respond)
    later = work(*REQUEST.entries, thought, result(thought.calls[0].id), tools=(WRITE,))
    (first, second), server = await asked(respond, later, later)
    assert isinstance(first, ModelStep)
    assert isinstance(second, ModelStep)
    assert len(server.exchanges) == 3


async def test_thoughts_are_sent_with_each_call_to_a_server_that_demands_them() -> None:
    """The calls are of another model, whose thoughts were not kept."""
    needed = "Missing `reasoning_content` field in the assistant message at message index 2. It must be passed back."

    def respond(request: Json) -> Reply:
        calls = [message for message in request["messages"] if message.get("tool_calls")]
        return OK if all("reasoning_content" in call for call in calls) else Fails(status=400, message=needed)

    entries = (*REQUEST.entries, called("a"), result("a"))
    (step,), server = await asked(respond, work(*entries, tools=(WRITE,)))
    assert isinstance(step, ModelStep)
    assert len(server.exchanges) == 2


@pytest.mark.parametrize(
    ("status", "message", "tries"),
    [
        (400, "response_format is not supported", 3),
        (400, "This response_format type is unavailable now", 3),
        (404, "No endpoints found that can handle the requested parameters.", 4),
        (500, "Failed to compile grammar: unsupported JSON schema", 3),
    ],
)
async def test_a_decision_is_still_asked_for_in_another_form_where_its_form_is_refused(
    status: int, message: str, tries: int
) -> None:
    decision = Answer(text='{"agents": ["USER"], "reason": "r"}')

    def respond(request: Json) -> Reply:
        return Fails(status=status, message=message) if "response_format" in request else decision

    (step,), server = await asked(respond, route())
    assert isinstance(step, ModelStep)
    assert len(server.exchanges) == tries


async def test_a_page_for_people_is_named_as_such() -> None:
    page = Sends(body=b"<!doctype html><html><body>Please log in</body></html>", content_type="text/html")
    for stream in (True, False):
        (failed,), _ = await asked(page, REQUEST, stream=stream)
        assert isinstance(failed, ModelUnavailable)
        assert str(failed).endswith(
            "answered with a web page: correct models.providers.local.base_url; it often ends in /v1"
        )
