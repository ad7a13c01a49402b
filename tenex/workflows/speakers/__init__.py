"""Workflows of speakers, by AG2's names: graphs loaded, validated and drawn. Start at `rules.SpeakerRules`.

The names of `__all__` are what users' code imports; each is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenex.core.work.routes import Finish as Finish
    from tenex.core.work.routes import Handoff as Handoff
    from tenex.workflows.speakers.conditions import AgentTarget as AgentTarget
    from tenex.workflows.speakers.conditions import AllOf as AllOf
    from tenex.workflows.speakers.conditions import Always as Always
    from tenex.workflows.speakers.conditions import AnyOf as AnyOf
    from tenex.workflows.speakers.conditions import ContextEquals as ContextEquals
    from tenex.workflows.speakers.conditions import ContextIn as ContextIn
    from tenex.workflows.speakers.conditions import ContextThreshold as ContextThreshold
    from tenex.workflows.speakers.conditions import FromSpeaker as FromSpeaker
    from tenex.workflows.speakers.conditions import Not as Not
    from tenex.workflows.speakers.conditions import RevertToInitiatorTarget as RevertToInitiatorTarget
    from tenex.workflows.speakers.conditions import RoundRobinTarget as RoundRobinTarget
    from tenex.workflows.speakers.conditions import StayTarget as StayTarget
    from tenex.workflows.speakers.conditions import TerminateTarget as TerminateTarget
    from tenex.workflows.speakers.conditions import ToolCalled as ToolCalled
    from tenex.workflows.speakers.conditions import TransitionCondition as TransitionCondition
    from tenex.workflows.speakers.conditions import TransitionTarget as TransitionTarget
    from tenex.workflows.speakers.context import delete_context as delete_context
    from tenex.workflows.speakers.context import set_context as set_context
    from tenex.workflows.speakers.graph import TransitionGraph as TransitionGraph
    from tenex.workflows.speakers.registry import register_condition as register_condition
    from tenex.workflows.speakers.registry import register_target as register_target
    from tenex.workflows.speakers.rounds import Envelope as Envelope
    from tenex.workflows.speakers.rounds import TransitionDecision as TransitionDecision
    from tenex.workflows.speakers.rounds import WorkflowState as WorkflowState
    from tenex.workflows.speakers.transitions import Transition as Transition
    from tenex.workflows.speakers.workflow import Workflow as Workflow

_NAMES = {
    "tenex.workflows.speakers.conditions": (
        "AgentTarget AllOf Always AnyOf ContextEquals ContextIn ContextThreshold FromSpeaker Not "
        "RevertToInitiatorTarget RoundRobinTarget StayTarget TerminateTarget ToolCalled TransitionCondition "
        "TransitionTarget"
    ),
    "tenex.core.work.routes": "Finish Handoff",
    "tenex.workflows.speakers.rounds": "Envelope TransitionDecision WorkflowState",
    "tenex.workflows.speakers.transitions": "Transition",
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
