"""tenex runs conversations between people and LLM agents over Nostr relays.

The names of `__all__` are what users import: `from tenex import BaseAgent, tool`. `docs/workflows.md` lists them.
Each is loaded when it is first asked for, so that `tenex --help`, which begins with this file, stays fast. To read the
code, start at `tenex/core/phases.py`; `docs/architecture.md` says what comes next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenex.core.config import Limits as Limits
    from tenex.core.conversation import Conversation as Conversation
    from tenex.core.cycle.records import PhaseTransition as PhaseTransition
    from tenex.core.ids import CallId as CallId
    from tenex.core.messages import AgentText as AgentText
    from tenex.core.messages import CallRequest as CallRequest
    from tenex.core.messages import CallResult as CallResult
    from tenex.core.messages import ModelRequest as ModelRequest
    from tenex.core.messages import ModelStep as ModelStep
    from tenex.core.messages import Note as Note
    from tenex.core.messages import ToolSpec as ToolSpec
    from tenex.core.messages import Usage as Usage
    from tenex.core.messages import UserText as UserText
    from tenex.core.phases import PHASE_TRANSITIONS as PHASE_TRANSITIONS
    from tenex.core.phases import Phase as Phase
    from tenex.core.ports import ExecutionContext as ExecutionContext
    from tenex.core.ports import Model as Model
    from tenex.core.ports import OnText as OnText
    from tenex.core.ports import ignore_text as ignore_text
    from tenex.core.router.answer import RoutingDecision as RoutingDecision
    from tenex.core.work.turn import OrchestratorTurn as OrchestratorTurn

    from .configuration.models import get_model as get_model
    from .operations.mission_folder import mission_folder as mission_folder
    from .operations.phase_run import PhasesResult as PhasesResult
    from .operations.phase_run import run_phases as run_phases
    from .output_states import AgentOutput as AgentOutput
    from .output_states import AgentState as AgentState
    from .output_states import AgentStateMachine as AgentStateMachine
    from .output_states import EncapsulatedStateMachine as EncapsulatedStateMachine
    from .output_states import FencedFreeformStateMachine as FencedFreeformStateMachine
    from .output_states import InnerMonologue as InnerMonologue
    from .output_states import JsonStateMachine as JsonStateMachine
    from .output_states import OutputModel as OutputModel
    from .output_states import Python as Python
    from .output_states import PythonStateMachine as PythonStateMachine
    from .output_states import Scratchpad as Scratchpad
    from .output_states import StateMachine as StateMachine
    from .output_states import Thinking as Thinking
    from .output_states import ToolCallState as ToolCallState
    from .output_states import ToolCallStateMachine as ToolCallStateMachine
    from .runtime.coordinator import ConversationCoordinator as ConversationCoordinator
    from .workflows.agents import AgentLink as AgentLink
    from .workflows.agents import AgentResult as AgentResult
    from .workflows.agents import BaseAgent as BaseAgent
    from .workflows.agents import Link as Link
    from .workflows.agents import State as State
    from .workflows.agents import spec as spec
    from .workflows.agents import tool as tool
    from .workflows.missions import Answer as Answer
    from .workflows.missions import BaseNode as BaseNode
    from .workflows.missions import Dependency as Dependency
    from .workflows.missions import Edge as Edge
    from .workflows.missions import End as End
    from .workflows.missions import Graph as Graph
    from .workflows.missions import GraphRun as GraphRun
    from .workflows.missions import GraphRunContext as GraphRunContext
    from .workflows.missions import GraphRunResult as GraphRunResult
    from .workflows.missions import NodeError as NodeError
    from .workflows.missions import durable as durable
    from .workflows.speakers import AgentTarget as AgentTarget
    from .workflows.speakers import AllOf as AllOf
    from .workflows.speakers import Always as Always
    from .workflows.speakers import AnyOf as AnyOf
    from .workflows.speakers import ContextEquals as ContextEquals
    from .workflows.speakers import ContextIn as ContextIn
    from .workflows.speakers import ContextThreshold as ContextThreshold
    from .workflows.speakers import Envelope as Envelope
    from .workflows.speakers import Finish as Finish
    from .workflows.speakers import FromSpeaker as FromSpeaker
    from .workflows.speakers import Handoff as Handoff
    from .workflows.speakers import Not as Not
    from .workflows.speakers import RevertToInitiatorTarget as RevertToInitiatorTarget
    from .workflows.speakers import RoundRobinTarget as RoundRobinTarget
    from .workflows.speakers import StayTarget as StayTarget
    from .workflows.speakers import TerminateTarget as TerminateTarget
    from .workflows.speakers import ToolCalled as ToolCalled
    from .workflows.speakers import Transition as Transition
    from .workflows.speakers import TransitionCondition as TransitionCondition
    from .workflows.speakers import TransitionDecision as TransitionDecision
    from .workflows.speakers import TransitionGraph as TransitionGraph
    from .workflows.speakers import TransitionTarget as TransitionTarget
    from .workflows.speakers import Workflow as Workflow
    from .workflows.speakers import WorkflowState as WorkflowState
    from .workflows.speakers import delete_context as delete_context
    from .workflows.speakers import register_condition as register_condition
    from .workflows.speakers import register_target as register_target
    from .workflows.speakers import set_context as set_context

__version__ = "0.1.0"

_NAMES = {
    "configuration.models": "get_model",
    "core.config": "Limits",
    "core.conversation": "Conversation",
    "core.ids": "CallId",
    "core.messages": "AgentText CallRequest CallResult ModelRequest ModelStep Note ToolSpec Usage UserText",
    "core.phases": "PHASE_TRANSITIONS Phase",
    "core.ports": "ExecutionContext Model OnText ignore_text",
    "core.records": "PhaseTransition",
    "core.router.answer": "RoutingDecision",
    "core.work.turn": "OrchestratorTurn",
    "operations.mission_folder": "mission_folder",
    "operations.phase_run": "PhasesResult run_phases",
    "output_states": (
        "AgentOutput AgentState AgentStateMachine EncapsulatedStateMachine FencedFreeformStateMachine "
        "InnerMonologue JsonStateMachine OutputModel Python PythonStateMachine Scratchpad StateMachine "
        "Thinking ToolCallState ToolCallStateMachine"
    ),
    "runtime.coordinator": "ConversationCoordinator",
    "workflows.agents": "AgentLink AgentResult BaseAgent Link State spec tool",
    "workflows.missions": (
        "Answer BaseNode Dependency Edge End Graph GraphRun GraphRunContext GraphRunResult NodeError durable"
    ),
    "workflows.speakers": (
        "AgentTarget AllOf Always AnyOf ContextEquals ContextIn ContextThreshold Envelope Finish FromSpeaker "
        "Handoff Not RevertToInitiatorTarget RoundRobinTarget StayTarget TerminateTarget ToolCalled "
        "Transition TransitionCondition TransitionDecision TransitionGraph TransitionTarget Workflow "
        "WorkflowState delete_context register_condition register_target set_context"
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULES)

_JOURNAL = "a run is kept by its journal: give `journal=` and `mission=` to `Graph.run`"
_BUILDER = "a graph is built of nodes: `Graph(nodes=[...])`"
_ERRORS = "catch `tenex.core.errors.WorkflowError`, or `ConfigurationError` for a graph with faults"
_REPLACED = {
    "BaseStatePersistence": _JOURNAL,
    "EndSnapshot": _JOURNAL,
    "FileStatePersistence": _JOURNAL,
    "FullStatePersistence": _JOURNAL,
    "GraphBuilder": _BUILDER,
    "GraphRuntimeError": _ERRORS,
    "GraphSetupError": _ERRORS,
    "NodeSnapshot": _JOURNAL,
    "SimpleStatePersistence": _JOURNAL,
    "Snapshot": _JOURNAL,
    "StepContext": _BUILDER,
}
"""Names of pydantic-graph that this program has no counterpart of, and what takes their place."""


def __getattr__(name: str) -> Any:
    if name in _REPLACED:
        # no AttributeError: `from tenex import ...` would replace its sentence
        raise ImportError(f"tenex has no {name}: {_REPLACED[name]}. See docs/workflows.md, Missions.")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
