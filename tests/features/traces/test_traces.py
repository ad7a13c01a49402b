"""Spans: their tree, their names and ids, what they keep to themselves, and a collector that is not there."""

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.features.traces import export as traces_module
from tenex.features.traces.export import TraceExport, open_traces
from tenex.telemetry import spans as spans_module
from tests.fakes.scenario import ID, Scenario, reply
from tests.telemetry.kit import REFUSED, answering, feed, go_through, restarted, whole_conversation

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
    traces = TraceExport(exporter, with_content=content, version="1.2.3")
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
    turns, runs, tools = (named(spans, name) for name in ("invoke_workflow", "invoke_agent", "execute_tool"))
    assert [span.name for span in turns] == [f"turn {turn.phase}" for turn in scenario.records(r.TurnOpened)]
    assert all(span.parent is None for span in turns)
    assert all(by_id[run.parent.span_id] in turns for run in runs)
    assert len(tools) == len(scenario.records(r.ToolCallStarted)) + len(scenario.records(r.QuestionAsked))
    chats = [span for span in named(spans, "chat") if span.parent is not None]
    assert len(chats) == len(scenario.records(r.ModelResponded))
    for part in (*chats, *tools):
        run = by_id[part.parent.span_id]
        assert run in runs
        assert run.attributes["gen_ai.agent.name"] == part.attributes["gen_ai.agent.name"]
        assert run.start_time <= part.start_time <= part.end_time <= run.end_time
    routes = [span.attributes["gen_ai.agent.name"] for span in named(spans, "chat") if span.parent is None]
    assert routes == ["orchestrator"] * len(scenario.records(r.Routed))


async def test_spans_have_the_names_of_the_conventions_and_another_cycle_is_another_trace() -> None:
    scenario = whole_conversation()
    spans = await spans_of(scenario)
    tool = next(span for span in spans if span.name == "execute_tool read_file")
    assert (tool.attributes["gen_ai.tool.name"], tool.kind.name) == ("read_file", "INTERNAL")
    assert tool.attributes["gen_ai.tool.call.id"]
    chat = next(span for span in named(spans, "chat") if span.parent is not None)
    assert (chat.name, chat.kind.name) == ("chat script", "CLIENT")
    usage = [chat.attributes[f"gen_ai.{name}"] for name in ("usage.input_tokens", "usage.output_tokens")]
    assert (usage, chat.attributes["gen_ai.response.model"]) == ([10, 5], "script")
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {ID}
    assert {span.attributes["tenex.phase"] for span in spans} >= {"chat", "execute", "reflection"}
    first = named(spans, "invoke_workflow")[0]
    assert first.start_time == scenario.records(r.TurnOpened)[0].at * 1_000_000
    assert first.end_time == scenario.records(r.TurnClosed)[0].at * 1_000_000
    service = [first.resource.attributes[f"service.{name}"] for name in ("name", "version")]
    assert service == ["tenex", "1.2.3"]

    before = len(scenario.journal)
    scenario.user_writes("And now something else")
    go_through(scenario)
    second = await spans_of(scenario, before)
    assert {span.context.trace_id for span in spans}.isdisjoint({span.context.trace_id for span in second})
    assert {span.attributes["tenex.cycle"] for span in second} == {2}


async def test_a_restart_goes_on_in_the_same_trace() -> None:
    """The spans of one turn by two processes fit together: same ids, no span twice."""
    scenario = whole_conversation()
    started = [any(isinstance(one, r.ToolCallStarted) for one in decision) for decision in scenario.journal]
    cut = started.index(True) + 1
    again = restarted(scenario, cut, 60_000)
    spans = [*await spans_of(again, last=cut), *await spans_of(again, first=cut)]
    assert len({span.context.trace_id for span in spans}) == 1
    ids = {span.context.span_id for span in spans}
    assert len(ids) == len(spans)
    assert {span.parent.span_id for span in spans if span.parent} <= ids
    assert len(named(spans, "invoke_agent")) == len(again.records(r.RunEnded))


async def test_spans_hold_no_text_unless_configured() -> None:
    scenario = whole_conversation()
    words = {"something nice", "Green, please", "executor built it", "test early", "Which colour?"}
    for content in (False, True):
        spans = await spans_of(scenario, content=content)
        sent = " ".join(span.to_json() for span in spans)
        assert {word for word in words if word in sent} == (words if content else set())
    tool = next(span for span in spans if span.name == "execute_tool read_file")
    assert tool.attributes["gen_ai.tool.call.arguments"] in ('{"path": "a"}', '{"path": "b"}')
    assert tool.attributes["gen_ai.tool.call.result"] == "read_file done"
    run = named(spans, "invoke_agent")[0]
    assert "You are an agent." in run.attributes["gen_ai.system_instructions"]
    assert "something nice" in run.attributes["gen_ai.input.messages"]


