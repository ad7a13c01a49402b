"""What we put into the OpenTelemetry SDK: ids of our own, and an exporter that says what it lost, once.

Imported by `traces` only, when spans are wanted: the SDK is an extra.
"""

import threading
from collections.abc import Sequence

import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

log = structlog.get_logger(__name__)


class GivenIds(IdGenerator):
    """Gives out the ids it was handed; set `next`, and `trace` for a span without a parent, before each span."""

    def __init__(self) -> None:
        self.next = 1
        self.trace = 1

    def generate_span_id(self) -> int:
        """The id of the span that begins now."""
        return self.next

    def generate_trace_id(self) -> int:
        """The trace of the span that begins now."""
        return self.trace


class ToldExporter(SpanExporter):
    """Sends with another exporter; tells when that begins to fail, and when it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._stopped = threading.Event()
        self.lost = 0
        """Spans that could not be sent since it last worked."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; in the SDK's thread."""
        try:
            result = self._exporter.export(spans)
        except Exception as fault:  # noqa: BLE001 whatever a network or the SDK throws, the batch was not sent
            result = SpanExportResult.FAILURE
            log.debug("traces.export_failed", reason=type(fault).__name__)
        if result is SpanExportResult.SUCCESS:
            if self.lost:
                log.info("traces.sent_again", lost=self.lost)
            self.lost = 0
        else:
            if not self.lost:
                log.warning("traces.not_sent", spans=len(spans), hint="is the collector at traces.endpoint there?")
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """End, once."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._exporter.shutdown()

    def give_up(self) -> None:
        """End though a batch is on its way: what waits between two tries of it is woken."""
        self.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait for what is on its way."""
        return self._exporter.force_flush(timeout_millis)
