"""What the phase permits an agent to use, and who may waive a quality gate."""

from collections.abc import Callable, Iterable

from tenex.core.config import Agent, AgentKind, GateRules, Policy, Role, ToolRule
from tenex.core.phases import PHASE_ACCESS, Access, Phase
from tenex.core.state import agent_tools
from tenex.core.state.agent import AgentPhaseState


def may_use(tool: ToolRule, phase: Phase, agent: Agent) -> bool:
    """Whether an agent may use a tool in a phase: asked when tools are listed, and again when one is called."""
    if tool.access not in PHASE_ACCESS[phase] or agent.kind is AgentKind.ORCHESTRATOR:
        return False
    if agent.kind is AgentKind.EXPERT and tool.access in (Access.CHANGE, Access.RUN):
        return False
    if tool.access is Access.SPEAK:
        return phase is not Phase.REFLECTION or tool.name == "complete"
    return tool.access is Access.LEARN or tool.name in agent.tools or tool.name in agent.methods


def refusal(
    name: str,
    phase: Phase,
    agent: Agent,
    rules: Policy,
    agent_state: AgentPhaseState | None = None,
    subagents: Callable[[], Iterable[str]] = tuple,
    withheld: Callable[[str], str | None] = lambda _tool: None,
) -> str | None:
    """Why a call is not permitted, as a sentence the model can act on; None if it is.

    `agent_state` is the agent's state in its own phases, if it has any: both phases must permit the call.
    `subagents` gives the tools of those it may call now, `withheld` why its own phase does not offer a tool.
    """
    tool = rules.tools_of(agent).get(name)
    is_permitted = tool is not None and may_use(tool, phase, agent)
    reason = withheld(name)
    if is_permitted and reason is None:
        return None
    offer = _offer(phase, agent, rules, agent_state, subagents(), withheld)
    if is_permitted:
        return f"The tool {name} is not there for you now: {reason}; nothing was done. {offer}"
    if tool is None:
        return f"There is no tool {name}. {offer}"
    return f"The tool {name} may not be used by {agent.slug} in the {phase} phase; nothing was done. {offer}"


def _offer(
    phase: Phase,
    agent: Agent,
    rules: Policy,
    agent_state: AgentPhaseState | None,
    subagents: Iterable[str],
    withheld: Callable[[str], str | None],
) -> str:
    allowed = [known.name for known in rules.tools_of(agent).values() if may_use(known, phase, agent)]
    here, program = "", agent.program
    if program is not None and agent_state is not None:
        here = f"You are in your phase {agent_state.phase}. " if agent_state.phase else ""
        there = [name for name in allowed if withheld(name) is None]
        allowed = [*there, *agent_tools.names(program, agent_state, phase), *subagents]
    return f"{here}You may use: {', '.join(sorted(allowed))}." if allowed else f"{here}You may use no tools now."


def may_waive(role: Role | None, gates: GateRules) -> bool:
    """Whether someone of that role may give up a gate."""
    return role is Role.OWNER or (role is Role.MEMBER and gates.members_may_waive)
