"""What a phase permits: tools, ways out, and what it takes to waive a quality gate."""

from collections.abc import Callable, Iterable

from tenex.core.config import Agent, GateRules, Kind, Policy, Role, ToolRule
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.phases import PHASE_ACCESS, PHASE_TRANSITIONS, QUALITY_PHASES, Access, Phase
from tenex.core.state import agent_tools
from tenex.core.state.agent import AgentPhaseState
from tenex.core.state.run import OrchestratorTurn


def may_use(tool: ToolRule, phase: Phase, agent: Agent) -> bool:
    """Whether an agent may use a tool in a phase: asked when tools are listed, and again when one is called."""
    if tool.access not in PHASE_ACCESS[phase] or agent.kind is Kind.ORCHESTRATOR:
        return False
    if agent.kind is Kind.EXPERT and tool.access in (Access.CHANGE, Access.RUN):
        return False
    if tool.access is Access.SPEAK:
        return phase is not Phase.REFLECTION or tool.name == "complete"
    return tool.access is Access.LEARN or tool.name in agent.tools or tool.name in agent.methods


def refusal(
    name: str,
    phase: Phase,
    agent: Agent,
    rules: Policy,
    standing: AgentPhaseState | None = None,
    colleagues: Callable[[], Iterable[str]] = tuple,
) -> str | None:
    """Why a call is not permitted, as a sentence the model can act on; None if it is.

    `standing` is where the agent stands in its own phases, if it has any: both phases must permit the call.
    `colleagues` gives the tools of those it may call now.
    """
    tool = rules.tools_of(agent).get(name)
    is_permitted = tool is not None and may_use(tool, phase, agent)
    program = agent.program if standing is not None else None
    withheld = program.withheld(name, standing, phase) if program is not None and standing is not None else None
    if is_permitted and withheld is None:
        return None
    offer = _offer(phase, agent, rules, standing, colleagues())
    if is_permitted:
        return f"The tool {name} is not there for you now: {withheld}; nothing was done. {offer}"
    if tool is None:
        return f"There is no tool {name}. {offer}"
    return f"The tool {name} may not be used by {agent.slug} in the {phase} phase; nothing was done. {offer}"


def _offer(
    phase: Phase, agent: Agent, rules: Policy, standing: AgentPhaseState | None, colleagues: Iterable[str]
) -> str:
    allowed = [known.name for known in rules.tools_of(agent).values() if may_use(known, phase, agent)]
    here, program = "", agent.program
    if program is not None and standing is not None:
        here = f"You are in your phase {standing.phase}. " if standing.phase else ""
        there = [name for name in allowed if program.offers(name, standing, phase)]
        allowed = [*there, *agent_tools.names(program, standing, phase), *colleagues]
    return f"{here}You may use: {', '.join(sorted(allowed))}." if allowed else f"{here}You may use no tools now."


def leaving(conversation: Conversation, target: str, rules: Policy) -> str | None:
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
    return tuple(gate for gate in conversation.open_gates if left or gate is not Phase.REFLECTION)


def _person_after_plan(conversation: Conversation) -> bool:
    """Whether a person wrote after the plan was there: what came while it was made approves nothing."""
    done = conversation.turns[-1].completions if conversation.turns else ()
    made = max((completion.at for completion in done), default=0)
    return any(m.role is not None and m.at > made for m in conversation.messages)


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


def may_waive(role: Role | None, gates: GateRules) -> bool:
    """Whether somebody of that role may give up a gate."""
    return role is Role.OWNER or (role is Role.MEMBER and gates.members_may_waive)
