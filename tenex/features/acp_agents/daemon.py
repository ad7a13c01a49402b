"""Programs as agents in a running daemon."""

from tenex.app import Application
from tenex.app.extension import Extension

from .agents import AcpAgents


def extend(app: Application) -> Extension:
    """Answer for agents that are programs, and end their processes with their runs."""
    agents = AcpAgents(app)
    app.stack.push_async_callback(agents.close)
    return Extension(
        model=agents.model,
        tools=agents.tools,
        observers=[agents],
        opened=agents.forget_homes,
        stopping=agents.close,
    )
