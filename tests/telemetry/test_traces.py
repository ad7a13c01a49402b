"""Spans: their tree, their names and ids, what they keep to themselves, and a collector that is not there."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.ids import Millis
from tenex.core.signals import ModelFailed, Opened
from tenex.telemetry import spans as spans_module
from tenex.telemetry import traces as traces_module
from tenex.telemetry.traces import TraceConfig, TraceExport, open_traces
from tests.fakes.scenario import ID, Scenario, diligent, reply, seven_phases

from .kit import feed, go_through, whole_conversation

CONFIG = TraceConfig(endpoint="http://127.0.0.1:1/v1/traces", version="1.2.3")
Span = Any


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    logger = logging.getLogger("opentelemetry.exporter")
    before = logger.level
    yield
    logger.setLevel(before)


async def spans_of(
    scenario: Scenario, first: int = 0, last: int | None = None, *, content: bool = False
) -> Sequence[Span]:
    """The spans a process sends for these decisions."""
    exporter = InMemorySpanExporter()
    traces = TraceExport(exporter, TraceConfig(endpoint=CONFIG.endpoint, content=content, version="1.2.3"))
    feed(traces, scenario, first, last)
    await traces.close()
    return exporter.get_finished_spans()


def named(spans: Sequence[Span], operation: str) -> list[Span]:
    return [span for span in spans if span.attributes["gen_ai.operation.name"] == operation]


async def test_a_cycle_is_one_trace_of_turns_runs_chats_and_tools() -> None:
    scenario = whole_conversation()
    spans = await spans_of(scenario)
    assert len({span.context.trace_id for span in spans}) == 1
    by_id = {span.context.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    turns, runs = named(spans, "invoke_workflow"), named(spans, "invoke_agent")
    assert [span.name for span in turns] == [f"turn {turn.phase}" for turn in scenario.records(r.TurnOpened)]
    assert all(span.parent is None for span in turns)
    for run in runs:
        assert by_id[run.parent.span_id] in turns
    tools = named(spans, "execute_tool")
    assert len(tools) == len(scenario.records(r.ToolCallStarted)) + len(scenario.records(r.QuestionAsked))
    chats = [span for span in named(spans, "chat") if span.parent is not None]
    assert len(chats) == len(scenario.records(r.ModelResponded))
    for part in (*chats, *tools):
        run = by_id[part.parent.span_id]
        assert run in runs
        assert run.attributes["gen_ai.agent.name"] == part.attributes["gen_ai.agent.name"]
        assert run.start_time <= part.start_time <= part.end_time <= run.end_time
    routes = [span for span in named(spans, "chat") if span.parent is None]
    assert len(routes) == len(scenario.records(r.Routed))
    assert all(span.attributes["gen_ai.agent.name"] == "orchestrator" for span in routes)


async def test_spans_have_the_names_of_the_conventions() -> None:
    scenario = whole_conversation()
    spans = await spans_of(scenario)
    tool = next(span for span in spans if span.name == "execute_tool read_file")
    assert tool.attributes["gen_ai.tool.name"] == "read_file"
    assert tool.attributes["gen_ai.tool.call.id"]
    assert tool.kind.name == "INTERNAL"
    chat = next(span for span in named(spans, "chat") if span.parent is not None)
    assert (chat.name, chat.kind.name) == ("chat script", "CLIENT")
    assert chat.attributes["gen_ai.usage.input_tokens"] == 10
    assert chat.attributes["gen_ai.usage.output_tokens"] == 5
    assert chat.attributes["gen_ai.response.model"] == "script"
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {ID}
    assert {span.attributes["tenex.phase"] for span in spans} >= {"chat", "execute", "reflection"}
    first = named(spans, "invoke_workflow")[0]
    assert first.start_time == scenario.records(r.TurnOpened)[0].at * 1_000_000
    assert first.end_time == scenario.records(r.TurnClosed)[0].at * 1_000_000
    assert first.resource.attributes["service.name"] == "tenex"
    assert first.resource.attributes["service.version"] == "1.2.3"


async def test_a_restart_goes_on_in_the_same_trace() -> None:
    """The spans of one turn by two processes fit together: same ids, no span twice."""
    scenario = whole_conversation()
    cut = next(
        n for n, decision in enumerate(scenario.journal, 1) if any(isinstance(x, r.ToolCallStarted) for x in decision)
    )
    again = Scenario(seven_phases, diligent)
    again.now, again.count = Millis(scenario.now + 60_000), scenario.count
    again.journal = list(scenario.journal[:cut])
    again.conversation = fold(ID, [record for decision in again.journal for record in decision])
    again.handle(Opened())
    go_through(again)
    spans = [*await spans_of(again, last=cut), *await spans_of(again, first=cut)]
    assert len({span.context.trace_id for span in spans}) == 1
    ids = {span.context.span_id for span in spans}
    assert len(ids) == len(spans)
    assert {span.parent.span_id for span in spans if span.parent} <= ids
    assert len(named(spans, "invoke_agent")) == len(again.records(r.RunEnded))


async def test_another_cycle_is_another_trace() -> None:
    scenario = whole_conversation()
    first = await spans_of(scenario)
    before = len(scenario.journal)
    scenario.user_writes("And now something else")
    go_through(scenario)
    second = await spans_of(scenario, before)
    assert {span.context.trace_id for span in first}.isdisjoint({span.context.trace_id for span in second})
    assert {span.attributes["tenex.cycle"] for span in second} == {2}


async def test_spans_hold_no_text_unless_configured() -> None:
    scenario = whole_conversation()
    words = ("something nice", "Green, please", "executor built it", "test early", "Which colour?")
    sent = " ".join(span.to_json() for span in await spans_of(scenario))
    assert [word for word in words if word in sent] == []
    sent = " ".join(span.to_json() for span in await spans_of(scenario, content=True))
    assert [word for word in words if word not in sent] == []
    spans = await spans_of(scenario, content=True)
    tool = next(span for span in spans if span.name == "execute_tool read_file")
    assert tool.attributes["gen_ai.tool.call.arguments"] in ('{"path": "a"}', '{"path": "b"}')
    assert tool.attributes["gen_ai.tool.call.result"] == "read_file done"
    run = named(spans, "invoke_agent")[0]
    assert "You are an agent." in run.attributes["gen_ai.system_instructions"]
    assert "something nice" in run.attributes["gen_ai.input.messages"]


async def test_what_failed_is_an_error_of_its_kind() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="the secret reason", retryable=True),  # type: ignore[arg-type]
        reply("here you are"),
    ]
    scenario = Scenario(lambda _question: {"agents": ["planner"], "reason": "x"}, lambda _c, _call: answers.pop(0))
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("retry")
    failed, answered = [span for span in named(await spans_of(scenario), "chat") if span.parent is not None]
    assert failed.attributes["error.type"] == "unavailable"
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", "unavailable")
    assert answered.status.status_code.name == "UNSET"


async def test_half_a_surrogate_pair_costs_no_batch(collector: "Collector") -> None:
    scenario = Scenario(
        lambda _question: {"agents": ["planner"], "reason": "x"}, lambda _c, _call: reply("odd \ud800 words")
    )
    scenario.user_writes("hello")
    while not scenario.records(r.TurnClosed):
        scenario.step()
    traces = open_traces(TraceConfig(endpoint=collector.url, content=True))
    feed(traces, scenario)
    await traces.close()
    assert [span for span in collector.spans() if span.name == "invoke_agent planner"]


class Collector:
    """An OTLP collector on loopback: reads what comes as protobuf."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        self.status = 200
        self.came, self.free = threading.Event(), threading.Event()
        self.free.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.came.set()
                outer.free.wait(30)
                if outer.status == 200:
                    outer.requests.append(ExportTraceServiceRequest.FromString(body))
                outer.paths.append(self.path)
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self.free.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


