"""`spec.State(...)` and `spec.AgentLink(...)`, as pyagentic's pages write them.

Never: anything that is not a name of theirs.
"""

from .fields import AgentLink, State

__all__ = ["AgentLink", "State"]
