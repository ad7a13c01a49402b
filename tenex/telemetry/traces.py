"""Spans for OpenTelemetry, made from what has become durable: turn > an agent's run > chats and tools.

    turn execute                     a trace is a cycle of a conversation; a restart goes on in the same
    └── invoke_agent executor
        ├── chat openai:gpt          one for every answer, failed tries too
        └── execute_tool write_file
    chat openai:gpt                  the router's, beside the turns it leads to

Names and attributes are those of the semantic conventions for generative AI; what they have no name for is `tenex.*`.
Times are the records'. Ids follow from what a span is, so what two processes tell of one turn fits together.
The SDK is the extra `otel`, imported when it is wanted; it sends from a thread of its own, and what it cannot send it
drops.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError
from tenex.core.installation import pip_install

from .durations import Interval, Intervals
from .spans import DESCRIBE, FAILED, Attributes, prompt, why, words

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

log = structlog.get_logger(__name__)

QUEUE: Final = 4096
"""Spans that wait to be sent: minutes of a busy daemon; then the oldest are dropped."""

EVERY_MS: Final = 2_000
"""Between two sendings of what is less than a full batch."""

SEND_TIMEOUT: Final = 5.0
"""Seconds for one sending, the SDK's own tries again included."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for the last spans when the daemon ends."""

PROMPTS: Final = 1_000
"""Prompts of open runs that are kept for their spans; a run that is never heard to end must not stay for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConfig:
    """Where spans go, and what they may tell."""

    endpoint: str
    """A collector's OTLP address over HTTP; a bare host means its `/v1/traces`."""
    content: bool = False
    version: str = ""
    """Ours."""


def open_traces(config: TraceConfig) -> "Traces":
    """Begin to send spans to a collector; whether it is there shows when there is something to send.

    Headers, certificates and the rest are taken from the SDK's own variables (`OTEL_EXPORTER_OTLP_HEADERS` ...).

    Raises:
        ConfigurationError: the extra `otel` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as fault:
        raise ConfigurationError(
            [f"traces.endpoint: sending spans needs the extra `otel`. Install it: {pip_install(extra='otel')}"]
        ) from fault
    endpoint = config.endpoint
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = f"{endpoint.rstrip('/')}/v1/traces"
    return Traces(OTLPSpanExporter(endpoint=endpoint, timeout=SEND_TIMEOUT), config)


class Traces:
    """Makes spans and sends them; an `Observer` of all conversations."""

    def __init__(self, exporter: "SpanExporter", config: TraceConfig) -> None:
        """Begin with an exporter of the SDK's; use `open_traces`."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from .otel_exporter import GivenIds, ToldExporter

        # the SDK says it for every batch; ours says it once
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._content = config.content
        self._intervals = Intervals()
        self._ids = GivenIds()
        self._exporter = ToldExporter(exporter)
        self._processor = BatchSpanProcessor(
            self._exporter, max_queue_size=QUEUE, schedule_delay_millis=EVERY_MS, max_export_batch_size=512
        )
        provider = TracerProvider(
            resource=Resource.create({"service.name": "tenex", "service.version": config.version}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("tenex", config.version)
        self._prompts: dict[tuple[str, str], Attributes] = {}

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Make spans of what ended with these records."""
        try:
            if self._content:
                self._note_prompts(conversation, records)
            for interval in self._intervals.on_records(conversation, records):
                self._make(conversation, interval)
        except Exception:  # the SDK is not ours, and a span is never worth a conversation
            log.exception("traces.failed", conversation=conversation.id)

    async def close(self) -> None:
        """Send what waits, for at most `CLOSE_TIMEOUT`; a second call does nothing."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            try:
                self._processor.shutdown()  # type: ignore[no-untyped-call]
            except Exception:  # what the SDK throws at its end nobody could do anything about
                log.exception("traces.close_failed")
            with suppress(RuntimeError):  # we did not wait for it, and the loop is gone
                loop.call_soon_threadsafe(done.set)

        # a thread of our own: at its end the loop would wait for one of its own pool, however long that takes
        thread = threading.Thread(target=shut_down, name="tenex-traces-close", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await done.wait()
        except TimeoutError:
            log.warning("traces.not_flushed", seconds=CLOSE_TIMEOUT)
            self._exporter.give_up()

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
        from opentelemetry.trace import SpanKind, Status, StatusCode

        name, attributes = describe(interval)
        attributes |= {
            "gen_ai.conversation.id": interval.conversation,
            "tenex.cycle": interval.cycle,
            "tenex.phase": str(interval.phase),
        }
        if interval.stage == "run":
            attributes |= self._prompts.pop((c.id, interval.key), {})
        if self._content:
            attributes |= words(interval, c)
        is_call = interval.stage in ("model", "route")
        self._ids.next = _id(interval.conversation, interval.key, 8)
        span: Span = self._tracer.start_span(
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

    def _context(self, interval: Interval) -> "Context":
        """The span this one is a part of; what stands alone hangs on nothing but its trace."""
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

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
    """An id that follows from what it names; 0 means none to OpenTelemetry, so it is never that."""
    digest = hashlib.sha256(f"{conversation} {what}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:size], "big") or 1
