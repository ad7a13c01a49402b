"""What calling a sub-agent does to the state: the caller's call waits for the run it began, and is answered by it."""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.messages import CallResult
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tenex.core.state.run import CallState, Completion, Run


def linked(c: State, record: r.RunStarted) -> None:
    """A run began; where a sub-agent called it, that call waits for it from now on."""
    caller = c.runs.get(record.parent) if record.parent is not None else None
    if caller is not None and record.call is not None:
        c.runs = {**c.runs, caller.id: caller.suspended(record.call, CallState.LINKED, record.seq, record.at)}


def refused(run: Run, record: r.ToolCallRejected) -> Run:
    """A call was refused: the sentence is its result."""
    return given(run, record, CallResult(id=record.call, tool=record.tool, ok=False, content=record.sentence))


def given(run: Run, record: r.Record, result: CallResult) -> Run:
    """The run with the result of a call; one who waited for a sub-agent is given the time back."""
    call = run.find(result.id)
    returned = run.returned(result, record.seq)
    return returned.resumed(record.at, record.seq) if call and call.waits_for_subagent else returned


def counted(c: State, run: Run, record: r.RunEnded) -> None:
    """A run is over: the part of an agent in the turn, unless a sub-agent called it."""
    if c.turn is None or run.parent is not None:
        return
    done = Completion(
        agent=run.agent,
        outcome=record.outcome,
        text=record.text,
        summary=record.summary,
        verdict=record.verdict,
        error=record.error,
        at=record.at,
        hand_over=record.hand_over,
    )
    c.turn = replace(c.turn, completions=(*c.turn.completions, done))
    c.answered = max(c.answered, run.shown)
    if c.turn.phase is Phase.REFLECTION:
        c.reflected = c.reflected | {run.agent}
