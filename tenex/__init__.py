"""tenex runs conversations between people and LLM agents over Nostr relays.

The names of `__all__` are what users' code imports: `from tenex import BaseAgent, tool`. Each is loaded when it is
first asked for, so that `tenex --help`, which begins with this file, stays fast. To read the code, start at
`tenex/core/phases.py`; `docs/architecture.md` says what comes next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .configuration.models import get_model as get_model
    from .core.conversation import Conversation as Conversation
    from .core.phases import PHASE_TRANSITIONS as PHASE_TRANSITIONS
    from .core.phases import Phase as Phase
    from .core.ports import ExecutionContext as ExecutionContext
    from .core.records import PhaseTransition as PhaseTransition
    from .core.routing import RoutingDecision as RoutingDecision
    from .core.state.run import OrchestratorTurn as OrchestratorTurn
    from .output_states import AgentState as AgentState
    from .runtime.coordinator import ConversationCoordinator as ConversationCoordinator
    from .workflows.agents import AgentLink as AgentLink
    from .workflows.agents import BaseAgent as BaseAgent
    from .workflows.agents import Link as Link
    from .workflows.agents import State as State
    from .workflows.agents import spec as spec
    from .workflows.agents import tool as tool
    from .workflows.missions import BaseNode as BaseNode
    from .workflows.missions import End as End
    from .workflows.missions import Graph as Graph
    from .workflows.missions import GraphRunContext as GraphRunContext
    from .workflows.speakers.rules import TransitionGraph as TransitionGraph

__version__ = "0.1.0"

_MODULES = {
    "AgentLink": "workflows.agents",
    "AgentState": "output_states",
    "BaseAgent": "workflows.agents",
    "BaseNode": "workflows.missions",
    "Conversation": "core.conversation",
    "ConversationCoordinator": "runtime.coordinator",
    "End": "workflows.missions",
    "ExecutionContext": "core.ports",
    "Graph": "workflows.missions",
    "GraphRunContext": "workflows.missions",
    "Link": "workflows.agents",
    "OrchestratorTurn": "core.state.run",
    "PHASE_TRANSITIONS": "core.phases",
    "Phase": "core.phases",
    "PhaseTransition": "core.records",
    "RoutingDecision": "core.routing",
    "State": "workflows.agents",
    "TransitionGraph": "workflows.speakers.rules",
    "get_model": "configuration.models",
    "spec": "workflows.agents",
    "tool": "workflows.agents",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
