"""OpenTelemetry spans from appended records: turn > run > model and tool calls.

    turn execute                     a trace is a cycle of a conversation, also across restarts
    └── invoke_agent executor
        ├── chat openai:gpt          one per model call, failed ones too
        └── execute_tool write_file
    chat openai:gpt                  the router's, beside the turns

Names and attributes follow the semantic conventions for generative AI, others are `tenex.*`. Times are those of the
records, and ids are derived from keys, so spans of one turn by two processes belong together. The SDK is the extra
`otel`, so this module is imported only where spans are wanted; it exports from its own thread and drops what it cannot
send.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from tenex.core import records as r
from tenex.core.conversation import Conversation

from .durations import Interval, Intervals
from .spans import DESCRIBE, FAILED, Attributes, content, prompt, why

log = structlog.get_logger(__name__)

QUEUE: Final = 4096
"""Spans queued for export: minutes of a busy daemon; then the oldest are dropped."""

EVERY_MS: Final = 2_000
"""Between exports of less than a full batch."""

SEND_TIMEOUT: Final = 5.0
"""Seconds for one export, including the SDK's retries."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for the last export when the daemon stops."""

PROMPTS: Final = 1_000
"""Prompts of open runs kept for their spans; bounded, because the end of a run may never be seen."""


def open_traces(endpoint: str, *, with_content: bool = False, version: str = "") -> "TraceExport":
    """Export spans to a collector; it is first contacted with the first spans.

    Headers, certificates and more come from the SDK's environment variables (`OTEL_EXPORTER_OTLP_HEADERS` ...).

    Args:
        endpoint: its OTLP address over HTTP; a bare host means its `/v1/traces`.
        with_content: whether spans contain messages.
        version: the version of tenex.
    """
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = f"{endpoint.rstrip('/')}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=SEND_TIMEOUT)
    return TraceExport(exporter, with_content=with_content, version=version)


class PresetIds(IdGenerator):
    """Returns preset ids; set `next`, and `trace` for a root span, before each span."""

    def __init__(self) -> None:
        self.next = 1
        self.trace = 1

    def generate_span_id(self) -> int:
        """The preset span id."""
        return self.next

    def generate_trace_id(self) -> int:
        """The preset trace id."""
        return self.trace


class LoggingExporter(SpanExporter):
    """Wraps an exporter; logs when it starts to fail and when it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._stopped = threading.Event()
        self.lost = 0
        """Spans lost since it last worked."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; in the SDK's thread."""
        try:
            result = self._exporter.export(spans)
        except Exception as fault:  # noqa: BLE001 whatever is raised, the batch was not sent
            result = SpanExportResult.FAILURE
            log.debug("traces.export_failed", reason=type(fault).__name__)
        if result is SpanExportResult.SUCCESS:
            if self.lost:
                log.info("traces.sent_again", lost=self.lost)
            self.lost = 0
        else:
            if not self.lost:
                log.warning("traces.not_sent", spans=len(spans), hint="is the collector at traces.endpoint reachable?")
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut the exporter down, once; during an export its wait between two tries is interrupted."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait for pending exports."""
        return self._exporter.force_flush(timeout_millis)


class TraceExport:
    """Builds and exports spans; an `Observer` of all conversations."""

    def __init__(self, exporter: SpanExporter, *, with_content: bool = False, version: str = "") -> None:
        """Use an exporter of the SDK; see `open_traces`."""
        # the SDK logs every batch; LoggingExporter logs once
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._content = with_content
        self._intervals = Intervals()
        self._ids = PresetIds()
        self._exporter = LoggingExporter(exporter)
        self._processor = BatchSpanProcessor(
            self._exporter, max_queue_size=QUEUE, schedule_delay_millis=EVERY_MS, max_export_batch_size=512
        )
        provider = TracerProvider(
            resource=Resource.create({"service.name": "tenex", "service.version": version}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("tenex", version)
        self._prompts: dict[tuple[str, str], Attributes] = {}

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Build spans of what ended with these records."""
        try:
            if self._content:
                self._note_prompts(conversation, records)
            for interval in self._intervals.on_records(conversation, records):
                self._make(conversation, interval)
        except Exception:  # a span must not break a conversation
            log.exception("traces.failed", conversation=conversation.id)

    async def close(self) -> None:
        """Export queued spans for at most `CLOSE_TIMEOUT` seconds; a second call does nothing."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            try:
                self._processor.shutdown()  # type: ignore[no-untyped-call]
            except Exception:  # nothing can be done about an error of the SDK at its end
                log.exception("traces.close_failed")
            with suppress(RuntimeError):  # close() timed out, and the loop is closed
                loop.call_soon_threadsafe(done.set)

        # not the loop's executor: the loop waits for its threads when it closes
        thread = threading.Thread(target=shut_down, name="tenex-traces-close", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await done.wait()
        except TimeoutError:
            log.warning("traces.not_flushed", seconds=CLOSE_TIMEOUT)
            self._exporter.shutdown()

    def _note_prompts(self, c: Conversation, records: Sequence[r.Record]) -> None:
        for record in records:
            run = c.runs.get(record.run) if isinstance(record, r.RunStarted) else None
            if run is not None:
                if len(self._prompts) >= PROMPTS:
                    self._prompts.clear()
                self._prompts[c.id, run.id] = prompt(run)

    def _make(self, c: Conversation, interval: Interval) -> None:
        describe = DESCRIBE.get(interval.stage)
        if describe is None:
            return
        name, attributes = describe(interval)
        attributes |= {
            "gen_ai.conversation.id": interval.conversation,
            "tenex.cycle": interval.cycle,
            "tenex.phase": str(interval.phase),
        }
        if interval.stage == "run":
            attributes |= self._prompts.pop((c.id, interval.key), {})
        if self._content:
            attributes |= content(interval, c)
        is_call = interval.stage in ("model", "route")
        self._ids.next = _id(interval.conversation, interval.key, 8)
        span = self._tracer.start_span(
            name,
            context=self._context(interval),
            kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=interval.began * 1_000_000,
        )
        if interval.outcome in FAILED:
            span.set_attribute("error.type", interval.outcome)
            span.set_status(Status(StatusCode.ERROR, why(interval.ending) if self._content else interval.outcome))
        span.end(max(interval.began, interval.ended) * 1_000_000)

    def _context(self, interval: Interval) -> Context:
        """The parent span; a root span has only its trace."""
        trace = _id(interval.conversation, f"cycle {interval.cycle}", 16)
        if not interval.parent:
            self._ids.trace = trace
            return Context()
        parent = SpanContext(
            trace,
            _id(interval.conversation, interval.parent, 8),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        return set_span_in_context(NonRecordingSpan(parent), Context())


def _id(conversation: str, what: str, size: int) -> int:
    """Derive an id from a key; 0 is invalid in OpenTelemetry."""
    digest = hashlib.sha256(f"{conversation} {what}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:size], "big") or 1
