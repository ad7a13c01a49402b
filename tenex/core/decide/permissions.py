"""What the phase permits an agent to use, and who may waive a quality gate."""

from tenex.core.config import Agent, AgentKind, GateRules, Role, ToolRule
from tenex.core.phases import PHASE_ACCESS, Access, Phase


def may_use(tool: ToolRule, phase: Phase, agent: Agent) -> bool:
    """Whether an agent may use a tool in a phase: asked when tools are listed, and again when one is called."""
    if tool.access not in PHASE_ACCESS[phase] or agent.kind is AgentKind.ORCHESTRATOR:
        return False
    if agent.kind is AgentKind.EXPERT and tool.access in (Access.CHANGE, Access.RUN):
        return False
    if tool.access is Access.SPEAK:
        return phase is not Phase.REFLECTION or tool.name == "complete"
    return tool.access is Access.LEARN or tool.name in agent.tools or tool.name in agent.methods


def may_waive(role: Role | None, gates: GateRules) -> bool:
    """Whether someone of that role may give up a gate."""
    return role is Role.OWNER or (role is Role.MEMBER and gates.members_may_waive)
