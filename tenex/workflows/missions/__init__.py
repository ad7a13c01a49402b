"""Missions: graphs whose nodes are functions, by pydantic-graph's names.

from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
"""

from .graph import Graph
from .graph_run import GraphRun, GraphRunResult
from .nodes import Answer, BaseNode, Dependency, Edge, End, GraphRunContext, NodeError, durable

__all__ = [
    "Answer",
    "BaseNode",
    "Dependency",
    "Edge",
    "End",
    "Graph",
    "GraphRun",
    "GraphRunContext",
    "GraphRunResult",
    "NodeError",
    "durable",
]
