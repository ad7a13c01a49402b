"""What a running daemon does for whoever asks over its socket (`service.control`).

Never: a rule of a conversation; an order that concerns one is a signal like a person's.
"""

from collections.abc import Mapping
from typing import Any

from tenex.flow.runtime import Runtime
from tenex.service.control import Handler

from .reloading import Reloading
from .report import Reporter


def orders(reporter: Reporter, reload: Reloading, runtime: Runtime) -> dict[str, Handler]:
    """The orders by the word that gives them."""

    async def read_again(_: Mapping[str, Any]) -> dict[str, Any]:
        """`reload`: as SIGHUP; a configuration that is refused is an error with all its faults."""
        return {"needsRestart": await reload()}

    async def stop(_: Mapping[str, Any]) -> dict[str, Any]:
        """`stop`: as SIGTERM; answers before it has stopped."""
        runtime.stop()
        return {}

    return {"status": reporter.status, "reload": read_again, "stop": stop}
