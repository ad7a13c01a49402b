"""One model over real HTTP: whole answers and streams, every kind of misbehaviour, limits, what it cost."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenex.core.context.window import request_tokens
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import NO_USAGE, ModelStep, Usage, UserText
from tenex.core.routing import RoutingDecision, parse
from tenex.llm.config import CallReport, Price
from tenex.llm.provider_model import STREAM_PAUSE
from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelserver import KEY, text_of

from .clients import NAME, WRITE, result, route, talking, work

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
DECISION = {"agents": ["planner"], "phase": "plan", "reason": "it needs a design"}
LONG = Answer(text=nonsense(40))


@BOTH
async def test_text_thinking_usage_and_model_come_back(stream: bool) -> None:
    answer = Answer(text="Hello you there", reasoning="let me see", usage=(120, 7))
    async with talking(lambda _request: answer, stream=stream) as (client, server):
        step = await client.step(work())
        assert (step.text, step.thinking, step.model, step.calls) == ("Hello you there", "let me see", NAME, ())
        assert (step.usage.input_tokens, step.usage.output_tokens, step.usage.calls) == (120, 7, 1)
        request = server.exchanges[0].request
    assert server.exchanges[0].stream is stream
    assert request.get("stream_options") == ({"include_usage": True} if stream else None)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "tools" not in request


@BOTH
@pytest.mark.parametrize("reports", ["nothing", "nulls"])
async def test_usage_that_is_not_reported_is_estimated_and_marked(stream: bool, reports: Any) -> None:
    answer = Answer(
        text=nonsense(200), calls=(Call(tool="write_file", arguments={"path": "x" * 400}),), reports=reports
    )
    request = work(UserText(author="Ada", text="x" * 40_000), tools=(WRITE,))
    prices = {NAME: Price(input=1.0, output=10.0)}
    async with talking(lambda _request: answer, stream=stream, prices=prices) as (client, _):
        usage = (await client.step(request)).usage
    assert 10_000 <= usage.input_tokens <= 10_200
    assert 200 <= usage.output_tokens <= 600
    assert usage.estimated == usage.tokens
    assert usage.cost_usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1_000_000)


@BOTH
@pytest.mark.parametrize(
    ("reports", "known"), [("no total", (120, 7)), ("only total", (127, 0)), ("only output", (0, 7))]
)
async def test_usage_that_is_reported_in_part_is_used_as_far_as_it_goes(
    stream: bool, reports: Any, known: tuple[int, int]
) -> None:
    answer = Answer(text="Hello you there", usage=(120, 7), reports=reports)
    async with talking(lambda _request: answer, stream=stream) as (client, _):
        step = await client.step(work())
    assert step.text == "Hello you there"
    assert step.usage.input_tokens == known[0] or (not known[0] and step.usage.input_tokens > 0)
    assert step.usage.output_tokens == known[1] or (not known[1] and step.usage.output_tokens > 0)
    assert step.usage.estimated == step.usage.tokens - sum(known)


async def test_of_usage_that_comes_with_every_chunk_the_last_counts() -> None:
    answer = Answer(text=nonsense(60), usage=(120, 60), reports="each chunk")
    async with talking(lambda _request: answer) as (client, _):
        usage = (await client.step(work())).usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (120, 60, 0)


async def test_a_limit_of_tokens_counts_what_a_server_does_not_report() -> None:
    request = work(UserText(author="Ada", text="x" * 4_000))
    respond = lambda _request: Answer(text="Hi", reports="nothing")  # noqa: E731
    async with talking(respond, provider_tokens_per_minute=1_500) as (client, server):
        await client.step(request)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.step(request), 0.3)
    assert len(server.exchanges) == 1


async def test_what_a_broken_stream_took_is_estimated() -> None:
    async with talking(lambda _request: Breaks(answer=LONG, after=5)) as (client, _):
        with pytest.raises(ModelUnavailable) as caught:
            await client.step(work(UserText(author="Ada", text="x" * 4_000)))
    assert caught.value.usage.estimated == caught.value.usage.tokens > 1_000


async def test_streamed_text_grows_and_never_holds_a_thought() -> None:
    streamed: list[str] = []
    async with talking(lambda _request: Answer(text=nonsense(30), reasoning="secret " * 20)) as (client, _):
        step = await client.step(work(), streamed.append)
    assert len(streamed) > 3
    assert streamed[-1] == step.text
    assert all(step.text.startswith(text) for text in streamed)


@BOTH
async def test_a_thought_written_into_the_text_is_separated(stream: bool) -> None:
    streamed: list[str] = []
    answer = Answer(text="<think>a private thought</think>Hello you there")
    async with talking(lambda _request: answer, stream=stream) as (client, _):
        step = await client.step(work(), streamed.append)
    assert (step.text.strip(), step.thinking.strip()) == ("Hello you there", "a private thought")
    assert "private" not in "".join(streamed)


@BOTH
async def test_a_thought_without_an_opening_tag_is_never_streamed(stream: bool) -> None:
    streamed: list[str] = []
    expected = "The answer is forty-two, as far as anybody knows."
    async with talking(lambda _request: Answer(text=f"{nonsense(40)}</think>\n\n{expected}"), stream=stream) as (
        client,
        _,
    ):
        for _ in range(2):
            step = await client.step(work(), streamed.append)
            assert (step.text, step.thinking) == (expected, nonsense(40))
    assert all(expected.startswith(text) for text in streamed)
    assert bool(streamed) is stream


async def test_text_is_passed_on_as_it_comes_once_a_model_has_shown_how_it_marks_thoughts() -> None:
    streamed: list[str] = []
    async with talking(lambda _request: LONG) as (client, _):
        await client.step(work(), streamed.append)
        assert not streamed
        await client.step(work(), streamed.append)
    assert len(streamed) > 3
    assert streamed[-1] == LONG.text


async def test_a_decision_within_a_thought_is_not_obeyed() -> None:
    thought = json.dumps({**DECISION, "agents": ["executor"]})
    async with talking(lambda _request: Answer(text=f"{thought} is wrong</think>{json.dumps(DECISION)}")) as (
        client,
        _,
    ):
        decision = parse((await client.step(route())).text)
    assert isinstance(decision, RoutingDecision)
    assert decision.agents == ("planner",)


async def test_who_listens_badly_costs_nothing() -> None:
    streamed: list[str] = []

    def deaf(text: str) -> None:
        streamed.append(text)
        raise RuntimeError("broken observer")

    async with talking(lambda _request: LONG) as (client, _):
        await client.step(work())
        assert (await client.step(work(), deaf)).text == LONG.text
    assert len(streamed) == 1


@BOTH
async def test_several_calls_keep_their_order_and_a_bad_one_spoils_no_other(stream: bool) -> None:
    calls = (
        Call(tool="write_file", arguments={"path": "a"}),
        Call(tool="write_file", arguments='{"path": '),
        Call(tool="no_such_tool", arguments="[1]"),
        Call(tool="write_file", arguments=""),
    )
    async with talking(lambda _request: Answer(text="Now.", calls=calls), stream=stream) as (client, server):
        step = await client.step(work(tools=(WRITE,)))
        assert [tool["function"]["name"] for tool in server.exchanges[0].request["tools"]] == ["write_file"]
        assert server.exchanges[0].request["tools"][0]["function"]["parameters"] == WRITE.parameters
    assert [call.tool for call in step.calls] == ["write_file", "write_file", "no_such_tool", "write_file"]
    assert [bool(call.fault) for call in step.calls] == [False, True, True, False]
    assert step.calls[0].arguments == {"path": "a"}
    assert len({call.id for call in step.calls}) == 4


async def test_a_second_step_sends_the_first_back_with_its_thought_and_the_same_beginning() -> None:
    def respond(request: Json) -> Reply:
        if any(message["role"] == "tool" for message in request["messages"]):
            return Answer(text="Done.")
        return Answer(calls=(Call(tool="write_file", arguments={"path": "a"}, id="c"),), reasoning="I must write")

    async with talking(respond) as (client, server):
        person = UserText(author="Ada", text="Write")
        first = await client.step(work(person, tools=(WRITE,)))
        stored: Any = json.loads(json.dumps(first.vendor))
        kept = ModelStep(calls=first.calls, thinking=first.thinking, vendor=stored)
        await client.step(work(person, kept, result("c"), tools=(WRITE,)))
    one, two = (exchange.request for exchange in server.exchanges)
    assert json.dumps(two["messages"]).startswith(json.dumps(one["messages"])[:-1])
    assert two["messages"][2]["reasoning_content"] == "I must write"
    assert two["messages"][3] == {"role": "tool", "tool_call_id": "c", "content": "done"}
    assert not server.refused


@pytest.mark.parametrize("reply", [json.dumps(DECISION), f"Sure!\n```json\n{json.dumps(DECISION)}\n```"])
async def test_a_decision_is_asked_for_by_schema_and_comes_back_as_text(reply: str) -> None:
    async with talking(lambda _request: Answer(text=reply)) as (client, server):
        decision = parse((await client.step(route())).text)
        asked = server.exchanges[0].request["response_format"]["json_schema"]["schema"]
    assert asked["required"] == ["agents", "reason"]
    assert isinstance(decision, RoutingDecision)
    assert (decision.agents, decision.phase) == (("planner",), "plan")


async def test_a_server_without_structured_answers_is_asked_in_words_from_then_on() -> None:
    def respond(request: Json) -> Reply:
        if "response_format" in request:
            return Fails(status=400, message="response_format is not supported", code="unsupported_parameter")
        return Answer(text=json.dumps(DECISION))

    async with talking(respond) as (client, server):
        for _ in range(2):
            assert isinstance(parse((await client.step(route())).text), RoutingDecision)
        forms = ["response_format" in exchange.request for exchange in server.exchanges]
        assert "JSON Schema" in server.exchanges[-1].system
    assert forms == [True, False, False]


@pytest.mark.parametrize("message", ["Your request violates our content policy", "nothing to do with it"])
async def test_a_request_that_fails_in_words_too_changes_no_form(message: str) -> None:
    fails = [Fails(status=400, message=message)] * (1 if "policy" in message else 2)
    replies: list[Reply] = [*fails, Answer(text=json.dumps(DECISION))]
    async with talking(lambda _request: replies.pop(0)) as (client, server):
        with pytest.raises((ModelRefused, ModelUnavailable)):
            await client.step(route())
        await client.step(route())
        assert "response_format" in server.exchanges[-1].request


@BOTH
@pytest.mark.parametrize(
    ("fails", "part"),
    [
        (Fails(status=500), "fails at the moment (500"),
        (Fails(status=503, message="overloaded"), "is overloaded (503"),
        (Fails(status=529), "is overloaded (529"),
        (Fails(status=401, message=f"Bad key: {KEY}", code="invalid_api_key"), "models.providers.local.api_key_env"),
        (Fails(status=403), "does not accept the key (403"),
        (Fails(status=404, code="model_not_found"), "is not there (404, model_not_found)"),
        (Fails(status=402), "top up the account"),
        (Fails(status=429, code="insufficient_quota"), "top up the account"),
        (Fails(status=400, message="bad parameter of Ada", code="unsupported_value"), "unsupported_value"),
        (Fails(status=418), "failed (418"),
        (Closes(), "broke off the connection"),
        (Breaks(answer=LONG, after=3), "bro"),
        (Sends(body=b"<html>Ada</html>", content_type="text/html"), "cannot be read"),
        (Sends(body=b"{}"), "cannot be read"),
        (Sends(body=b'{"id": "x", "object": "chat.completion", "choices": []}'), "cannot be read"),
        (Sends(body=b"\xff\xfe not json"), "cannot be read"),
    ],
    ids=lambda value: value.__class__.__name__ + str(getattr(value, "status", "")),
)
async def test_temporary_and_fixable_failures_make_the_model_unavailable(stream: bool, fails: Reply, part: str) -> None:
    async with talking(lambda _request: fails, stream=stream) as (client, server):
        with pytest.raises(ModelUnavailable) as caught, capture_logs() as logs:
            await client.step(work())
        assert len(server.exchanges) == 1, "it was tried again"
    message = str(caught.value)
    if not (stream and isinstance(fails, Sends)):
        assert part in message
    assert message.startswith(f"{NAME} ")
    for secret in (KEY, "Ada", "Hello"):
        assert secret not in message
        assert secret not in str(logs)


@BOTH
@pytest.mark.parametrize(
    "fails",
    [
        Fails(status=400, message="This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
        Fails(status=400, message="violates our usage policy", code="content_policy_violation"),
        Answer(refusal="I cannot"),
        Answer(text="Half a", finish="length"),
        Answer(finish="content_filter"),
    ],
)
async def test_what_would_be_the_same_again_is_refused(stream: bool, fails: Reply) -> None:
    async with talking(lambda _request: fails, stream=stream) as (client, _):
        with pytest.raises(ModelRefused) as caught:
            await client.step(work())
    assert (caught.value.usage.input_tokens > 0) is isinstance(fails, Answer)


def unended() -> Sends:
    """A stream that ends in good order, but without the mark that the answer is complete."""
    delta = {"choices": [{"index": 0, "delta": {"content": "Half"}}]}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "test", **delta}
    return Sends(body=f"data: {json.dumps(chunk)}\n\n".encode(), content_type="text/event-stream")


async def test_a_stream_that_breaks_is_no_answer_even_if_it_ends_in_good_order() -> None:
    replies: list[Reply] = [unended(), unended()]
    async with talking(lambda _request: replies.pop(0) if replies else Answer(text="whole")) as (client, server):
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="broke off"):
                await client.step(work())
        assert (await client.step(work())).text == "whole"
    assert [exchange.stream for exchange in server.exchanges] == [True, True, False]  # it has no finish reason


async def test_after_broken_streams_a_stream_is_tried_again_later_and_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tenex.llm.provider_model.monotonic", lambda: now)
    is_updated = False
    respond = lambda request: Answer(text="Hello") if is_updated or not request.get("stream") else unended()  # noqa: E731

    async def asked(times: int) -> list[bool]:
        for _ in range(times):
            with suppress(ModelUnavailable):
                await client.step(work())
        return [exchange.stream for exchange in server.exchanges[-times:]]

    async with talking(respond) as (client, server):
        with capture_logs() as logs:
            assert await asked(3) == [True, True, False]
            now += STREAM_PAUSE
            assert await asked(2) == [True, False]
            is_updated = True
            now += 2 * STREAM_PAUSE
            assert await asked(2) == [True, True]
    assert [log["seconds"] for log in logs if log["event"] == "model.streams_off"] == [STREAM_PAUSE, 2 * STREAM_PAUSE]


@BOTH
async def test_an_answer_that_does_not_come_is_not_waited_for(stream: bool) -> None:
    async with talking(lambda _request: Hangs(), stream=stream, timeout=0.2) as (client, server):
        with pytest.raises(ModelUnavailable, match=r"did not finish its answer within 0\.2 s"):
            await client.step(work())
        await server.until(lambda at: at.exchanges[0].outcome == "cut")  # the connection is not left behind


async def test_a_stream_that_falls_silent_is_broken() -> None:
    stalls = Breaks(answer=LONG, after=4, stall=True)
    async with talking(lambda _request: stalls, timeout=60.0, idle_timeout=0.2) as (client, server):
        with pytest.raises(ModelUnavailable, match="fell silent") as caught:
            await client.step(work())
        assert caught.value.usage.calls == 1
        await server.until(lambda at: at.exchanges[0].outcome == "cut")


async def test_thinking_before_the_first_word_is_no_silence() -> None:
    slow = Answer(text="Hello", delay=1.0)
    async with talking(lambda _request: slow, idle_timeout=0.5) as (client, _):
        assert (await client.step(work())).text == "Hello"


async def test_a_closed_port_is_held_and_answers_once_it_is_open() -> None:
    async with talking(lambda _request: Answer(text="Hello")) as (client, server):
        await server.down()
        with pytest.raises(ModelUnavailable, match="cannot be reached: is its server up") as caught:
            await client.step(work())
        assert caught.value.usage == NO_USAGE
        await server.up()
        assert (await client.step(work())).text == "Hello"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "90"}, 90),
        ({"retry-after-ms": "45000"}, 45),
        ({"Retry-After": "999999"}, 3600),
        ({"Retry-After": "Wed, 01 Jan 2200 00:00:00 GMT"}, 3600),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, 90),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1m30s"}, None),
    ],
)
async def test_a_requested_wait_is_reported_and_kept_by_all(headers: dict[str, str], seconds: int | None) -> None:
    async with talking(lambda _request: Fails(status=429, headers=headers)) as (client, server):
        with pytest.raises(ModelUnavailable, match="slow down") as caught:
            await client.step(work())
        assert caught.value.retry_after == seconds
        asked = len(server.exchanges)
        with pytest.raises(ModelUnavailable) as again:
            await client.step(work())
        assert (len(server.exchanges) == asked) is (seconds is not None)
        if seconds is not None:
            assert again.value.retry_after == pytest.approx(seconds, abs=5)
            assert client.status()[0].paused == pytest.approx(seconds, abs=5)


async def test_a_short_wait_is_waited_for_and_not_counted_as_time() -> None:
    replies: list[Reply] = [Fails(status=429, headers={"retry-after-ms": "1500"}), Answer(text="Hello")]
    reports: list[CallReport] = []
    async with talking(lambda _request: replies.pop(0), timeout=1.2, observe=reports.append) as (client, _):
        with pytest.raises(ModelUnavailable):
            await client.step(work())
        assert (await client.step(work())).text == "Hello"
    assert [report.outcome for report in reports] == ["unavailable", "answered"]
    assert reports[1].queued > 1.2
    assert reports[1].first is not None
    assert 0 < reports[1].first <= reports[1].seconds < 1.2


async def test_never_more_at_once_than_the_provider_may_have() -> None:
    slow = Answer(text="Hello", delay=0.02)
    async with talking(lambda _request: slow, provider_concurrency=3) as (client, server):
        steps = await asyncio.gather(*(client.step(work()) for _ in range(12)))
    assert all(step.text == "Hello" for step in steps)
    assert server.most_at_once == 3


async def test_the_wait_for_a_turn_comes_with_the_step_and_with_the_failure() -> None:
    """So that it counts against no deadline, whatever became of the call."""
    replies: list[Reply] = [Answer(text="Hello", delay=0.3), Answer(text="Hello", delay=0.3), Fails(status=500)]
    async with talking(lambda _request: replies.pop(0), provider_concurrency=1) as (client, _):
        first, second, third = await asyncio.gather(*(client.step(work()) for _ in range(3)), return_exceptions=True)
    assert isinstance(first, ModelStep)
    assert isinstance(second, ModelStep)
    assert isinstance(third, ModelUnavailable)
    assert first.queued < 100
    assert second.queued > 200
    assert third.queued > 0.4
    assert third.model == NAME


async def test_a_refused_wait_reports_the_time_in_the_queue() -> None:
    replies: list[Reply] = [Answer(text="Hello", delay=0.3), Fails(status=429, headers={"Retry-After": "90"})]
    async with talking(lambda _request: replies.pop(0), provider_concurrency=1) as (client, server):
        found = await asyncio.gather(*(client.step(work()) for _ in range(3)), return_exceptions=True)
    assert len(server.exchanges) == 2
    last = found[-1]
    assert isinstance(last, ModelUnavailable)
    assert "asked to wait" in str(last)
    assert last.queued > 0.2


@BOTH
async def test_a_cancelled_call_costs_at_least_its_request(stream: bool) -> None:
    """Also where nothing was answered yet, or the call is not streamed; one that waited for its turn costs nothing."""
    message: list[tuple[Usage, str]] = []
    asked = replace(work(), on_cancelled=lambda usage, model: message.append((usage, model)))
    slow = Answer(text=nonsense(200), delay=30)
    prices = {NAME: Price(input=1_000_000, output=0)}
    async with talking(lambda _: slow, stream=stream, provider_concurrency=1, prices=prices) as (client, server):
        tasks = [asyncio.create_task(client.step(asked)) for _ in range(2)]
        await server.until(lambda at: at.exchanges)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    sent = request_tokens(asked.system, asked.entries, asked.tools)
    paid = [(usage.tokens, usage.estimated, usage.cost_usd, model) for usage, model in message if usage.calls]
    assert paid == [(sent, sent, float(sent), NAME)]


async def test_what_is_known_of_a_cancelled_call_is_logged() -> None:
    reports: list[CallReport] = []
    slow = Answer(text=nonsense(200), pace=0.05)
    async with talking(lambda _request: slow, observe=reports.append) as (client, server):
        task = asyncio.create_task(client.step(work()))
        await server.until(lambda at: at.exchanges)
        task.cancel()
        with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
            await task
    assert [report.outcome for report in reports] == ["cancelled"]
    assert [(line["event"], line["log_level"]) for line in logs] == [("model.cancelled", "info")]


@BOTH
async def test_a_call_that_is_cancelled_releases_everything(stream: bool) -> None:
    slow = Answer(text=nonsense(200), pace=0.05)
    async with talking(lambda _request: slow, stream=stream, provider_concurrency=1) as (client, server):
        task = asyncio.create_task(client.step(work()))
        await server.until(lambda at: at.exchanges)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda at: at.exchanges[0].outcome == "cut")
        server.script = lambda _request: Answer(text="next")
        assert (await client.step(work())).text == "next"


@BOTH
async def test_cached_tokens_are_counted_and_priced_as_such(stream: bool) -> None:
    answer = Answer(text="Hello", usage=(1000, 100), cached=800, stored=150)
    prices = {NAME: Price(input=2.0, output=10.0, cached_input=0.5, cache_write=3.0)}
    async with talking(lambda _request: answer, prices=prices, stream=stream) as (client, _):
        step = await client.step(work())
    assert step.usage.cost_usd == pytest.approx((50 * 2.0 + 800 * 0.5 + 150 * 3.0 + 100 * 10.0) / 1_000_000)
    counted = (step.usage.input_tokens, step.usage.cache_read_tokens, step.usage.cache_write_tokens)
    assert counted == (1000, 800, 150)


async def test_one_line_is_logged_for_a_call_without_the_text() -> None:
    async with talking(lambda _request: Answer(text="PRIVATE")) as (client, _):
        with capture_logs() as logs:
            await client.step(work(UserText(author="Ada", text="SECRET")))
    (line,) = [entry for entry in logs if entry["event"].startswith("model.")]
    assert line["event"] == "model.answered"
    assert (line["model"], line["agent"], line["purpose"]) == (NAME, "executor", "work")
    assert {"ms", "queued_ms", "input_tokens", "output_tokens", "cost_usd"} <= line.keys()
    assert not any(word in str(logs) for word in ("PRIVATE", "SECRET", KEY))


async def test_max_output_tokens_is_sent_to_the_server() -> None:
    async with talking(lambda _request: Answer(text="Hi"), max_output_tokens=123) as (client, server):
        await client.step(work())
    assert server.exchanges[0].request["max_tokens"] == 123
    assert text_of(server.exchanges[0].request["messages"][1]).startswith("<message from=")
