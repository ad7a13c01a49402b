"""tenex runs conversations between people and LLM agents over Nostr relays.

The names of `__all__` are what users' code imports: `from tenex import BaseAgent, tool`. Each is loaded when it is
first asked for, so that `tenex --help`, which begins with this file, stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.minds import get_model as get_model
    from .core.conversation import Conversation as Conversation
    from .core.phases import PHASE_TRANSITIONS as PHASE_TRANSITIONS
    from .core.phases import Phase as Phase
    from .core.ports import ExecutionContext as ExecutionContext
    from .core.records import PhaseTransition as PhaseTransition
    from .core.routing import RoutingDecision as RoutingDecision
    from .core.runs import OrchestratorTurn as OrchestratorTurn
    from .flow.coordinator import ConversationCoordinator as ConversationCoordinator
    from .workflow.agents import AgentLink as AgentLink
    from .workflow.agents import BaseAgent as BaseAgent
    from .workflow.agents import Link as Link
    from .workflow.agents import State as State
    from .workflow.agents import spec as spec
    from .workflow.agents import tool as tool
    from .workflow.graph import TransitionGraph as TransitionGraph
    from .workflow.missions import BaseNode as BaseNode
    from .workflow.missions import End as End
    from .workflow.missions import Graph as Graph
    from .workflow.missions import GraphRunContext as GraphRunContext
    from .workflow.output import AgentState as AgentState

__version__ = "0.1.0"

_MODULES = {
    "AgentLink": "workflow.agents", "AgentState": "workflow.output", "BaseAgent": "workflow.agents",
    "BaseNode": "workflow.missions", "Conversation": "core.conversation",
    "ConversationCoordinator": "flow.coordinator", "End": "workflow.missions", "ExecutionContext": "core.ports",
    "Graph": "workflow.missions", "GraphRunContext": "workflow.missions", "Link": "workflow.agents",
    "OrchestratorTurn": "core.runs", "PHASE_TRANSITIONS": "core.phases", "Phase": "core.phases",
    "PhaseTransition": "core.records", "RoutingDecision": "core.routing", "State": "workflow.agents",
    "TransitionGraph": "workflow.graph", "get_model": "app.minds", "spec": "workflow.agents",
    "tool": "workflow.agents",
}  # fmt: skip

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
