"""Answers of real servers that are no good ones by the letter, over HTTP: read where they can be, or named truly."""

import json
from typing import Any

import pytest

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import ModelStep
from tests.fakes.modelprotocol import Fails, Json, Reply, Sends

from .clients import WRITE, asked, work

REQUEST = work(tools=(WRITE,))
PAGE = "<!DOCTYPE html><html><title>Attention Required!</title></html>"
SETTING = "models.providers.local"


def whole(**message: Any) -> Sends:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return Sends(body=json.dumps({"id": "x", "model": "m", "created": 1, "choices": [choice]}).encode())


def call(**fields: Any) -> Json:
    return {"function": {"name": "write_file", "arguments": '{"path": "a.txt"}'}, **fields}


@pytest.mark.parametrize(
    "given",
    [
        call(id=None, type="function"),
        call(),
        {"id": "", "type": None, "function": {"name": "write_file", "arguments": {"path": "a.txt"}}},
    ],
)
async def test_a_call_whose_id_or_kind_is_missing_or_whose_arguments_are_an_object_is_read(given: Json) -> None:
    (step,), _ = await asked(whole(content=None, tool_calls=[given]), REQUEST, stream=False)
    assert [(made.tool, made.arguments) for made in step.calls] == [("write_file", {"path": "a.txt"})]


@pytest.mark.parametrize("head", [{}, {"id": None, "created": None}, {"object": "chat.completion", "usage": None}])
async def test_an_answer_without_its_head_is_read(head: Json) -> None:
    choice = {"message": {"content": "Hello"}, "finish_reason": ""}
    (step,), _ = await asked(Sends(body=json.dumps({**head, "choices": [choice]}).encode()), REQUEST, stream=False)
    assert step.text == "Hello"


async def test_a_server_that_answers_whole_is_not_asked_for_a_stream_again() -> None:
    (first, second), server = await asked(whole(content="Hello"), REQUEST, REQUEST, stream=True)
    assert (first.text, second.text) == ("Hello", "Hello")
    assert [exchange.stream for exchange in server.exchanges] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "part"),
    [
        ({"message": "Provider returned error", "code": 502}, "fails (502)"),
        ({"message": "Rate limit exceeded: free-models-per-day", "code": 429}, "asks to slow down"),
        ({"message": "User not found.", "code": 401}, "does not accept the key (401"),
        ("the model has crashed", "fails (500)"),
        ({"message": "it broke", "code": "server_error"}, "fails (500"),
    ],
)
async def test_an_error_in_a_good_answer_is_the_error_that_it_says(error: Any, part: str, stream: bool) -> None:
    (failed,), _ = await asked(Sends(body=json.dumps({"error": error}).encode()), REQUEST, stream=stream)
    assert isinstance(failed, ModelUnavailable)
    assert part in str(failed)


def says(message: str, **more: Any) -> Json:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "part"),
    [
        (403, PAGE, "is behind a web page that refuses the request: look at the network"),
        (403, says("Country, region, or territory not supported"), "is not available in your country"),
        (403, {"code": "no permission", "error": "Your team doesn't have any credits yet."}, "top up the account"),
        (400, says("Your credit balance is too low to access the API."), "top up the account"),
        (429, says("余额不足或无可用资源包,请充值。", code="1113"), "top up the account"),
        (403, says("No access to the model"), "is not permitted to this key (403): correct models.providers.local.api"),
        (400, [says("API key not valid. Please pass a valid API key.")], "does not accept the key (400)"),
        (404, says("No endpoints found that support tool use."), "cannot call tools (404): choose another model"),
        (404, says("No endpoints found matching your data policy."), "change the privacy settings of the account"),
        (404, says("No endpoints found for x/y."), "is served by no one who takes what is sent"),
        (404, says("This is not a chat model"), "is no model for chats (404): choose another model"),
        (400, says("x/y is not a valid model ID"), "correct the model's name"),
        (400, says("No models loaded. Please load a model."), "is not loaded by its server (400): load it there"),
        (503, says("Loading model"), "is being loaded by its server (503): wait"),
        (500, says("model requires more system memory (12 GiB) than is available"), "choose a smaller model"),
        (410, says("gone"), "has been retired (410): choose another model"),
        (408, says("timeout"), "models.timeout too short"),
        (400, {"detail": "tools param requires --jinja flag"}, "turn tool calls on at its server"),
    ],
)
async def test_each_sentence_about_a_server_names_what_to_change_and_is_true(status: int, body: Any, part: str) -> None:
    (failed,), server = await asked(Fails(status=status, body=body), REQUEST)
    assert isinstance(failed, ModelUnavailable)
    assert part in str(failed)
    assert failed.needs_operator == ("key" in part)
    assert len(server.exchanges) == 1


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "7.5"}, "", 7.5),
        ({"retry-after": "7"}, "", 7),
        ({"retry-after-ms": "1500"}, "", 1.5),
        ({"ratelimit-reset": "30"}, "", 30),
        ({"retry-after": "31536000"}, "", 3600),
        ({"x-ratelimit-reset": "4102444800"}, "", 3600),
        ({"x-ratelimit-reset": "4102444800000"}, "", 3600),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({}, "Your quota will reset after 26s.", 26),
    ],
)
async def test_a_wait_is_read_however_a_server_says_it(
    headers: dict[str, str], message: str, seconds: float | None
) -> None:
    (failed,), _ = await asked(Fails(status=429, message=message or "slow down", headers=headers), REQUEST)
    assert isinstance(failed, ModelUnavailable)
    assert failed.retry_after == seconds


async def test_a_wait_is_read_from_the_headers_of_a_server_behind_a_router() -> None:
    metadata = {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800000"}}
    (failed,), _ = await asked(Fails(status=429, body=says("Rate limit exceeded", metadata=metadata)), REQUEST)
    assert failed.retry_after == 3600


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": null}', b"Ollama is running"]
)
async def test_what_is_no_answer_is_named_with_where_to_look(body: bytes, stream: bool) -> None:
    reply: Reply = Sends(body=body, content_type="application/json")
    (failed,), server = await asked(reply, REQUEST, stream=stream)
    assert isinstance(failed, ModelUnavailable)
    assert f"gave no answer that can be read: look at {SETTING}.base_url and kind" in str(failed)
    assert len(server.exchanges) == 1


async def test_an_answer_without_a_text_and_a_call_is_an_empty_step() -> None:
    (step,), _ = await asked(whole(content=None), REQUEST, stream=False)
    assert isinstance(step, ModelStep)
    assert (step.text, step.calls) == ("", ())
    (failed,), _ = await asked(Fails(status=413, body=""), REQUEST)
    assert isinstance(failed, ModelRefused)
