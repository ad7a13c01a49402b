"""One model over real HTTP: whole answers and streams, every kind of misbehaviour, limits, what it cost."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import request_tokens
from tenex.core.messages import NO_USAGE, ModelStep, Picture, Usage, UserText
from tenex.core.router.answer import RoutingDecision, parse
from tenex.llm.config import Price, ProviderConfig
from tenex.llm.provider_model import STREAM_PAUSE
from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelserver import KEY, text_of

from .clients import NAME, WRITE, asked, result, route, talking, work

DECISION = json.dumps({"agents": ["planner"], "phase": "plan", "reason": "it needs a design"})
LONG = Answer(text=nonsense(40))
REPORTS = {
    **dict.fromkeys(("nothing", "nulls"), (0, 0)),
    **dict.fromkeys(("no total", "each chunk"), (120, 60)),
    "only total": (180, 0),
    "only output": (0, 60),
}
"""What a server reports -> the tokens of input and output that are known of it."""


async def test_an_answer_comes_back_and_one_line_without_its_text_is_logged(stream: bool) -> None:
    answer = Answer(text="PRIVATE answer", reasoning="let me see", usage=(1000, 100), cached=800, stored=150)
    prices = {NAME: Price(input=2.0, output=10.0, cached_input=0.5, cache_write=3.0)}
    with capture_logs() as logs:
        request = work(UserText(author="Ada", text="SECRET"))
        (step,), server = await asked(answer, request, stream=stream, max_output_tokens=123, prices=prices)
    assert (step.text, step.thinking, step.model, step.calls) == ("PRIVATE answer", "let me see", NAME, ())
    cost: Any = pytest.approx((50 * 2.0 + 800 * 0.5 + 150 * 3.0 + 100 * 10.0) / 1_000_000)
    assert step.usage == Usage(
        input_tokens=1000, output_tokens=100, cost_usd=cost, cache_read_tokens=800, cache_write_tokens=150
    )
    assert step.usage.calls == 1
    sent = server.exchanges[0].request
    assert server.exchanges[0].stream is stream
    assert sent.get("stream_options") == ({"include_usage": True} if stream else None)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert text_of(sent["messages"][1]).startswith("<message from=")
    assert (sent["max_tokens"], "tools" in sent) == (123, False)
    (line,) = [entry for entry in logs if entry["event"].startswith("model.")]
    assert {("event", "model.answered"), ("model", NAME), ("agent", "executor"), ("purpose", "work")} <= {*line.items()}
    assert {"ms", "queued_ms", "input_tokens", "output_tokens", "cost_usd"} <= line.keys()
    assert not any(word in str(logs) for word in ("PRIVATE", "SECRET", KEY))


@pytest.mark.parametrize("reports", REPORTS)
async def test_usage_is_what_was_reported_last_and_estimated_where_nothing_was(stream: bool, reports: Any) -> None:
    calls = (Call(tool="write_file", arguments={"path": "x" * 400}),)
    answer = Answer(text=nonsense(200), calls=calls, usage=(120, 60), reports=reports)
    request = work(UserText(author="Ada", text="x" * 40_000), tools=(WRITE,))
    prices = {NAME: Price(input=1.0, output=10.0)}
    (step,), _ = await asked(answer, request, stream=stream, prices=prices)
    usage, known = step.usage, REPORTS[reports]
    assert usage.input_tokens == known[0] or (not known[0] and 10_000 <= usage.input_tokens <= 10_200)
    assert usage.output_tokens == known[1] or (not known[1] and 200 <= usage.output_tokens <= 600)
    assert usage.estimated == usage.tokens - sum(known)
    assert usage.cost_usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1_000_000)


async def test_what_a_server_does_not_report_counts_for_limits_and_broken_streams() -> None:
    request = work(UserText(author="Ada", text="x" * 4_000))
    async with talking(Answer(text="Hi", reports="nothing"), provider_tokens_per_minute=1_500) as (client, server):
        await client.step(request)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.step(request), 0.3)
    assert len(server.exchanges) == 1
    (broken,), _ = await asked(Breaks(answer=LONG, after=5), request)
    assert broken.usage.estimated == broken.usage.tokens > 1_000


@pytest.mark.parametrize(
    "answer",
    [
        Answer(text=f"<think>a private thought</think>{nonsense(30)}"),
        Answer(text=nonsense(30), reasoning="a private thought " * 20),
        Answer(text=f"a private thought</think>\n\n{nonsense(30)}"),
        LONG,
    ],
    ids=["tags", "apart", "closing tag alone", "none"],
)
async def test_streamed_text_grows_and_never_holds_a_thought(stream: bool, answer: Answer) -> None:
    """Nothing is passed on before a model has shown how it marks its thoughts."""
    streamed: list[str] = []
    async with talking(answer, stream=stream) as (client, _):
        step = await client.step(work(), streamed.append)
        assert bool(streamed) is (stream and answer is not LONG)
        again = await client.step(work(), streamed.append)
    assert step.text == again.text == answer.text.rpartition("</think>")[2].strip()
    assert ("a private thought" in step.thinking) is (answer is not LONG)
    assert all(step.text.startswith(text) for text in streamed)
    assert (len(streamed) > 3) is stream
    assert streamed[-1:] == [step.text] * stream


@pytest.mark.parametrize("status", [400, 413])
async def test_pictures_that_a_server_rejects_are_left_out_and_others_are_shown(status: int) -> None:
    """The model is informed, and the next step, which has the same ones, costs no second request."""
    picture = Picture(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
    answers = [Fails(status=status, message="Could not process image"), *[Answer(text="Hi")] * 3]
    request = work(UserText(author="Ada", text="see https://a.example/cat.png"))
    another = work(UserText(author="Ada", text="and https://a.example/dog.png"))
    steps, server = await asked(
        answers,
        request,
        request,
        another,
        sees=frozenset({NAME}),
        picture=lambda _: picture,
        has_picture=lambda _: True,
        stream=False,
    )
    assert [step.text for step in steps] == ["Hi", "Hi", "Hi"]
    bodies = [json.dumps(exchange.request) for exchange in server.exchanges]
    assert ["image_url" in body for body in bodies] == [True, False, False, True]
    refused = "https://a.example/cat.png (your server has refused it)"
    assert [refused in body for body in bodies] == [False, True, True, False]


async def test_an_observer_that_fails_costs_nothing() -> None:
    streamed: list[str] = []

    def fails(text: str) -> None:
        streamed.append(text)
        raise RuntimeError("broken observer")

    async with talking(LONG) as (client, _):
        await client.step(work())
        assert (await client.step(work(), fails)).text == LONG.text
    assert len(streamed) == 1


async def test_several_calls_keep_their_order_and_a_bad_one_spoils_no_other(stream: bool) -> None:
    sent = (("write_file", {"path": "a"}), ("write_file", '{"path": '), ("no_such_tool", "[1]"), ("write_file", ""))
    calls = tuple(Call(tool=tool, arguments=arguments) for tool, arguments in sent)
    (step,), server = await asked(Answer(text="Now.", calls=calls), work(tools=(WRITE,)), stream=stream)
    offered = {"name": WRITE.name, "description": WRITE.description, "parameters": WRITE.parameters}
    assert [tool["function"] for tool in server.exchanges[0].request["tools"]] == [offered]
    assert [call.tool for call in step.calls] == [tool for tool, _ in sent]
    assert [bool(call.fault) for call in step.calls] == [False, True, True, False]
    assert step.calls[0].arguments == {"path": "a"}
    assert len({call.id for call in step.calls}) == 4


async def test_a_second_step_sends_the_first_back_with_its_thought_and_the_same_beginning() -> None:
    first = Answer(calls=(Call(tool="write_file", arguments={"path": "a"}, id="c"),), reasoning="I must write")
    async with talking([first, Answer(text="Done.")]) as (client, server):
        person = UserText(author="Ada", text="Write")
        step = await client.step(work(person, tools=(WRITE,)))
        kept = ModelStep(calls=step.calls, thinking=step.thinking, vendor=json.loads(json.dumps(step.vendor)))
        await client.step(work(person, kept, result("c"), tools=(WRITE,)))
    one, two = (exchange.request for exchange in server.exchanges)
    assert json.dumps(two["messages"]).startswith(json.dumps(one["messages"])[:-1])
    assert two["messages"][2]["reasoning_content"] == "I must write"
    assert two["messages"][3] == {"role": "tool", "tool_call_id": "c", "content": "done"}
    assert not server.refused


@pytest.mark.parametrize(
    "text",
    [
        DECISION,
        f"Sure!\n```json\n{DECISION}\n```",
        f"{DECISION.replace('planner', 'executor')} is wrong</think>{DECISION}",
    ],
)
async def test_a_decision_is_asked_for_by_schema_and_read_outside_of_thoughts(text: str) -> None:
    (step,), server = await asked(Answer(text=text), route())
    decision, wanted = parse(step.text), server.exchanges[0].request["response_format"]["json_schema"]["schema"]
    assert wanted["required"] == ["agents", "reason"]
    assert "executor" in wanted["properties"]["agents"]["items"]["enum"]
    assert isinstance(decision, RoutingDecision)
    assert (decision.agents, decision.phase) == (("planner",), "plan")


async def test_a_server_that_cannot_compile_what_is_possible_gets_the_whole_schema_from_then_on() -> None:
    def respond(request: Json) -> Reply:
        if "maxLength" in json.dumps(request["response_format"]):
            return Fails(status=400, message="Invalid schema for response_format: maxLength is not supported")
        return Answer(text=DECISION)

    steps, server = await asked(respond, route(), route())
    assert all(isinstance(parse(step.text), RoutingDecision) for step in steps)
    assert ["maxLength" in json.dumps(exchange.request) for exchange in server.exchanges] == [True, False, False]


async def test_a_near_server_gets_the_parameters_that_are_possible_and_all_where_it_refuses_them() -> None:
    possible = {**WRITE.parameters, "properties": {"path": {"type": "string", "maxLength": 7}}}
    tool = replace(WRITE, possible=possible)
    _, server = await asked(Answer(text="Done."), work(tools=(tool,)))
    assert server.exchanges[0].request["tools"][0]["function"]["parameters"] == possible

    def respond(request: Json) -> Reply:
        if "maxLength" in json.dumps(request["tools"]):
            return Fails(status=400, message="Unable to generate parser for this template")
        return Answer(text="Done.")

    (step,), server = await asked(respond, work(tools=(tool,)))
    assert step.text == "Done."
    assert server.exchanges[-1].request["tools"][0]["function"]["parameters"] == WRITE.parameters
    assert len(server.exchanges) == 2


@pytest.mark.parametrize(
    ("address", "settings", "is_near"),
    [
        ("http://127.0.0.1:8080/v1", {}, True),
        ("http://[::1]:8080/v1", {}, True),
        ("http://192.168.1.7:1234/v1", {}, True),
        ("http://llama:8080/v1", {}, True),
        ("http://studio.local/v1", {}, True),
        (None, {"kind": "ollama"}, True),
        ("https://vllm.example.org/v1", {}, False),
        ("https://vllm.example.org/v1", {"grammar": "json_schema"}, True),
        ("https://api.openai.com/v1", {}, False),
        ("http://8.8.8.8/v1", {}, False),
        (None, {}, False),
        (None, {"kind": "anthropic"}, False),
    ],
)
def test_a_server_is_near_by_its_address_or_its_grammar(
    address: str | None, settings: dict[str, Any], *, is_near: bool
) -> None:
    assert ProviderConfig(name="some", base_url=address, **settings).is_near == is_near


async def test_a_vendor_gets_the_same_schema_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt cache begins with it."""
    monkeypatch.setattr(ProviderConfig, "is_near", False)
    _, server = await asked(Answer(text=DECISION), route())
    request = server.exchanges[0].request
    assert "enum" not in request["response_format"]["json_schema"]["schema"]["properties"]["agents"]["items"]
    assert "max_tokens" not in request


