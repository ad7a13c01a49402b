"""Agents written in Python, by pyagentic's names.

    from tenex.workflow.agents import AgentLink, BaseAgent, Link, State, spec, tool

Never: an agent of ours; those are Markdown.
"""

from . import spec
from .base import BaseAgent
from .fields import AgentLink, Link, State
from .methods import tool
from .standalone import AgentResult

__all__ = ["AgentLink", "AgentResult", "BaseAgent", "Link", "State", "spec", "tool"]
