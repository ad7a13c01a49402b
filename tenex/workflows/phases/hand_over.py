"""`hand_over`: an agent that talks with a user says where the work goes on. It is checked like a routing decision.

It ends the agent's part, so that a message costs one model call while the talk goes on, and the router is asked only
where the agent names a phase in which several could work.
"""

from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Policy
from tenex.core.messages import ToolSpec
from tenex.core.phases import PHASES, TALK_PHASES, Phase
from tenex.core.router.answer import REASON_CHARACTERS, RoutingDecision
from tenex.core.text import names
from tenex.core.transaction import Transaction
from tenex.core.work import runs
from tenex.core.work.run import Call, CallState, Run
from tenex.core.work.turns import finish_run

from .only_choice import only_agent
from .routing import Rejected, check, no_phase

NAME: Final = "hand_over"

_TARGETS: Final = [str(phase) for phase in Phase if any(phase in PHASES[talk].leads_to for talk in TALK_PHASES)]
"""The phases that a talk may lead to."""

_SPEC: Final = ToolSpec(
    name=NAME,
    description=(
        "Ends your part and moves the work on, in chat and brainstorm, once the person wants something done that is "
        "clear enough. Without it nothing but talk happens."
    ),
    parameters={
        "type": "object",
        "properties": {
            "phase": {"type": "string", "enum": _TARGETS},
            "reason": {"type": "string", "description": "What is to be done there, for those who do it."},
            "response": {"type": "string", "description": "What the person reads, if something is to be said yet."},
            "agent": {"type": "string", "description": "Who shall do it, if you know."},
            "asks": {"type": "string", "enum": ["answer", "work"]},
        },
        "required": ["phase", "reason"],
    },
)


def specs(run: Run, policy: Policy) -> tuple[ToolSpec, ...]:
    """The tool, for those who may be in a talk: the same list in each of an agent's phases."""
    agent = policy.roster.get(run.agent)
    usual = agent.phases if agent is not None else ()
    talks = run.phase in TALK_PHASES or any(phase in usual for phase in TALK_PHASES)
    return (_SPEC,) if policy.conversations.route_by_rule and run.parent is None and talks else ()


def decide(transaction: Transaction, run: Run, call: Call) -> bool:
    """Decide a call, once those before it have their results; False where the run has no such tool."""
    if not specs(run, transaction.policy):
        return False
    open_calls = transaction.state.work.runs[run.id].open_calls
    if any(other.state is not CallState.ASKED or _comes_before(other, call, open_calls) for other in open_calls):
        return True
    decision = call.request.fault or _read(transaction, call.request.arguments)
    if isinstance(decision, str):
        transaction.refuse(run, call, decision)
        return True
    words = call.request.arguments.get("response")
    text = words.strip() if isinstance(words, str) else ""
    finish_run(transaction, run, "finished", text=text, summary=decision.reason, completed=True, hand_over=decision)
    runs.after_end(transaction, run)
    return True


def _comes_before(other: Call, call: Call, calls: tuple[Call, ...]) -> bool:
    ids = [known.request.id for known in calls]
    is_ending = other.request.tool in ("complete", NAME)
    return not is_ending and ids.index(other.request.id) < ids.index(call.request.id)


def _read(transaction: Transaction, given: Mapping[str, Any]) -> RoutingDecision | str:
    """The decision that is asked for, or why it is none."""
    state = transaction.state
    policy = transaction.policy
    phase = given.get("phase")
    reason = given.get("reason")
    name = given.get("agent") or ""
    if state.cycle.phase not in TALK_PHASES:
        return f"From {state.cycle.phase} the work is not handed over; end your part with `complete`."
    if not isinstance(phase, str) or not isinstance(reason, str) or not isinstance(name, str) or not reason.strip():
        return "`hand_over` needs `phase` and `reason`, texts that are not empty; `agent` is the slug of an agent."
    target = Phase.parse(phase)
    if target is None:
        return no_phase(phase).sentence
    if target is state.cycle.phase and not name:
        return f"The conversation is in {target} already: answer the person, or name another phase."
    slug = names.find(name, policy.routable) if name else None
    if name and slug is None:
        return f"There is no agent {name[:80]!r}. The agents are: {', '.join(sorted(policy.routable))}."
    if slug is None and (agent := only_agent(state, target, policy)) is not None:
        slug = agent.slug
    decision = RoutingDecision(
        agents=(slug,) if slug else (),
        phase=phase,
        reason=reason.strip()[:REASON_CHARACTERS],
        is_question=given.get("asks") == "answer",
    )
    verdict = check(state, decision, policy)
    return verdict.sentence if isinstance(verdict, Rejected) else decision
