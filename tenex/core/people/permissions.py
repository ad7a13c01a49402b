"""What the phase permits an agent to use, and which user may decide what."""

from enum import StrEnum
from typing import Final, assert_never

from tenex.core.config import Agent, AgentKind, GateRules, Policy, Role, ToolRule
from tenex.core.ids import PublicKey
from tenex.core.phases import PHASES, Access, Phase
from tenex.core.state import State
from tenex.core.work.tool_names import server_of

_IN_WORKSPACE: Final = frozenset({Access.READ, Access.CHANGE, Access.RUN})


def may_use(tool: ToolRule, phase: Phase, agent: Agent) -> bool:
    """Whether an agent may use a tool in a phase: asked when tools are listed, and again when one is called."""
    if tool.access not in PHASES[phase].access or agent.kind is AgentKind.ORCHESTRATOR:
        return False
    if tool.phases and phase not in tool.phases:
        return False
    if agent.kind is AgentKind.EXPERT and tool.access in (Access.CHANGE, Access.RUN):
        return False
    if tool.access is Access.SPEAK:
        return PHASES[phase].may_ask or tool.name == "complete"
    return tool.access is Access.LEARN or agent.has_tool(tool.name) or tool.name in agent.methods


def uses_workspace(agent: Agent, phase: Phase, policy: Policy) -> bool:
    """Whether an agent is offered a tool in a phase that reads or changes files, or runs programs."""
    is_served = bool(PHASES[phase].access & _IN_WORKSPACE) and any(server_of(name) for name in agent.tools)
    rules = policy.tools_of(agent).values()
    return is_served or any(rule.access in _IN_WORKSPACE and may_use(rule, phase, agent) for rule in rules)


class Decision(StrEnum):
    """What only some users may decide."""

    COMMAND = "command"
    """What a command does for which its row (`SlashCommand.needs`) does not say else."""
    WAIVER = "waiver"
    """To skip a quality gate."""
    APPROVAL = "approval"
    """To approve or reject a plan."""
    ANSWER = "answer"
    """To answer what an agent asks, or to take the part of the user in a workflow."""
    READING = "reading"
    """To read files of the workspace."""


def may_decide(
    decision: Decision,
    state: State,
    gates: GateRules,
    *,
    author: PublicKey,
    role: Role | None,
    asked: PublicKey | None = None,
) -> bool:
    """Whether a user may decide that here: an owner always, others by this table.

        decision    the member who began    the one who is asked              other members     guests
        command     yes                     -                                 no                no
        waiver      as other members        a member, with members_may_waive  by a command,     no
                                                                              with that setting
        approval    yes                     -                                 no                no
        answer      yes                     yes                               no                only who is asked
        reading     yes                     -                                 yes               no

    `asked` is who is asked, "" for an owner; None where no one is, as by a command.
    """
    if role is None:
        return False
    if role is Role.OWNER:
        return True
    is_asked = bool(asked) and author == asked
    has_begun = role is Role.MEMBER and author == state.identity.starter
    match decision:
        case Decision.WAIVER:
            return role is Role.MEMBER and gates.members_may_waive and (is_asked or asked is None)
        case Decision.COMMAND | Decision.APPROVAL:
            return has_begun
        case Decision.ANSWER:
            return has_begun or is_asked
        case Decision.READING:
            return role is Role.MEMBER
        case _:
            assert_never(decision)


def may_allow_calls(policy: Policy, *, author: PublicKey, role: Role | None) -> bool:
    """Whether a user may allow or refuse a call that leaves the sandbox: owners, and members where that is set.

    A key of ours never may, whatever the list of owners says: a program would allow what it asks for.
    """
    ours = {policy.project.pubkey, *(agent.pubkey for agent in policy.roster.values())}
    if author in ours:
        return False
    return role is Role.OWNER or (role is Role.MEMBER and policy.approvals.members_may_answer)


def asked_by_agents(state: State) -> PublicKey:
    """Who is asked where an agent asks now: who wrote last; a guest only in a cycle that their own message began.

    Else a guest who writes a word into the work of others would be asked about it.
    """
    newest = next((message for message in reversed(state.cycle.messages) if message.role is not None), None)
    if newest is None or newest.role is Role.GUEST:
        return state.on_behalf_of
    return newest.author
