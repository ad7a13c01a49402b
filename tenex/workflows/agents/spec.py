"""`spec.State(...)` and `spec.AgentLink(...)`, as pyagentic's pages write them."""

from .fields import AgentLink, State

__all__ = ["AgentLink", "State"]