async def test_a_server_without_structured_answers_is_asked_in_words_from_then_on() -> None:
    def respond(request: Json) -> Reply:
        if "response_format" in request:
            return Fails(status=400, message="response_format is not supported", code="unsupported_parameter")
        return Answer(text=DECISION)

    steps, server = await asked(respond, route(), route())
    assert all(isinstance(parse(step.text), RoutingDecision) for step in steps)
    assert ["response_format" in exchange.request for exchange in server.exchanges] == [True, True, False, False]
    assert server.exchanges[-1].system.startswith(route().system)
    assert '"required":["agents","reason"]' in server.exchanges[-1].system


@pytest.mark.parametrize(("message", "tries"), [("it violates our content policy", 1), ("nothing to do with it", 3)])
async def test_a_request_that_fails_in_words_too_changes_no_form(message: str, tries: int) -> None:
    replies = [*[Fails(status=400, message=message)] * tries, Answer(text=DECISION)]
    (failed, _), server = await asked(replies, route(), route())
    assert isinstance(failed, ModelRefused | ModelUnavailable)
    assert "response_format" in server.exchanges[-1].request


@pytest.mark.parametrize(
    ("fails", "part"),
    [
        (Fails(status=500), "fails (500"),
        (Fails(status=503, message="overloaded"), "is overloaded (503"),
        (Fails(status=401, message=f"Bad key: {KEY}", code="invalid_api_key"), "models.providers.local.api_key_env"),
        (Fails(status=403), "is not permitted to this key (403"),
        (
            Fails(status=404, code="model_not_found"),
            "is unknown to its server (404, model_not_found): correct the model's name",
        ),
        (Fails(status=402), "top up the account"),
        (Fails(status=400, message="violates our usage policy", code="content_policy_violation"), "content policy"),
        (Answer(refusal="I cannot"), "content filter"),
        (Answer(finish="content_filter"), "content filter"),
        (Fails(status=429, code="insufficient_quota"), "top up the account"),
        (Fails(status=400, message="bad parameter of Ada", code="unsupported_value"), "unsupported_value"),
        (Fails(status=418), "refuses what it was sent (418"),
        (Closes(), "broke off the connection"),
        (Breaks(answer=LONG, after=3), "bro"),
        (Sends(body=b"<html>Ada</html>", content_type="text/html"), "answered with a web page: correct models"),
        (Sends(body=b"{}"), "gave no answer that can be read: look at models.providers.local.base_url and kind"),
        (
            Sends(body=b'{"id": "x", "object": "chat.completion", "choices": []}'),
            "gave no answer that can be read",
        ),
        (Fails(status=405), "takes no requests at this address (405"),
        (Fails(status=451), "is not available in your country (451"),
        (
            Fails(status=404, message="This model is only supported in v1/responses and not in v1/chat/completions."),
            'set models.providers.local.kind = "openai-responses"',
        ),
        (Fails(status=404, message='model "qwen3" not found, try pulling it first'), "is not installed on its server"),
    ],
    ids=lambda value: value.__class__.__name__ + str(getattr(value, "status", "")),
)
async def test_what_would_be_the_same_again_is_refused_and_other_failures_are_held(
    stream: bool, fails: Reply, part: str
) -> None:
    with capture_logs() as logs:
        (failed,), server = await asked(fails, stream=stream)
    is_refused = isinstance(fails, Answer) or "policy" in part
    assert isinstance(failed, ModelRefused if is_refused else ModelUnavailable)
    assert not is_refused or (failed.usage.input_tokens > 0) is isinstance(fails, Answer)
    assert len(server.exchanges) == 1
    message = str(failed)
    assert message.startswith(f"{NAME} ")
    assert part in message or (stream and isinstance(fails, Sends))
    assert not any(secret in f"{message} {logs}" for secret in (KEY, "Hello"))
    own_words = fails.message.replace(KEY, "[key]").replace('"', "'") if isinstance(fails, Fails) else ""
    assert not own_words or f'The server says: "{own_words}"' in message


