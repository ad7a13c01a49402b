"""What a data folder would get and decide: who gives orders, servers, variables, files outside it, code, sandbox."""

from collections.abc import Iterator

from tenex.llm.config import KEY_VARIABLES, OFFLINE, split_name
from tenex.nostr.keys import KeyRing
from tenex.settings import Settings, code_paths, contents_of, places_outside, resolve_paths
from tenex.settings.sections import Provider


def grants_of(settings: Settings) -> dict[str, list[str]]:
    """By what it is, as text; what there is none of is left out. No file of the folder is used for it.

    Raises:
        ConfigurationError: a file of agents or workflows cannot be read.
    """
    here = resolve_paths(settings)
    found = {
        "gives orders": [*_people(settings)],
        "relays": list(settings.relays.urls),
        "servers": [*_servers(settings)],
        "variables": sorted(set(_variables(settings))),
        "files outside": [f"{place} ({name})" for name, place in places_outside(settings, here).items()],
        "keys in it": sorted(KeyRing(here.keys).names()),
        "agents and code": [*contents_of(here.data, code_paths(settings, here)), *_modules(settings)],
        "MCP servers": [*_mcp(settings)],
        "sandbox": [*_sandbox(settings)],
    }
    return {name: values for name, values in found.items() if values}


def _people(settings: Settings) -> Iterator[str]:
    yield from (f"owner {key}" for key in settings.people.owners)
    yield from (f"member {key}" for key in settings.people.members)
    if settings.people.open:
        yield "anyone (people.open)"


def _providers(settings: Settings) -> Iterator[tuple[str, Provider]]:
    chains = settings.models.named().values()
    named = {parts[0] for chain in chains for name in chain if name != OFFLINE and (parts := split_name(name))}
    for name in sorted({*named, *settings.models.providers}):
        yield name, settings.models.providers.get(name) or Provider()


def _servers(settings: Settings) -> Iterator[str]:
    for name, provider in _providers(settings):
        yield f"{name}: {provider.base_url or f'that of {provider.kind or name}'}"
    if settings.traces.endpoint is not None:
        yield f"traces: {settings.traces.endpoint}"
    if settings.metrics.port is not None:
        yield f"metrics on {settings.metrics.host}:{settings.metrics.port}"


def _variables(settings: Settings) -> Iterator[str]:
    for name, provider in _providers(settings):
        if provider.api_key_env is not None:
            yield f"{provider.api_key_env} (sent to {name})"
        if provider.base_url is None:
            usual = KEY_VARIABLES.get(provider.kind or name, ())
            yield from (f"{variable} (sent to {name})" for variable in usual if variable != provider.api_key_env)


def _modules(settings: Settings) -> Iterator[str]:
    yield from (f"module {name}" for name in settings.workflows if ":" in name)
    yield from (f"package {name} (plugins.allow)" for name in settings.plugins.allow)


def _mcp(settings: Settings) -> Iterator[str]:
    """The servers of the settings; the file with others is listed with the agents and code."""
    for name, server in settings.mcp.servers.items():
        started = " ".join([server.command or server.url or "", *server.args])
        freedom = "" if server.sandbox or server.command is None else ", without a sandbox, as you"
        believed = ", trusted" if server.trust else ""
        yield f"{name}: {started}{freedom}{believed}"


def _sandbox(settings: Settings) -> Iterator[str]:
    if settings.tools.shell.sandbox == "none":
        yield "off: agents' commands run as you (tools.shell.sandbox)"
        checks = settings.checks.items()
        yield from (
            f"runs as you without a question: {check.run} (checks.{name})" for name, check in checks if check.run
        )
    if settings.tools.check == "on":
        yield "not required for checks (tools.check)"
    if settings.tools.shell.network:
        yield "with network (tools.shell.network)"
    if settings.workspace.setup and settings.workspace.setup_network:
        yield "with network for `tenex workspace setup` (workspace.setup_network)"
    if settings.workspace.commit != "never":
        yield "agents commit in the project's repository (workspace.commit)"
    yield from (f"shows {folder} (workspace.path)" for folder in settings.workspace.path)
    for rule in settings.approve:
        if rule.decision == "allow":
            needs = (f"with {need}" for need in rule.needs)
            words = (rule.tool, *rule.match, *rule.options, rule.path, rule.host, *needs)
            yield f"runs without a question: {' '.join(filter(None, words))} (approve)"
