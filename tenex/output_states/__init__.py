"""An agent's output as a graph of states: what may be written, how it is read, and how a server enforces it.

`AgentState` describes a state, `AgentStateMachine` the order of states, `OutputParser` reads a stream, `requests` asks
a server to hold its model to the same. `OutputModel` puts all of it before a model.
"""

from .agents import AgentOutput, Enforced, OutputFormat, StateKind, runs_python
from .content import (
    EncapsulatedStateMachine,
    FencedFreeformStateMachine,
    JsonStateMachine,
    PythonStateMachine,
    StateMachine,
    ToolCallStateMachine,
)
from .machine import AgentStateMachine, OutputPlan
from .model import OnProgress, OutputModel, OutputProgress, in_states
from .parser import OutputFault, OutputParser, ParserEvent, Piece, Segment, repair_prompt
from .states import AgentState, InnerMonologue, Python, Scratchpad, Thinking, ToolCallState

__all__ = [
    "AgentOutput",
    "AgentState",
    "AgentStateMachine",
    "EncapsulatedStateMachine",
    "Enforced",
    "FencedFreeformStateMachine",
    "InnerMonologue",
    "JsonStateMachine",
    "OnProgress",
    "OutputFault",
    "OutputFormat",
    "OutputModel",
    "OutputParser",
    "OutputPlan",
    "OutputProgress",
    "ParserEvent",
    "Piece",
    "Python",
    "PythonStateMachine",
    "Scratchpad",
    "Segment",
    "StateKind",
    "StateMachine",
    "Thinking",
    "ToolCallState",
    "ToolCallStateMachine",
    "in_states",
    "repair_prompt",
    "runs_python",
]