async def test_after_broken_streams_a_stream_is_tried_again_later_and_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that ends in good order without a finish reason is broken, too."""
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "test"}
    chunk["choices"] = [{"index": 0, "delta": {"content": "Half"}}]
    unended = Sends(body=f"data: {json.dumps(chunk)}\n\n".encode(), content_type="text/event-stream")
    now, is_updated = 0.0, False
    monkeypatch.setattr("tenex.llm.provider_model.monotonic", lambda: now)

    def respond(request: Json) -> Reply:
        return Answer(text="Hello") if is_updated or not request.get("stream") else unended

    async def streams(times: int) -> list[bool]:
        for _ in range(times):
            with suppress(ModelUnavailable):
                await client.step(work())
        return [exchange.stream for exchange in server.exchanges[-times:]]

    async with talking(respond) as (client, server):
        with pytest.raises(ModelUnavailable, match="broke off"):
            await client.step(work())
        with capture_logs() as logs:
            assert await streams(2) == [True, False]
            now += STREAM_PAUSE
            assert await streams(2) == [True, False]
            is_updated = True
            now += 2 * STREAM_PAUSE
            assert await streams(2) == [True, True]
    assert [log["seconds"] for log in logs if log["event"] == "model.streams_off"] == [STREAM_PAUSE, 2 * STREAM_PAUSE]


@pytest.mark.parametrize(
    ("reply", "settings", "message"),
    [
        (Hangs(), {"stream": False, "timeout": 0.2}, r"did not finish its answer within 0\.2 s"),
        (Hangs(), {"timeout": 0.2}, r"did not finish its answer within 0\.2 s"),
        (Breaks(answer=LONG, after=4, stall=True), {"timeout": 60.0, "idle_timeout": 0.2}, "fell silent"),
    ],
)
async def test_an_answer_that_does_not_come_is_not_waited_for(
    reply: Reply, settings: dict[str, Any], message: str
) -> None:
    async with talking(reply, **settings) as (client, server):
        with pytest.raises(ModelUnavailable, match=message) as caught:
            await client.step(work())
        await server.until(lambda at: at.exchanges[0].outcome == "cut")
    assert caught.value.usage.calls == isinstance(reply, Breaks)


async def test_an_answer_is_cut_off_when_the_time_of_its_agent_is_up() -> None:
    async with talking(Hangs(), timeout=60.0) as (client, server):
        with pytest.raises(ModelUnavailable, match=r"within 0\.2 s, which close_after of its agent leaves"):
            await client.step(replace(work(), time_left=0.2))
        await server.until(lambda at: at.exchanges[0].outcome == "cut")


async def test_thinking_before_the_first_word_is_no_silence() -> None:
    (step,), _ = await asked(Answer(text="Hello", delay=1.0), idle_timeout=0.5)
    assert step.text == "Hello"


async def test_a_closed_port_is_held_and_answers_once_it_is_open() -> None:
    async with talking(Answer(text="Hello")) as (client, server):
        await server.down()
        with pytest.raises(ModelUnavailable, match="cannot be reached: is its server up") as caught:
            await client.step(work())
        assert caught.value.usage == NO_USAGE
        await server.up()
        assert (await client.step(work())).text == "Hello"


async def test_a_short_wait_is_waited_for_and_not_counted_as_time() -> None:
    replies = [Fails(status=429, headers={"retry-after-ms": "1500"}), Answer(text="Hello")]
    with capture_logs() as logs:
        (_, step), _ = await asked(replies, work(), work(), timeout=1.2)
    assert step.text == "Hello"
    assert [line["event"] for line in logs] == ["model.unavailable", "model.answered"]
    assert logs[1]["queued_ms"] > 1_200 > logs[1]["ms"] > 0


@pytest.mark.parametrize("last", [Fails(status=500), Fails(status=429, headers={"Retry-After": "90"})])
async def test_the_wait_for_a_turn_comes_with_the_step_and_with_the_failure(last: Fails) -> None:
    """So that it counts against no deadline; also where a pause that the server asked for refuses the wait."""
    slow = Answer(text="Hello", delay=0.3)
    async with talking([slow, slow, last, last], provider_concurrency=1) as (client, server):
        first, second, *failed = await asyncio.gather(*(client.step(work()) for _ in range(4)), return_exceptions=True)
        assert client.status()[0].paused == pytest.approx(90 if last.headers else 0, abs=5)
    assert isinstance(first, ModelStep)
    assert isinstance(second, ModelStep)
    assert first.queued < 100
    assert second.queued > 200
    for one in failed:
        assert isinstance(one, ModelUnavailable)
        assert one.queued > 0.4
        assert (one.model, one.retry_after) == (NAME, pytest.approx(90, abs=5) if last.headers else None)
    assert ("asked to wait" in str(failed[1])) is bool(last.headers)
    assert len(server.exchanges) == (3 if last.headers else 4)


@pytest.mark.parametrize("slow", [Answer(text=LONG.text, delay=30), Answer(text=nonsense(200), pace=0.05)])
async def test_a_cancelled_call_costs_at_least_its_request_and_releases_everything(stream: bool, slow: Answer) -> None:
    """Also where nothing was answered yet; one that waited for its turn costs nothing."""
    paid: list[tuple[Usage, str]] = []
    request = replace(work(), on_cancelled=lambda usage, model: paid.append((usage, model)))
    prices = {NAME: Price(input=1_000_000, output=0)}
    async with talking(slow, stream=stream, provider_concurrency=1, prices=prices) as (client, server):
        tasks = [asyncio.create_task(client.step(request)) for _ in range(2)]
        await server.until(lambda at: at.exchanges)
        with capture_logs() as logs:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        await server.until(lambda at: at.exchanges[0].outcome == "cut")
        server.script = lambda _request: Answer(text="next")
        assert (await client.step(work())).text == "next"
    assert [(line["event"], line["log_level"]) for line in logs] == [("model.cancelled", "info")] * 2
    ((usage, model),) = [one for one in paid if one[0].calls]
    sent = request_tokens(request.system, request.entries, request.tools)
    assert (usage.input_tokens, usage.cost_usd, model) == (sent, float(sent), NAME)
    assert usage.estimated == usage.tokens


async def test_a_model_that_is_not_set_to_see_reads_that_it_is_not_shown_a_picture() -> None:
    """Whether another one in its place would see it: each reads what it is shown itself."""
    request = work(UserText(author="Ada", text="see https://a.example/cat.png and https://a.example/page"))
    (step,), server = await asked(Answer(text="Hi"), request, has_picture=lambda _: True, stream=False)
    assert step.text == "Hi"
    body = json.dumps(server.exchanges[0].request)
    assert "https://a.example/cat.png (you are not set to see pictures)" in body
