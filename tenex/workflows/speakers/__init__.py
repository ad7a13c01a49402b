"""Workflows of speakers, by AG2's names: graphs loaded, validated and drawn. Start at `rules.SpeakerRules`.

The names of `__all__` are what users' code imports; each is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenex.core.workflow.conditions import AgentTarget as AgentTarget
    from tenex.core.workflow.conditions import AllOf as AllOf
    from tenex.core.workflow.conditions import Always as Always
    from tenex.core.workflow.conditions import AnyOf as AnyOf
    from tenex.core.workflow.conditions import ContextEquals as ContextEquals
    from tenex.core.workflow.conditions import ContextIn as ContextIn
    from tenex.core.workflow.conditions import ContextThreshold as ContextThreshold
    from tenex.core.workflow.conditions import FromSpeaker as FromSpeaker
    from tenex.core.workflow.conditions import Not as Not
    from tenex.core.workflow.conditions import RevertToInitiatorTarget as RevertToInitiatorTarget
    from tenex.core.workflow.conditions import RoundRobinTarget as RoundRobinTarget
    from tenex.core.workflow.conditions import StayTarget as StayTarget
    from tenex.core.workflow.conditions import TerminateTarget as TerminateTarget
    from tenex.core.workflow.conditions import ToolCalled as ToolCalled
    from tenex.core.workflow.conditions import TransitionCondition as TransitionCondition
    from tenex.core.workflow.conditions import TransitionTarget as TransitionTarget
    from tenex.core.workflow.rounds import Envelope as Envelope
    from tenex.core.workflow.rounds import Finish as Finish
    from tenex.core.workflow.rounds import Handoff as Handoff
    from tenex.core.workflow.rounds import TransitionDecision as TransitionDecision
    from tenex.core.workflow.rounds import WorkflowState as WorkflowState
    from tenex.core.workflow.transitions import Transition as Transition
    from tenex.workflows.speakers.context import delete_context as delete_context
    from tenex.workflows.speakers.context import set_context as set_context
    from tenex.workflows.speakers.graph import TransitionGraph as TransitionGraph
    from tenex.workflows.speakers.registry import register_condition as register_condition
    from tenex.workflows.speakers.registry import register_target as register_target
    from tenex.workflows.speakers.workflow import Workflow as Workflow

_NAMES = {
    "tenex.core.workflow.conditions": (
        "AgentTarget AllOf Always AnyOf ContextEquals ContextIn ContextThreshold FromSpeaker Not "
        "RevertToInitiatorTarget RoundRobinTarget StayTarget TerminateTarget ToolCalled TransitionCondition "
        "TransitionTarget"
    ),
    "tenex.core.workflow.rounds": "Envelope Finish Handoff TransitionDecision WorkflowState",
    "tenex.core.workflow.transitions": "Transition",
    "tenex.workflows.speakers.context": "delete_context set_context",
    "tenex.workflows.speakers.graph": "TransitionGraph",
    "tenex.workflows.speakers.registry": "register_condition register_target",
    "tenex.workflows.speakers.workflow": "Workflow",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