async def test_a_collector_gets_them_over_http(collector: Collector) -> None:
    scenario = whole_conversation()
    traces = open_traces(TraceConfig(endpoint=collector.url, version="1.2.3"))
    feed(traces, scenario)
    await traces.close()
    assert set(collector.paths) == {"/v1/traces"}
    expected = await spans_of(scenario)
    got = {span.span_id: span for span in collector.spans()}
    assert len(got) == len(expected)
    for span in expected:
        sent = got[span.context.span_id.to_bytes(8, "big")]
        assert (sent.name, sent.start_time_unix_nano, sent.end_time_unix_nano) == (
            span.name,
            span.start_time,
            span.end_time,
        )
        assert sent.trace_id == span.context.trace_id.to_bytes(16, "big")
        assert sent.parent_span_id == (span.parent.span_id.to_bytes(8, "big") if span.parent else b"")


async def test_a_path_that_is_given_is_kept(collector: Collector) -> None:
    traces = open_traces(TraceConfig(endpoint=f"{collector.url}/my/traces"))
    feed(traces, whole_conversation())
    await traces.close()
    assert set(collector.paths) == {"/my/traces"}


async def test_a_collector_that_hangs_blocks_nothing_and_closing_is_bounded(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces_module, "CLOSE_TIMEOUT", 0.2)
    collector.free.clear()
    scenario = whole_conversation()
    traces = open_traces(TraceConfig(endpoint=collector.url))
    began = time.monotonic()
    feed(traces, scenario)
    assert time.monotonic() - began < 2
    with capture_logs() as logged:
        await traces.close()
    assert collector.came.is_set()
    assert [line["event"] for line in logged] == ["traces.not_flushed"]
    assert time.monotonic() - began < 4
    await traces.close()


