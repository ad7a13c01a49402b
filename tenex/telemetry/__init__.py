"""Observability of a running daemon: logs, metrics, health, traces.

Only logs are imported here. `metrics`, `http` and `traces` are imported on demand, because their libraries load slowly.
"""

from tenex.core.text import redact

from .logs import Format, Level, Telemetry, configure

__all__ = ["Format", "Level", "Telemetry", "configure", "redact"]
