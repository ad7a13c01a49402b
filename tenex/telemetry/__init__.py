"""What the operator can see of a running daemon: logs, numbers, health, traces.

Only the logs are imported here: whoever wants numbers (`meter`), a port for them (`http`) or spans (`traces`) imports
that module, so that a daemon without them does not load their libraries.
"""

from .logs import Format, Level, Telemetry, configure, redact

__all__ = ["Format", "Level", "Telemetry", "configure", "redact"]
