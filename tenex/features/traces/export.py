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

from tenex.core.conversation import Conversation
from tenex.core.records import Record
from tenex.log import get_logger
from tenex.telemetry.durations import Interval, Intervals
from tenex.telemetry.spans import DESCRIBE, FAILED, content, usage, why

log = get_logger(__name__)

QUEUE: Final = 4096
"""Spans queued for export: minutes of a busy daemon; then the oldest are dropped."""

EVERY_MS: Final = 2_000
"""Between exports of less than a full batch."""

SEND_TIMEOUT: Final = 5.0
"""Seconds for one export, including the SDK's retries."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for the last export when the daemon stops."""


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


class _PresetIds(IdGenerator):
    """Ids that are derived from keys; set before each span."""

    span = trace = 1

    def generate_span_id(self) -> int:
        return self.span

    def generate_trace_id(self) -> int:
        return self.trace


class _LoggingExporter(SpanExporter):
    """Wraps an exporter; logs when it starts to fail and when it works again. Its methods run in the SDK's thread."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._lost = 0
        """Spans lost since it last worked."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as fault:  # noqa: BLE001 whatever is raised, the batch was not sent
            result = SpanExportResult.FAILURE
            log.debug("traces.export_failed", reason=type(fault).__name__)
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                log.info("traces.sent_again", lost=self._lost)
            self._lost = 0
        else:
            if not self._lost:
                log.warning("traces.not_sent", spans=len(spans), hint="is the collector at traces.endpoint reachable?")
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class TraceExport:
    """Builds and exports spans; an `Observer` of all conversations."""

    def __init__(self, exporter: SpanExporter, *, with_content: bool = False, version: str = "") -> None:
        """Use an exporter of the SDK; see `open_traces`."""
        # the SDK logs every batch; _LoggingExporter logs once
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._content = with_content
        self._intervals = Intervals()
        self._ids = _PresetIds()
        self._exporter = exporter
        self._processor = BatchSpanProcessor(
            _LoggingExporter(exporter),
            max_queue_size=QUEUE,
            schedule_delay_millis=EVERY_MS,
            max_export_batch_size=512,
        )
        resource = Resource.create({"service.name": "tenex", "service.version": version})
        provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("tenex", version)

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Build spans of what ended with these records."""
        try:
            for interval in self._intervals.on_records(conversation, records):
                if interval.stage in DESCRIBE:
                    self._make(interval)
        except Exception:  # a span must not break a conversation
            log.exception("traces.failed", conversation=conversation.id)

    async def close(self) -> None:
        """Export queued spans for at most `CLOSE_TIMEOUT` seconds; a second call does nothing."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            with suppress(RuntimeError):  # close() timed out, and the loop is closed
                loop.call_soon_threadsafe(done.set)

        # not the loop's executor: the loop waits for its threads when it closes
        threading.Thread(target=shut_down, name="tenex-traces-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await done.wait()
        except TimeoutError:
            log.warning("traces.not_flushed", seconds=CLOSE_TIMEOUT)
            self._exporter.shutdown()  # interrupts its wait between two tries

    def _make(self, interval: Interval) -> None:
        name, attributes = DESCRIBE[interval.stage](interval)
        attributes |= usage(interval)
        attributes |= {
            "gen_ai.conversation.id": interval.conversation,
            "tenex.cycle": interval.cycle,
            "tenex.phase": str(interval.phase),
        }
        if self._content:
            attributes |= content(interval)
        self._ids.span = _id(interval.conversation, interval.key, 8)
        self._ids.trace = _id(interval.conversation, f"cycle {interval.cycle}", 16)
        context = Context()
        if interval.parent:
            parent = _id(interval.conversation, interval.parent, 8)
            flags = TraceFlags(TraceFlags.SAMPLED)
            known = SpanContext(self._ids.trace, parent, is_remote=False, trace_flags=flags)
            context = set_span_in_context(NonRecordingSpan(known), context)
        span = self._tracer.start_span(
            name,
            context=context,
            kind=SpanKind.CLIENT if interval.stage in ("model", "route") else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=interval.began * 1_000_000,
        )
        if interval.outcome in FAILED:
            span.set_attribute("error.type", interval.outcome)
            span.set_status(Status(StatusCode.ERROR, why(interval.ending) if self._content else interval.outcome))
        span.end(interval.ended * 1_000_000)


def _id(conversation: str, what: str, size: int) -> int:
    """Derive an id from a key; 0 is invalid in OpenTelemetry."""
    digest = hashlib.sha256(f"{conversation} {what}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:size], "big") or 1
