"""Missions: graphs whose nodes are functions, by pydantic-graph's names.

from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
"""

from .graph import Graph, GraphRunResult
from .nodes import Answer, BaseNode, Dependency, End, GraphRunContext, NodeError, durable

__all__ = [
    "Answer",
    "BaseNode",
    "Dependency",
    "End",
    "Graph",
    "GraphRunContext",
    "GraphRunResult",
    "NodeError",
    "durable",
]
