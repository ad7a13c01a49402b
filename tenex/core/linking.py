"""Calls of colleagues: each begins a run of another agent, whose outcome is the call's result.

Such a run is like any other, so it is journaled, gated, resumed and bounded like any other. Colleagues called in one
answer work at the same time, as the agents of a turn do: what changes the workspace takes turns there. One that keeps
its standing from call to call works for one call at a time.

Never: end a run; that is `turns`'.
"""

from typing import Final

from . import links
from . import records as r
from .draft import Draft
from .ids import RunId
from .roster import Agent
from .runs import Call, Run
from .turns import begin_run

AT_ONCE: Final = 8
"""Colleagues that work for one run at the same time; the others wait. A provider's queue holds no more work than that
back with profit, and each holds its prompt in memory."""


def decided(draft: Draft, run: Run, agent: Agent, call: Call) -> bool:
    """Refuse the call of a colleague, or begin their run; False for any other call.

    Where the colleague has to wait for another to end, the call stays as it is, and is judged again then.
    """
    state, request = draft.state, call.request
    link = links.link_of(agent, request.tool)
    if link is None:
        return False
    at_work = state.called_by(run.id)
    if len(at_work) >= AT_ONCE or (link.is_shared and any(other.agent == link.agent for other in at_work)):
        return True
    message = request.arguments.get(links.MESSAGE)
    sentence = request.fault
    if not sentence and (not isinstance(message, str) or not message.strip()):
        sentence = f"`{request.tool}` needs `{links.MESSAGE}`, a text that is not empty."
    sentence = sentence or links.refusal(state, run, agent, request.tool, link, draft.rules) or ""
    if sentence:
        draft.add(r.CallRefused, run=run.id, call=request.id, tool=request.tool, sentence=sentence)
        return True
    turn = state.turn.turn_id if state.turn is not None else ""
    begin_run(
        draft, RunId(f"{turn}/{state.next_seq}.{link.agent}"), draft.rules.roster[link.agent],
        parent=run.id, call=request.id, is_shared=link.is_shared,
    )  # fmt: skip
    return True
