"""Observability of a running daemon: logs, and durations and spans for the features that report them."""

from tenex.core.text.foreign import redact

from .logs import Format, Level, Telemetry, configure

__all__ = ["Format", "Level", "Telemetry", "configure", "redact"]
