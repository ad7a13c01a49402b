"""Calls of sub-agents: each begins a run of another agent, whose outcome is the call's result.

Such a run is like any other, so it is journaled, gated, resumed and bounded like any other. Sub-agents called in one
answer work at the same time, as the agents of a turn do: what changes the workspace takes turns there. One that keeps
its state from call to call works for one call at a time, whatever the caller.
"""

from collections.abc import Iterator
from typing import Final

from tenex.core import records as r
from tenex.core.agent_phases.program import Link
from tenex.core.config import Agent
from tenex.core.ids import RunId
from tenex.core.transaction import Transaction
from tenex.core.work.run import Call, CallState, Run
from tenex.core.work.turns import start_run

from . import links as subagents

AT_ONCE: Final = 8
"""Sub-agents that work for one run at the same time; the others wait. A provider's queue holds no more work than that
back with profit, and each holds its prompt in memory."""


def decide(transaction: Transaction, run: Run, agent: Agent, call: Call) -> None:
    """Refuse the call of a sub-agent, or begin its run; any other call is ignored.

    Where it has to wait for another to end, the call stays open, and is judged again then; its caller's time is
    suspended, since the other may wait for a user.
    """
    state = transaction.state
    request = call.request
    link = subagents.link_of(agent, request.tool)
    if link is None:
        return
    message = request.arguments.get(subagents.MESSAGE)
    sentence = request.fault
    if not sentence and (not isinstance(message, str) or not message.strip()):
        sentence = f"`{request.tool}` needs `{subagents.MESSAGE}`, a text that is not empty."
    sentence = sentence or subagents.refusal(state, run, agent, request.tool, link, transaction.policy) or ""
    ahead = _ahead(transaction, link)
    if not sentence and any(_waits_for(transaction, other, run) for other in ahead):
        sentence = f"{request.tool} cannot be called now: {link.agent} waits for what you do. Do without."
    if sentence:
        transaction.refuse(run, call, sentence)
    elif ahead:
        if call.state is not CallState.QUEUED:
            transaction.add(r.ToolCallQueued, run=run.id, call=request.id)
    elif len(state.work.called_by(run.id)) < AT_ONCE:
        turn = state.work.turn.turn_id if state.work.turn is not None else ""
        start_run(
            transaction,
            RunId(f"{turn}/{state.next_seq}.{link.agent}"),
            transaction.policy.roster[link.agent],
            parent=run.id,
            call=request.id,
            is_shared=link.is_shared,
        )


def queued(transaction: Transaction) -> tuple[RunId, ...]:
    """The runs with a call that has not begun; what it waits for may have ended, or be there no more."""
    return tuple(
        run.id for run in transaction.state.work.runs.values() if any(not call.has_begun for call in run.open_calls)
    )


def _wanted(transaction: Transaction, run: Run) -> Iterator[Link]:
    """The links of calls that have not begun."""
    agent = transaction.policy.roster.get(run.agent)
    if agent is None or agent.program is None:
        return
    for call in run.open_calls:
        link = subagents.link_of(agent, call.request.tool)
        if link is not None and not call.has_begun:
            yield link


def _ahead(transaction: Transaction, link: Link) -> tuple[Run, ...]:
    """The runs that must end before a sub-agent that keeps its state can be called: it has one state at a time."""
    return tuple(run for run in transaction.state.work.runs.values() if link.is_shared and run.state_key == link.agent)


def _waits_for(transaction: Transaction, run: Run, other: Run) -> bool:
    """Whether a run cannot end before another has, by all that are called and all that wait to be called."""
    seen = {run.id: run}
    for waiting in (queue := [run]):
        ahead = [before for link in _wanted(transaction, waiting) for before in _ahead(transaction, link)]
        for awaited in (*transaction.state.work.called_by(waiting.id), *ahead):
            if awaited.id not in seen:
                seen[awaited.id] = awaited
                queue.append(awaited)
    return other.id in seen