async def test_what_failed_is_an_error_of_its_kind() -> None:
    scenario = answering([REFUSED, reply("here you are")])
    failed, answered = [span for span in named(await spans_of(scenario), "chat") if span.parent is not None]
    assert failed.attributes["error.type"] == "unavailable"
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", "unavailable")
    assert answered.status.status_code.name == "UNSET"


class Collector:
    """An OTLP collector on loopback: reads what comes as protobuf."""

    def __init__(self) -> None:
        self.spans: dict[bytes, Any] = {}
        self.paths: list[str] = []
        self.url, self.status = "", 200
        self.came, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.partition("content-length: ")[2].split()[0]))
        self.came.set()
        await self.free.wait()
        self.paths.append(head.split()[1])
        if self.status == 200:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans |= {span.span_id: span for scope in resource.scope_spans for span in scope.spans}
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield collector
    collector.free.set()
    server.close()


@pytest.mark.parametrize(("given", "path"), [("", "/v1/traces"), ("/my/traces", "/my/traces")])
async def test_a_collector_gets_them_over_http(collector: Collector, given: str, path: str) -> None:
    scenario = whole_conversation()
    traces = open_traces(f"{collector.url}{given}", version="1.2.3")
    feed(traces, scenario)
    await traces.close()
    assert set(collector.paths) == {path}
    expected = await spans_of(scenario)
    assert len(collector.spans) == len(expected)
    for span in expected:
        sent = collector.spans[span.context.span_id.to_bytes(8, "big")]
        times = (sent.start_time_unix_nano, sent.end_time_unix_nano)
        assert (sent.name, *times) == (span.name, span.start_time, span.end_time)
        assert sent.trace_id == span.context.trace_id.to_bytes(16, "big")
        assert sent.parent_span_id == (span.parent.span_id.to_bytes(8, "big") if span.parent else b"")


async def test_half_a_surrogate_pair_costs_no_batch(collector: Collector) -> None:
    scenario = answering([reply("odd \ud800 words")], "planner")
    scenario.settle(1)
    traces = open_traces(collector.url, with_content=True)
    feed(traces, scenario)
    await traces.close()
    assert "invoke_agent planner" in {span.name for span in collector.spans.values()}


async def test_a_collector_that_hangs_blocks_nothing_and_closing_is_bounded(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces_module, "CLOSE_TIMEOUT", 0.5)
    collector.free.clear()
    scenario = whole_conversation()
    traces = open_traces(collector.url)
    began = time.monotonic()
    feed(traces, scenario)
    with capture_logs() as logged:
        await traces.close()
    assert time.monotonic() - began < 6
    assert collector.came.is_set()
    assert [line["event"] for line in logged] == ["traces.not_flushed"]
    await traces.close()


async def test_an_unreachable_collector_is_logged_once(collector: Collector) -> None:
    collector.status = 400
    traces = open_traces(collector.url)
    scenario = whole_conversation()
    with capture_logs() as logged:
        for _ in range(3):
            feed(traces, scenario)
            await asyncio.to_thread(traces._processor.force_flush)
        collector.status = 200
        feed(traces, scenario)
        await traces.close()
    assert [line["event"] for line in logged] == ["traces.not_sent", "traces.sent_again"]
    assert logged[1]["lost"] == 3 * len(await spans_of(scenario))


async def test_an_exporter_or_a_span_that_fails_reaches_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    traces = TraceExport(exporter)
    with capture_logs() as logged, monkeypatch.context() as patch:
        patch.setitem(spans_module.DESCRIBE, "tool", lambda _: 1 / 0)
        feed(traces, whole_conversation())
        await traces.close()
    assert {line["event"] for line in logged} == {"traces.failed"}
    assert exporter.get_finished_spans()

    monkeypatch.setattr(exporter, "export", lambda spans: 1 / 0)
    traces = TraceExport(exporter)
    with capture_logs() as logged:
        feed(traces, whole_conversation())
        await traces.close()
    assert "traces.not_sent" in [line["event"] for line in logged]


def test_the_sdk_is_loaded_only_when_spans_are_wanted_and_the_fault_without_it_names_the_extra() -> None:
    """In a process of its own, where the exporter cannot be imported."""
    code = (
        "import sys\n"
        "from contextlib import AsyncExitStack\n"
        "from types import SimpleNamespace\n"
        "from tenex.features.traces.feature import TRACES\n"
        "from tenex.features.traces.daemon import open_spans\n"
        "from tenex.core.errors import ConfigurationError\n"
        "from tenex.settings import Settings\n"
        "assert TRACES.extend(SimpleNamespace(settings=Settings())).observers == ()\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))])\n"
        "sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
        "try:\n    open_spans(AsyncExitStack(), Settings(traces={'endpoint': 'http://127.0.0.1:1'}))\n"
        "except ConfigurationError as fault:\n    print(fault)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded, fault = done.stdout.split("\n", 1)
    assert loaded == "[]"
    assert "needs the extra `otel`" in fault
    assert "tenexd[otel]" in fault
