"""What records do to the states of agents with phases of their own, which the memory keeps."""

from typing import Final

from tenex.core import records as r
from tenex.core.memory.reducers import recalled
from tenex.core.memory.state import Memory
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.run import Run

from .program import AgentPhaseState, Moved

AGENT_PHASES: Final = Reducers[Memory]("memory")


def _state_of(memory: Memory, run: Run) -> AgentPhaseState:
    return memory.agent_states.get(run.state_key, AgentPhaseState())


def _with_state(memory: Memory, key: str, agent_state: AgentPhaseState) -> Memory:
    return replace(memory, agent_states={**memory.agent_states, key: agent_state})


def has_new_values(state: State, run: Run, record: r.ToolCallCompleted) -> bool:
    """Whether a call gives fields of its agent's state other values."""
    agent_state = _state_of(state.memory, run)
    return agent_state.changed(record.values) != agent_state


@AGENT_PHASES.on(r.ToolCallCompleted)
def _call_returned(memory: Memory, record: r.ToolCallCompleted, before: State) -> Memory:
    run = before.work.runs.get(record.run)
    if run is None or not has_new_values(before, run, record):
        return memory
    return _with_state(memory, run.state_key, _state_of(memory, run).changed(record.values))


@AGENT_PHASES.on(r.AgentStateInitialized)
def _initialized(memory: Memory, record: r.AgentStateInitialized, before: State) -> Memory:
    run = before.work.runs.get(record.run)
    if run is None:
        return memory
    agent_state = replace(_state_of(memory, run), phase=record.phase, values=dict(record.values))
    return _with_state(memory, run.state_key, agent_state)


@AGENT_PHASES.on(r.AgentStateSet)
def _state_set(memory: Memory, record: r.AgentStateSet, _: State) -> Memory:
    return _with_state(memory, str(record.agent), record.state)


@AGENT_PHASES.on(r.AgentPhaseChanged)
def _agent_moved(memory: Memory, record: r.AgentPhaseChanged, before: State) -> Memory:
    run = before.work.runs.get(record.run)
    if run is None:
        return memory
    move = Moved(source=record.source, target=record.target, at=record.at)
    return _with_state(recalled(memory, record, before), run.state_key, _state_of(memory, run).moved(move))
