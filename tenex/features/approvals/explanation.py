"""Which rule decides about a call, also of a tool of an MCP server that is not known here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.configuration.agents import load_agents
from tenex.configuration.mcp import read_mcp
from tenex.core.approvals.rules import Judgement, Verdict, judge
from tenex.core.config import Policy
from tenex.core.errors import UsageError
from tenex.core.phases import Phase
from tenex.core.work.tool_names import SERVER_MARK, server_of
from tenex.operations.listed_tools import listed_tools
from tenex.operations.prompt_preview import load_readonly
from tenex.settings import Settings, resolve_paths, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is done with a call, by which rule, and what is not known of it."""

    verdict: Verdict
    rule: str
    note: str = ""


async def explain(settings: Settings, tool: str, arguments: Mapping[str, Any], phase: Phase, agent: str) -> Explanation:
    """What is done with a call in a new conversation, and by which rule.

    Tools of MCP servers are known as far as a running daemon has listed them.

    Raises:
        ConfigurationError: with all faults of the configuration.
        UsageError: there is no such tool.
    """
    where = resolve_paths(settings)
    listed = await listed_tools(where)
    policy = (await load_readonly(settings, where, load_agents(where), listed)).policy
    methods = [rule for member in policy.roster.values() for rule in member.methods.values()]
    rules = {**{rule.name: rule for rule in methods}, **policy.tools}
    rule = rules.get(tool)
    if rule is not None:
        if sentence := rule.refusal(arguments, phase):
            return Explanation(verdict=Verdict.REFUSE, rule="the tool itself", note=sentence)
        needs = {need.name: need.is_to for need in rule.needs_of(arguments)}
        return _explained(_judged(policy, tool, arguments, phase, agent, asks=rule.asks, needs=needs))
    server = server_of(tool)
    if not server:
        raise UsageError(f"There is no tool {tool[:80]}. There are: {', '.join(sorted(rules))}.")
    if server in listed.prefixes:
        names = [name for name in listed.tools() if server_of(name) == server]
        raise UsageError(f"The MCP server has no tool {tool[:80]}; {suggestion(tool, names)}")
    servers = {config.prefix: config for config in read_mcp(settings).servers}
    if server not in servers:
        begin = [f"{prefix}{SERVER_MARK}" for prefix in servers]
        hint = suggestion(f"{server}{SERVER_MARK}", begin) if begin else "none is configured"
        raise UsageError(f"There is no MCP server whose tools begin with {server[:80]}{SERVER_MARK}; {hint}")
    config = servers[server]
    unless = " unless it says that the tool only reads" if config.trust else ""
    return _explained(
        _judged(policy, tool, arguments, phase, agent, asks=True),
        f"Whether {config.name} has this tool is not known: no daemon that has started it runs on this folder. Where "
        f"no rule decides, a call of its tools asks{unless}.",
    )


def _judged(
    policy: Policy,
    tool: str,
    arguments: Mapping[str, Any],
    phase: Phase,
    agent: str,
    *,
    asks: bool,
    needs: Mapping[str, str] | None = None,
) -> Judgement:
    rules = policy.approvals.rules
    return judge(rules, tool=tool, asks=asks, arguments=arguments, phase=phase, agent=agent, needs=needs)


def _explained(judgement: Judgement, note: str = "") -> Explanation:
    return Explanation(verdict=judgement.verdict, rule=judgement.rule, note=note)
