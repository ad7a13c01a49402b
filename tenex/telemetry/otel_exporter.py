"""Extensions of the OpenTelemetry SDK: deterministic ids, and an exporter that logs failures once.

Imported only when traces are configured: the SDK is an optional extra.
"""

import threading
from collections.abc import Sequence

import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

log = structlog.get_logger(__name__)


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
