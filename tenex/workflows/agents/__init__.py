"""Agents written in Python, by pyagentic's names.

from tenex.workflows.agents import AgentLink, BaseAgent, Link, State, spec, tool
"""

from . import spec
from .base import BaseAgent
from .fields import AgentLink, Link, State
from .standalone import AgentResult
from .tools import tool

__all__ = ["AgentLink", "AgentResult", "BaseAgent", "Link", "State", "spec", "tool"]
