"""What each fact of an agent's own phases does to the state."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tenex.core import records as r
from tenex.core.state.agent import AgentPhaseState, Moved
from tenex.core.state.conversation import State
from tenex.core.state.run import Run


def changed(c: State, run: Run, values: Mapping[str, Any]) -> None:
    """Fields of an agent's state have new values."""
    before = _now(c, run)
    after = before.changed(values)
    if after != before:
        _put(c, run, after)
        c.runs = {**c.runs, run.id: replace(c.runs[run.id].progressed(), is_stale=True)}


def recalled(c: State, record: r.RunStarted | r.AgentPhaseChanged | r.PromptRerendered) -> str | None:
    """The system prompt of a record, from now on the last used; None where it is not rendered."""
    system = c.systems.get(record.digest) if record.system is None else record.system
    if system is not None:
        gone = {record.digest, *record.forgets}
        c.systems = {**{key: text for key, text in c.systems.items() if key not in gone}, record.digest: system}
    return system


def _now(c: State, run: Run) -> AgentPhaseState:
    return c.agent_states.get(run.state_key, AgentPhaseState())


def _put(c: State, run: Run, agent_state: AgentPhaseState) -> None:
    c.agent_states = {**c.agent_states, run.state_key: agent_state}


def _of_run(reduce: Callable[[State, Run, Any], None]) -> Callable[[State, Any], None]:
    """The reducer, for the records of a run that is open."""

    def reduce_run(c: State, record: Any) -> None:
        if (run := c.runs.get(record.run)) is not None:
            reduce(c, run, record)

    return reduce_run


def _initialized(c: State, run: Run, record: r.AgentStateInitialized) -> None:
    _put(c, run, replace(_now(c, run), phase=record.phase, values=dict(record.values)))


def _placed(c: State, record: r.AgentStateSet) -> None:
    c.agent_states = {**c.agent_states, str(record.agent): record.state}


def _moved(c: State, run: Run, record: r.AgentPhaseChanged) -> None:
    _put(c, run, _now(c, run).moved(Moved(source=record.source, target=record.target, at=record.at)))
    c.runs = {**c.runs, run.id: run.progressed()}
    _rerendered(c, c.runs[run.id], record)


def _rerendered(c: State, run: Run, record: r.AgentPhaseChanged | r.PromptRerendered) -> None:
    system = recalled(c, record)
    if system is not None:
        c.runs = {**c.runs, run.id: replace(run, system=system, is_stale=False)}


def _failed(c: State, run: Run, record: r.ConditionFailed) -> None:
    failed = run.failed_edges | {(record.source, record.target)}
    c.runs = {**c.runs, run.id: replace(run, failed_edges=failed)}


AGENT_REDUCERS: dict[type[r.Record], Callable[[State, Any], None]] = {
    r.AgentStateInitialized: _of_run(_initialized),
    r.AgentStateSet: _placed,
    r.AgentPhaseChanged: _of_run(_moved),
    r.PromptRerendered: _of_run(_rerendered),
    r.ConditionFailed: _of_run(_failed),
}
