"""The next step where gates and agents leave one choice: it is taken without asking the router's model.

    chat, brainstorm   the same agent answers the next message, and the router judges it after two turns, then four,
                       then eight; without `hand_over` the user is waited for
    execute            what was changed is verified; an answer that changed nothing ends the cycle
    verification       a verdict `issues`, or a check that is worse than before, goes back to execute, `verified` on to
                       chores; about what could not be verified a user is asked whether they accept it so
    chores             goes on to reflection, by those who have something to reflect on; a check that is worse since is
                       repaired in chores, else a user is asked whether they accept it so
    reflection         goes on to END, also where an agent has failed in it

A gate without work is passed through on the way (`ceremony.py`).

Each is checked like an answer of the router. The router is asked where a message has come that no agent has been shown,
or only one in a gate, where an agent has failed, or changed nothing where work was wanted, where several agents could
work, and about a request's first phase and a plan. (ADR 35, 55, 56.)
"""

from tenex.core.config import Agent, AgentKind, Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.phases import GATES, PHASES, TALK_PHASES, Phase
from tenex.core.router.answer import USER, RoutingDecision
from tenex.core.state import State
from tenex.core.work.records import WorkVerdict
from tenex.core.work.turn import OrchestratorTurn
from tenex.workflows.phases.state import phases_of

from . import ceremony, checks, gates
from .routing import Accepted, check
from .verdicts import is_unchanged_since_issues

LONGEST_TALK = 8
"""Turns of a talk after which the next message is the router's to judge, at most."""
GOES_ON = "the talk goes on"
"""Why an agent has the next turn of a talk, by rule."""
REPAIRS = 2
"""Times that what a verification or chores left wrong is repaired by rule since a user wrote; then a user is asked."""


def only_choice(conversation: Conversation, policy: Policy) -> Accepted | None:
    """The only sensible decision now, as the router would be permitted to make it; None: the router has to choose."""
    may_choose = policy.conversations.route_by_rule and conversation.cycle.turns
    decision = _decision(conversation, policy) if may_choose else None
    accepted = check(conversation, decision, policy) if decision is not None else None
    return accepted if isinstance(accepted, Accepted) else None


def _decision(conversation: Conversation, policy: Policy) -> RoutingDecision | None:
    here = conversation.cycle.phase
    last = conversation.cycle.turns[-1]
    has_ended = PHASES[here].may_fail or all(done.outcome == "finished" for done in last.completions)
    is_left_out = last.phase in phases_of(conversation).waived  # and may have been stopped for that
    if last.phase is not here or not (has_ended or is_left_out):
        return None
    handed_over = next((done.hand_over for done in last.completions if done.hand_over is not None), None)
    if any(not message.is_settled for message in conversation.unanswered):
        goes_on = here in TALK_PHASES and len(last.agents) == 1 and handed_over is None
        goes_on = goes_on and not _is_to_be_judged(conversation)
        return RoutingDecision(agents=last.agents, reason=GOES_ON) if goes_on else None
    if any(message.seq > conversation.router.asked for message in conversation.requests):
        return None  # a gate's agents were shown it, who may not carry it out
    if handed_over is not None:
        return handed_over if handed_over.agents else None
    if here in TALK_PHASES:
        waits = RoutingDecision(agents=(USER,), reason="the next word is yours")
        return waits if len(last.agents) == 1 else None
    if here is Phase.PLAN:
        is_blocked = gates.why_not_leave(conversation, Phase.EXECUTE, policy) is not None
        return RoutingDecision(agents=(USER,), reason="the plan needs your approval") if is_blocked else None
    if here is Phase.EXECUTE and not phases_of(conversation).executed:
        return _answered(conversation, last)
    if here is Phase.EXECUTE and not _is_done(conversation, last):
        return None
    return _to_next_gate(conversation, last, policy)


def _is_to_be_judged(conversation: Conversation) -> bool:
    """Whether the router is asked again: an agent that goes on talking may not know that work is wanted.

    It is after two turns, then after four, then after eight each, because it has found before that it is a talk.
    """
    turns = conversation.cycle.turns
    since = sum(turn.seq > conversation.router.asked for turn in turns)
    judged = sum(turn.phase in TALK_PHASES and turn.reason != GOES_ON for turn in turns)
    return since >= (2, 4, LONGEST_TALK)[min(max(judged - 1, 0), 2)]


def _answered(conversation: Conversation, last: OrchestratorTurn) -> RoutingDecision | None:
    """The end, where all that was wanted is said: nothing was planned, and each agent has called `complete`."""
    is_planned = any(turn.phase is Phase.PLAN for turn in conversation.cycle.turns)
    if is_planned or not all(done.completed for done in last.completions):
        return None
    return RoutingDecision(agents=(END,), reason="it is answered, and nothing was changed")


def _is_done(conversation: Conversation, last: OrchestratorTurn) -> bool:
    """Whether each agent has called `complete` with a summary, which says how to try it; a repair changed something."""
    verified = [turn for turn in conversation.cycle.turns if turn.phase is Phase.VERIFICATION]
    is_repair = any(done.verdict == "issues" for turn in verified[-1:] for done in turn.completions)
    is_the_same = is_unchanged_since_issues(conversation) or (is_repair and not last.has_effect)
    return all(done.summary for done in last.completions) and not is_the_same


