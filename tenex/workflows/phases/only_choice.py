"""The next step where gates and agents leave one choice: it is taken without asking the router's model.

    chat, brainstorm   the same agent answers the next message; without `hand_over` the user is waited for
    execute            changed files are verified
    verification       a verdict `issues` goes back to execute, `verified` on to chores
    chores             goes on to reflection, by each participant
    reflection         goes on to END

Each is checked like an answer of the router. The router is asked where a message has come that no agent has been shown,
or only one in a gate, where an agent has failed, where several agents could work, and about a request's first phase and
a plan. (ADR 35.)
"""

from tenex.core.config import Agent, AgentKind, Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.phases import TALK_PHASES, Phase
from tenex.core.routing import USER, RoutingDecision
from tenex.core.state.run import OrchestratorTurn

from . import gates
from .routing import Accepted, check

REPAIRS = 2
"""Times that verification sends work back to execute by rule since a user wrote; then the router is asked."""

_REASONS = {
    Phase.VERIFICATION: "what was changed has to be tried",
    Phase.CHORES: "the work is verified",
    Phase.REFLECTION: "the work is done",
}


def only_choice(conversation: Conversation, rules: Policy) -> Accepted | None:
    """The only sensible decision now, as the router would be permitted to make it; None: the router has to choose."""
    decision = _decision(conversation, rules) if rules.routes_by_rule and conversation.turns else None
    accepted = check(conversation, decision, rules) if decision is not None else None
    return accepted if isinstance(accepted, Accepted) else None


def _decision(conversation: Conversation, rules: Policy) -> RoutingDecision | None:
    here, last = conversation.phase, conversation.turns[-1]
    if last.phase is not here or any(done.outcome != "finished" for done in last.completions):
        return None
    handed_over = next((done.hand_over for done in last.completions if done.hand_over is not None), None)
    if conversation.unanswered:
        goes_on = here in TALK_PHASES and len(last.agents) == 1 and handed_over is None
        return RoutingDecision(agents=last.agents, reason="the talk goes on") if goes_on else None
    if any(message.seq > conversation.router_asked for message in conversation.requests):
        return None  # a gate's agents were shown it, who may not carry it out
    if handed_over is not None:
        return handed_over if handed_over.agents else None
    if here in TALK_PHASES:
        waits = RoutingDecision(agents=(USER,), reason="the next word is theirs")
        return waits if len(last.agents) == 1 else None
    if here is Phase.PLAN:
        is_blocked = gates.why_not_leave(conversation, Phase.EXECUTE, rules) is not None
        return RoutingDecision(agents=(USER,), reason="the plan needs their approval") if is_blocked else None
    if here is Phase.EXECUTE and not _is_done(conversation, last):
        return None
    return _to_next_gate(conversation, last, rules)


def _is_done(conversation: Conversation, last: OrchestratorTurn) -> bool:
    """Whether files were changed and each agent has called `complete`, whose summary says how to try them."""
    return bool(conversation.touched) and all(done.summary for done in last.completions)


def _to_next_gate(conversation: Conversation, last: OrchestratorTurn, rules: Policy) -> RoutingDecision | None:
    still_open = gates.open_gates(conversation, rules)
    if not still_open:
        return RoutingDecision(agents=(END,), reason="all that was asked for is done and checked")
    gate = still_open[0]
    if gate is last.phase and gate is not Phase.REFLECTION:  # the turn did not meet it
        return _repair(conversation, last) if gate is Phase.VERIFICATION else None
    only = only_agent(conversation, gate, rules)
    agents: tuple[str, ...] = (only.slug,) if only is not None else ()
    if gate is Phase.REFLECTION:
        agents = gates.yet_to_reflect(conversation, rules)
    reason = _REASONS.get(gate, f"the gate {gate} is open")
    return RoutingDecision(agents=agents, phase=gate, reason=reason) if agents else None


def _repair(conversation: Conversation, last: OrchestratorTurn) -> RoutingDecision | None:
    """Back to those who built it, where verification found issues."""
    rounds = sum(
        any(done.verdict == "issues" for done in turn.completions)
        for turn in conversation.turns[-conversation.turns_since_user :]
    )
    if not any(done.verdict == "issues" for done in last.completions) or rounds > REPAIRS:
        return None
    built = next((turn for turn in reversed(conversation.turns) if turn.phase is Phase.EXECUTE), None)
    reason = "verification found issues; they have to be repaired"
    return RoutingDecision(agents=built.agents, phase=Phase.EXECUTE, reason=reason) if built is not None else None


def only_agent(conversation: Conversation, phase: Phase, rules: Policy) -> Agent | None:
    """The one worker for a phase; None where there are several, or none.

    Of several, verification is by who did not build what is verified, chores by who did.
    """
    there = [
        agent
        for agent in rules.routable.values()
        if agent.kind is AgentKind.WORKER and (not agent.phases or phase in agent.phases)
    ]
    if len(there) > 1 and phase in (Phase.VERIFICATION, Phase.CHORES):
        built = {slug for turn in conversation.turns if turn.phase is Phase.EXECUTE for slug in turn.agents}
        there = [agent for agent in there if (agent.slug in built) is (phase is Phase.CHORES)]
    return there[0] if len(there) == 1 else None
