"""The quality gates of a cycle: which are open, what meets one, and the way through waived ones."""

from collections.abc import Iterable

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.state.run import OrchestratorTurn


def why_not_leave(conversation: Conversation, target: str, rules: Policy) -> str | None:
    """Why the phase cannot be left for `target` (a phase or END) yet, beyond what the table says; None if it can."""
    here = conversation.phase
    if target == END:
        still_open = open_gates(conversation, rules)
        if still_open:
            gates = ", ".join(still_open)
            return f"END is refused: this cycle has executed, and these gates are open: {gates}. Go on to the first."
        return None
    if here is Phase.BRAINSTORM and not conversation.wrote_since_entry:
        return "A brainstorm is left only when the person has written since it began; wait for them with USER."
    if here is Phase.PLAN and rules.gates.plan_approval == "person" and not _person_after_plan(conversation):
        return "The plan needs the person's approval before it is left; wait for them with USER."
    if here is Phase.VERIFICATION and target == Phase.CHORES and Phase.VERIFICATION in open_gates(conversation, rules):
        return (
            "Verification is left for chores only with the verdict `verified`; send it back to execute, or let "
            "somebody verify again."
        )
    if here is Phase.CHORES and target == Phase.REFLECTION and Phase.CHORES in open_gates(conversation, rules):
        return "The chores have not been done: no agent has finished a turn in this phase."
    if here is Phase.REFLECTION and target == Phase.CHAT and Phase.REFLECTION in open_gates(conversation, rules):
        return f"Not everybody has reflected; still to do: {', '.join(yet_to_reflect(conversation, rules))}."
    return None


def open_gates(conversation: Conversation, rules: Policy) -> tuple[Phase, ...]:
    """The gates in the way of END; reflection is none where all who have yet to reflect have left the roster."""
    left = bool(yet_to_reflect(conversation, rules))
    return tuple(gate for gate in conversation.unmet_gates if left or gate is not Phase.REFLECTION)


def _person_after_plan(conversation: Conversation) -> bool:
    """Whether a user wrote after the plan was there: what came while it was made approves nothing."""
    done = conversation.turns[-1].completions if conversation.turns else ()
    made = max((completion.at for completion in done), default=0)
    since = conversation.approvals_since
    return any(m.role is not None and m.at > made and m.seq > since for m in conversation.messages)


def met(conversation: Conversation, turn: OrchestratorTurn, rules: Policy) -> Phase | None:
    """The quality gate that a turn meets by closing, if it does."""
    finished = {done.verdict for done in turn.completions if done.outcome == "finished"}
    if not conversation.executed or turn.phase not in QUALITY_PHASES:
        return None
    if turn.phase is Phase.REFLECTION:
        return None if yet_to_reflect(conversation, rules) else turn.phase
    if turn.phase is Phase.VERIFICATION:
        return turn.phase if "verified" in finished and "issues" not in finished else None
    return turn.phase if finished else None


def yet_to_reflect(conversation: Conversation, rules: Policy) -> tuple[str, ...]:
    """The participants of this cycle, still in the roster, who have not reflected."""
    there = rules.routable
    return tuple(a for a in conversation.participants if a in there and a not in conversation.reflected)


def strangers(conversation: Conversation, agents: Iterable[str], rules: Policy) -> tuple[str, ...]:
    """Those of the agents who cannot reflect: they took no part, or have done it."""
    waiting = yet_to_reflect(conversation, rules)
    return tuple(agent for agent in agents if agent not in waiting)


def path(conversation: Conversation, target: Phase) -> tuple[Phase, ...] | None:
    """The phases entered on the way to `target`: itself, after those that are waived; None if there is no way."""
    here, waived = conversation.phase, conversation.waived
    if PHASE_TRANSITIONS.permits(here, target):
        return (target,)
    way: list[Phase] = []
    for gate in QUALITY_PHASES:
        if gate in waived and PHASE_TRANSITIONS.permits(way[-1] if way else here, gate):
            way.append(gate)
            if PHASE_TRANSITIONS.permits(gate, target):
                return (*way, target)
    return None


def waived_to_the_end(conversation: Conversation) -> tuple[Phase, ...]:
    """The waived phases that are passed through before END, in order."""
    way: list[Phase] = []
    here = conversation.phase
    for gate in QUALITY_PHASES:
        if gate in conversation.waived and PHASE_TRANSITIONS.permits(here, gate):
            way.append(gate)
            here = gate
    return tuple(way)