def _to_next_gate(conversation: Conversation, last: OrchestratorTurn, policy: Policy) -> RoutingDecision | None:
    still_open = gates.open_gates(conversation, policy)
    if not still_open:
        return RoutingDecision(agents=(END,), reason=_end_reason(conversation))
    gate = still_open[0]
    if gate is last.phase and gate is not Phase.REFLECTION:  # the turn did not meet it
        return _to_repair(conversation, last)
    only = only_agent(conversation, gate, policy)
    agents: tuple[str, ...] = (only.slug,) if only is not None else ()
    if gate is Phase.REFLECTION:
        agents = gates.yet_to_reflect(conversation, policy)
    reason = GATES[gate].reason
    if gate is Phase.CHORES and Phase.VERIFICATION in phases_of(conversation).waived:
        reason = _unchecked(conversation)
    needed = ceremony.why_needed(conversation, policy, gate)
    if needed != GATES[gate].reason:
        reason = f"{reason}; {needed}"
    return RoutingDecision(agents=agents, phase=gate, reason=reason) if agents else None


def _end_reason(conversation: Conversation) -> str:
    if Phase.VERIFICATION in phases_of(conversation).waived:
        return f"all that was asked for is done; {_unchecked(conversation)}"
    if accepted := next((waiver for waiver in phases_of(conversation).waivers if waiver.untried), None):
        return f"all that was asked for is done; {accepted.name} accepted it as it is"
    is_checked = Phase.VERIFICATION in phases_of(conversation).gates_met
    return "all that was asked for is done and checked" if is_checked else "it is answered, and nothing was changed"


def _unchecked(conversation: Conversation) -> str:
    """Why the work goes on without a verification, which a user gave up or accepted untried."""
    waiver = next(waiver for waiver in phases_of(conversation).waivers if Phase.VERIFICATION in waiver.phases)
    return f"{waiver.name} accepted it untried" if waiver.untried else f"{waiver.name} waived verification"


def _to_repair(conversation: Conversation, last: OrchestratorTurn) -> RoutingDecision | None:
    """Back to those who built it, or who tidied, with what the verifier or a check has found."""
    reason = _to_be_repaired(conversation, last)
    if reason is None or _rounds(conversation, last.phase, conversation.cycle.turns_since_user) > REPAIRS:
        return None
    if last.phase is Phase.CHORES:
        return RoutingDecision(agents=last.agents, phase=Phase.CHORES, reason=reason)
    built = next((turn for turn in reversed(conversation.cycle.turns) if turn.phase is Phase.EXECUTE), None)
    return RoutingDecision(agents=built.agents, phase=Phase.EXECUTE, reason=reason) if built is not None else None


def _to_be_repaired(state: State, turn: OrchestratorTurn) -> str | None:
    """Why work goes back after a verification or chores; None where nothing was found."""
    if any(done.verdict == "issues" for done in turn.completions):
        return "verification found issues; they have to be repaired"
    worse = [checks.sentence(state, result) for result in checks.worse(state)]
    return f"{'; '.join(worse)}; it has to be repaired" if worse else None


def to_accept_so(conversation: Conversation, policy: Policy) -> str | None:
    """Why the gate of the present phase is not met, where a user has to be asked whether they accept it so."""
    last = conversation.cycle.turns[-1] if conversation.cycle.turns else None
    here = conversation.cycle.phase
    is_open = here in (Phase.VERIFICATION, Phase.CHORES) and here in conversation.unmet_gates
    if last is None or not policy.conversations.route_by_rule or not is_open or phases_of(conversation).untried_asked:
        return None
    if last.phase is not here:
        return None
    is_asked = any(not message.is_settled for message in conversation.unanswered)
    is_new = any(message.seq > conversation.router.asked for message in conversation.requests)
    has_ended = all(done.outcome == "finished" for done in last.completions)
    if is_asked or is_new or not has_ended or _to_repair(conversation, last) is not None:
        return None
    return why_not_verified(conversation, last)


def why_not_verified(state: State, turn: OrchestratorTurn) -> str | None:
    """What speaks against work that a turn has verified, or why it could not; None where issues were found."""
    verdicts = [done for done in turn.completions if done.verdict]
    if any(done.verdict == "issues" for done in verdicts):
        return None
    if worse := checks.worse(state):
        return "; ".join(checks.sentence(state, result) for result in worse)
    if is_unchanged_since_issues(state) and verdicts:
        return "nothing was changed since a verification found issues"
    return next((done.untried or done.text for done in verdicts if done.verdict == "untried"), None)


def will_repair(state: State, policy: Policy, verdict: WorkVerdict) -> bool:
    """Whether what the open turn finds goes back to those who built it, by rule."""
    has_found = verdict == "issues" or bool(checks.worse(state))
    has_built = any(turn.phase is Phase.EXECUTE for turn in state.cycle.turns)
    is_new = any(message.seq > state.router.asked for message in state.requests)
    rounds = _rounds(state, Phase.VERIFICATION, max(0, state.cycle.turns_since_user - 1)) + 1
    return has_found and policy.conversations.route_by_rule and has_built and not is_new and rounds <= REPAIRS


def _rounds(state: State, phase: Phase, newest: int) -> int:
    """How many of the newest turns were of a phase."""
    turns = state.cycle.turns[-newest:] if newest else ()
    return sum(turn.phase is phase for turn in turns)


def only_agent(conversation: Conversation, phase: Phase, policy: Policy) -> Agent | None:
    """The one worker for a phase; None where there are several, or none.

    Of several, verification is by who did not build what is verified, chores by who did.
    """
    there = [
        agent
        for agent in policy.routable.values()
        if agent.kind is AgentKind.WORKER and (not agent.phases or phase in agent.phases)
    ]
    if len(there) > 1 and phase in (Phase.VERIFICATION, Phase.CHORES):
        built = {slug for turn in conversation.cycle.turns if turn.phase is Phase.EXECUTE for slug in turn.agents}
        there = [agent for agent in there if (agent.slug in built) is (phase is Phase.CHORES)]
    return there[0] if len(there) == 1 else None
