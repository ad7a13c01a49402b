"""The quality gates of a cycle: which are open, what meets one, and the way through those without work.

They open when something is changed in execute: a file, or something outside. (ADR 55.) One that is waived, or in which
there is nothing to do, is passed through on the way to what is next.
"""

from collections.abc import Iterable, Iterator

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.state import State
from tenex.core.work.turn import OrchestratorTurn
from tenex.workflows.phases.state import phases_of

from . import ceremony, checks, verdicts


def why_not_leave(conversation: Conversation, target: str, policy: Policy) -> str | None:
    """Why the phase cannot be left for `target` (a phase or END) yet, beyond what the table says; None if it can."""
    here = conversation.cycle.phase
    if target == END:
        still_open = open_gates(conversation, policy)
        if still_open:
            gates = ", ".join(still_open)
            return f"END is refused: something was changed, and these gates are open: {gates}. Go on to the first."
        return None
    if here is Phase.BRAINSTORM and not phases_of(conversation).wrote_since_entry:
        return "A brainstorm is left only when the person has written since it began; wait for them with USER."
    if here is Phase.PLAN and policy.gates.plan_approval == "person" and not is_plan_approved(conversation):
        return "The plan needs the person's approval before it is left; wait for them with USER."
    if here is Phase.VERIFICATION and target == Phase.CHORES and Phase.VERIFICATION in open_gates(conversation, policy):
        return (
            "Verification is left for chores only with the verdict `verified`; send it back to execute, or let "
            "somebody verify again."
        )
    if here is Phase.CHORES and target == Phase.REFLECTION and Phase.CHORES in open_gates(conversation, policy):
        return "The chores have not been done: no agent has finished a turn in this phase."
    if here is Phase.REFLECTION and target == Phase.CHAT and Phase.REFLECTION in open_gates(conversation, policy):
        return f"Not everybody has reflected; still to do: {', '.join(yet_to_reflect(conversation, policy))}."
    return None


def open_gates(conversation: Conversation, policy: Policy) -> tuple[Phase, ...]:
    """The gates in the way of END: those in which something is to be done by somebody who is there."""
    needed = (gate for gate in conversation.unmet_gates if ceremony.why_needed(conversation, policy, gate))
    left = bool(yet_to_reflect(conversation, policy))
    return tuple(gate for gate in needed if left or gate is not Phase.REFLECTION)


def is_plan_approved(conversation: State) -> bool:
    """Whether a user approved the plan of the last turn; each turn makes another plan."""
    last = conversation.cycle.turns[-1].turn_id if conversation.cycle.turns else None
    return conversation.work.turn is None and last == phases_of(conversation).approved_turn


def must_be_carried_out(conversation: State, policy: Policy) -> bool:
    """Whether a user has approved a plan, which nothing has been made of: then it is no time to stop."""
    is_wanted = policy.gates.plan_approval == "person"
    return is_wanted and conversation.cycle.phase is Phase.PLAN and is_plan_approved(conversation)


def waiting_plan(conversation: State, policy: Policy) -> OrchestratorTurn | None:
    """The turn whose plan waits for a user's approval; None for none."""
    return unapproved_plan(conversation) if policy.gates.plan_approval == "person" else None


def unapproved_plan(conversation: State) -> OrchestratorTurn | None:
    """The turn that has made a plan which no user has approved, whether or not one has to; None for none."""
    last = conversation.cycle.turns[-1] if conversation.cycle.turns else None
    if last is None or conversation.work.turn is not None or conversation.cycle.status == "ended":
        return None
    is_plan = conversation.cycle.phase is Phase.PLAN and last.phase is Phase.PLAN
    is_made = any(done.outcome == "finished" for done in last.completions)
    return last if is_plan and is_made and not is_plan_approved(conversation) else None


def met(conversation: Conversation, turn: OrchestratorTurn, policy: Policy) -> Phase | None:
    """The quality gate that a turn meets by closing, if it does."""
    finished = {done.verdict for done in turn.completions if done.outcome == "finished"}
    if not phases_of(conversation).executed or turn.phase not in QUALITY_PHASES:
        return None
    if turn.phase is Phase.REFLECTION:
        return None if yet_to_reflect(conversation, policy) else turn.phase
    if turn.phase is Phase.VERIFICATION:
        is_verified = "verified" in finished and "issues" not in finished
        return turn.phase if is_verified and verdicts.counts(conversation, turn) else None
    part = phases_of(conversation)
    if part.inspection is None or checks.are_under_way(conversation):  # it counts once that has ended
        return None
    was_accepted = Phase.VERIFICATION in part.waived  # with what was worse then
    return turn.phase if finished and (was_accepted or not checks.worse(conversation)) else None


def yet_to_reflect(conversation: Conversation, policy: Policy) -> tuple[str, ...]:
    """Those who have something to reflect on, and have not done it."""
    reflected = phases_of(conversation).reflected
    return tuple(agent for agent in ceremony.reflecting(conversation, policy) if agent not in reflected)


def ineligible(conversation: Conversation, agents: Iterable[str], policy: Policy) -> tuple[str, ...]:
    """Those of the agents who cannot reflect: they took no part, have left, or have done it."""
    part = conversation.cycle.participants
    there = policy.routable
    done = phases_of(conversation).reflected
    return tuple(agent for agent in agents if agent not in part or agent not in there or agent in done)


def closed(conversation: Conversation, policy: Policy) -> frozenset[Phase]:
    """The gates without work now: those that are met or waived, and those in which there is nothing to do."""
    still_open = open_gates(conversation, policy)
    needless = (gate for gate in conversation.unmet_gates if gate not in still_open)
    phases = phases_of(conversation)
    return phases.gates_met | phases.waived | frozenset(needless)


def path(conversation: Conversation, target: Phase, policy: Policy) -> tuple[Phase, ...] | None:
    """The phases entered on the way to `target`: itself, after gates that are closed; None if there is no way."""
    here = conversation.cycle.phase
    if PHASE_TRANSITIONS.permits(here, target):
        return (target,)
    way: list[Phase] = []
    for gate in _through(conversation, policy):
        way.append(gate)
        if PHASE_TRANSITIONS.permits(gate, target):
            return (*way, target)
    return None


def passed_to_the_end(conversation: Conversation, policy: Policy) -> tuple[Phase, ...]:
    """The gates that are passed through before END, in order; none where each on the way was met before."""
    way = tuple(_through(conversation, policy))
    return way if any(gate not in phases_of(conversation).gates_met for gate in way) else ()


def _through(conversation: Conversation, policy: Policy) -> Iterator[Phase]:
    """The closed gates that follow one another, the first of them after the present phase."""
    here = conversation.cycle.phase
    through = closed(conversation, policy)
    for gate in QUALITY_PHASES:
        if gate in through and PHASE_TRANSITIONS.permits(here, gate):
            yield gate
            here = gate
