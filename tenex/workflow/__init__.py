"""The public face for people who write workflows: graphs of speakers, by AG2's names, loaded, checked and drawn.

Start at `graph.TransitionGraph`; rounds are folded by `tenex.core.speakers`.

Never: run an agent, or hold what happened.
"""

from tenex.core.conditions import (
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    FromSpeaker,
    Not,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
    TransitionTarget,
)
from tenex.core.rounds import Called, Envelope, Finish, Handoff, Refused, TransitionDecision, WorkflowState
from tenex.core.rules import Transition
from tenex.core.speakers import Folded, begin, change_context, fold, may_speak

from .checks import Findings
from .context import delete_context, set_context
from .definitions import Workflow
from .graph import TransitionGraph
from .loading import load_graph
from .registry import TransitionRegistry, register_condition, register_target

__all__ = [
    "AgentTarget",
    "AllOf",
    "Always",
    "AnyOf",
    "Called",
    "ContextEquals",
    "ContextIn",
    "ContextThreshold",
    "Envelope",
    "Findings",
    "Finish",
    "Folded",
    "FromSpeaker",
    "Handoff",
    "Not",
    "Refused",
    "RevertToInitiatorTarget",
    "RoundRobinTarget",
    "StayTarget",
    "TerminateTarget",
    "ToolCalled",
    "Transition",
    "TransitionCondition",
    "TransitionDecision",
    "TransitionGraph",
    "TransitionRegistry",
    "TransitionTarget",
    "Workflow",
    "WorkflowState",
    "begin",
    "change_context",
    "delete_context",
    "fold",
    "load_graph",
    "may_speak",
    "register_condition",
    "register_target",
    "set_context",
]
