"""An agent's output as a graph of states: what may be written, how it is read, and grammars that enforce it.

`AgentState` and its kin say what a state is, `AgentStateMachine` how they follow each other, `OutputParser` reads a
stream, `grammar` and `requests` make a server hold its model to the same. `OutputModel` puts all of it before a model.
"""

from .agents import AgentOutput, Enforced, Held, StateKind, runs_python
from .content import (
    EncapsulatedStateMachine,
    FencedFreeformStateMachine,
    JsonStateMachine,
    PythonStateMachine,
    StateMachine,
    ToolCallStateMachine,
)
from .grammar import Grammar, grammar
from .machine import AgentStateMachine, Plan
from .model import OutputModel, Told, in_states
from .parser import OutputParser
from .segments import Fault, Heard, Piece, Segment, repair_prompt
from .states import AgentState, InnerMonologue, Python, Scratchpad, Thinking, ToolCallState

__all__ = [
    "AgentOutput",
    "AgentState",
    "AgentStateMachine",
    "EncapsulatedStateMachine",
    "Enforced",
    "Fault",
    "FencedFreeformStateMachine",
    "Grammar",
    "Heard",
    "Held",
    "InnerMonologue",
    "JsonStateMachine",
    "OutputModel",
    "OutputParser",
    "Piece",
    "Plan",
    "Python",
    "PythonStateMachine",
    "Scratchpad",
    "Segment",
    "StateKind",
    "StateMachine",
    "Thinking",
    "Told",
    "ToolCallState",
    "ToolCallStateMachine",
    "grammar",
    "in_states",
    "repair_prompt",
    "runs_python",
]