async def test_an_unreachable_collector_is_logged_once(collector: Collector) -> None:
    collector.status = 400
    traces = open_traces(TraceConfig(endpoint=collector.url))
    scenario = whole_conversation()
    with capture_logs() as logged:
        for _ in range(3):
            feed(traces, scenario)
            await asyncio.to_thread(traces._processor.force_flush)
        assert [line["event"] for line in logged] == ["traces.not_sent"]
        collector.status = 200
        feed(traces, scenario)
        await traces.close()
    assert [line["event"] for line in logged] == ["traces.not_sent", "traces.sent_again"]
    assert logged[1]["lost"] == 3 * len(await spans_of(scenario))


async def test_an_exporter_that_throws_costs_only_its_spans() -> None:
    class Throws(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            raise RuntimeError("no")

    traces = TraceExport(Throws(), CONFIG)
    with capture_logs() as logged:
        feed(traces, whole_conversation())
        await traces.close()
    assert "traces.not_sent" in [line["event"] for line in logged]


async def test_a_fault_in_a_span_reaches_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    traces = TraceExport(exporter, CONFIG)
    monkeypatch.setitem(spans_module.DESCRIBE, "tool", lambda _: 1 / 0)
    with capture_logs() as logged:
        feed(traces, whole_conversation())
    await traces.close()
    assert {line["event"] for line in logged} == {"traces.failed"}
    assert exporter.get_finished_spans()


def test_without_the_extra_the_fault_names_it() -> None:
    """In a process of its own, where the exporter cannot be imported."""
    code = (
        "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
        "from tenex.core.errors import ConfigurationError\n"
        "from tenex.telemetry.traces import TraceConfig, open_traces\n"
        "try:\n    open_traces(TraceConfig(endpoint='http://127.0.0.1:1'))\n"
        "except ConfigurationError as fault:\n    print(fault)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "needs the extra `otel`" in done.stdout
    assert "tenexd[otel]" in done.stdout


def test_the_sdk_is_loaded_only_when_spans_are_wanted() -> None:
    code = (
        "import sys, tenex.telemetry, tenex.telemetry.traces\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
