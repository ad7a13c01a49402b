"""Whether a daemon would start with settings: users, folders, agents, workflows and models, with every fault."""

from collections.abc import Callable

from tenex.configuration.agents import load_agents, only_agent
from tenex.configuration.build import environment_of, project_event_of
from tenex.configuration.mcp import read_mcp, unknown_servers
from tenex.configuration.mcp_launch import unstartable
from tenex.configuration.models import build_model_client, unusable_models
from tenex.configuration.own_tools import find_own_tools, named_tools
from tenex.configuration.transcription import transcription_of
from tenex.configuration.workflows import load_workflows
from tenex.core.approvals.rules import doubts_of, matches
from tenex.core.errors import ConfigurationError
from tenex.mcp.servers import missing_sdk
from tenex.nostr.keys import parse_public_key
from tenex.plugins.kinds import register_kinds
from tenex.settings import Settings, check_paths, resolve_paths, suggestion

from .listed_tools import NOTHING_LISTED, ListedTools, unknown_in_agents, unknown_in_rules


def check_configuration(settings: Settings, listed: ListedTools = NOTHING_LISTED) -> tuple[list[str], list[str]]:
    """The faults of a configuration, and remarks on what is valid but has no effect or may not be meant.

    No model is called, and nothing is written. `listed` are the tools of MCP servers, as far as they are known.
    """
    where = resolve_paths(settings)
    faults = faults_of(
        lambda: settings.peer_group(parse_public_key),
        lambda: check_paths(settings),
        lambda: project_event_of(settings),
        lambda: transcription_of(settings, where),
    )
    try:
        own = find_own_tools(settings, where)
        library = load_agents(where, own=own)
    except ConfigurationError as error:
        return [*faults, *error.faults], []
    own.plugins.load(own.plugins.names, where.workspace)  # also those that no agent has
    kinds = register_kinds(settings.plugins.allow)
    faults += [*own.faults, *own.plugins.faults(), *kinds, *own.unknown(library)]
    try:
        library = library.without(unusable_models(build_model_client(settings, where, library), library))
    except ConfigurationError as error:
        faults += error.faults
    for one in library.disabled:
        for sentence in one.faults:
            place, _, fault = sentence.partition(": ")  # the file, and where it is known the line
            faults.append(f"{place}: the agent {one.slug} is disabled: {fault}" if one.slug else sentence)
    known = [*library.definitions, *library.faults]
    workflows = load_workflows(settings, where, [agent.slug for agent in library.roster], library.faults)
    faults += [
        f"{one.source}: the workflow {one.slug} is disabled: {sentence.removeprefix(f'{one.source}: ')}"
        for one in workflows.disabled
        for sentence in one.faults
    ]
    faults += faults_of(lambda: only_agent(settings, library))
    faults += examples_that_fail(settings)
    remarks = [f"{one.source}: {doubt}" for one in workflows.found for doubt in one.warnings]
    _, without = own.feature_tools(named_tools(library))
    faults += without
    remarks += [*own.skills.faults, *own.plugins.remarks(), *own.unused(library)]
    remarks += own.missing_programs(environment_of(settings, where))
    remarks += [
        f"models.agents.{slug}: there is no such agent, so this does nothing; {suggestion(slug, map(str, known))}"
        for slug in settings.models.agents
        if slug not in known
    ]
    servers = read_mcp(settings)
    why = missing_sdk() if servers.servers else ""
    if why:
        remarks.append(f"mcp.servers: {why}")
    remarks += [*servers.faults.values(), *unstartable(servers, where).values()]
    remarks += unknown_servers(library.definitions.values(), servers, settings.tools.added)
    remarks += unknown_in_agents(own, library, servers, listed)
    rules = settings.approvals.to_core(settings.approve, frozenset()).rules
    remarks += unknown_in_rules(rules, own, library, servers, listed)
    remarks += [f"{rule.name}: {doubt}" for rule in rules for doubt in doubts_of(rule)]
    return faults, remarks


def examples_that_fail(settings: Settings) -> list[str]:
    """A sentence for each example of a rule that the rule does not treat as it says."""
    policy = settings.approvals.to_core(settings.approve, frozenset())
    source = settings.file or settings.data
    return [
        f"{source}: {rule.name}: its example {example.text!r} "
        f"{'does not match' if example.matches else 'matches'}; change the rule or the example"
        for rule in policy.rules
        for example in rule.examples
        if matches(rule, example.arguments) is not example.matches
    ]


def faults_of(*checks: Callable[[], object]) -> list[str]:
    """Run all checks; returns the faults of every `ConfigurationError`."""
    faults: list[str] = []
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            faults += error.faults
        except (OSError, RuntimeError) as error:  # a link that leads to itself
            faults.append(str(error))
    return faults
