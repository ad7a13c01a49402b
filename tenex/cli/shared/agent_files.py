"""The agents of a data folder as commands read them: their files, their keys and their graphs."""

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tenex.core.errors import ConfigurationError, StoreError, UsageError
from tenex.core.graph import END
from tenex.core.ids import Slug
from tenex.core.text.foreign import is_like_key
from tenex.nostr.keys import KeyRing
from tenex.operations.short_ids import matching
from tenex.settings import Settings, resolve_paths

from .options import Globals

if TYPE_CHECKING:
    from tenex.core.graph import TransitionGraph
    from tenex.prompting import AgentDefinition, PromptLibrary

_RESERVED: Final = frozenset({END.lower(), "user", "project", "owner"})
"""Names that an agent may not have: words of the router, and keys that belong to no agent."""
_KEBAB: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def load_agents(settings: Settings) -> "PromptLibrary":
    """Read and check the built-in agents and the operator's own.

    Raises:
        ConfigurationError: with every fault.
    """
    from tenex.configuration import agents as configuration
    from tenex.configuration.own_tools import find_own_tools

    where = resolve_paths(settings)
    return configuration.load_agents(where, own=find_own_tools(settings, where))


def chosen_by_owners(settings: Settings, library: "PromptLibrary") -> Settings:
    """The settings with the models that owners have chosen from their clients, as a daemon uses them."""
    from tenex.configuration.chosen_models import with_chosen
    from tenex.operations.lessons import read_lessons

    try:
        chosen = asyncio.run(read_lessons(settings.store, resolve_paths(settings).conversations)).models()
    except (StoreError, OSError):  # a daemon's journal that is damaged is reported by `tenex doctor`
        return settings
    return with_chosen(settings, library, chosen)


def keyed_agents(library: "PromptLibrary") -> tuple[str, ...]:
    """The slugs of the agents with keys of their own: all but the orchestrator, which signs with the project's."""
    return tuple(str(slug) for slug, agent in library.definitions.items() if agent.kind != "orchestrator")


def npubs_of(settings: Settings, known: "Mapping[Slug, AgentDefinition]") -> dict[str, str]:
    """The npubs of the agents that have a key, by slug."""
    ring = KeyRing(*resolve_paths(settings).key_folders)
    names = {str(slug): "project" if agent.kind == "orchestrator" else str(slug) for slug, agent in known.items()}
    return {slug: ring.read(name).npub for slug, name in names.items() if name in ring.names()}


def full_name(given: Globals, start: str) -> str:
    """The slug or npub that begins with `start`; `start` itself where no current agent matches.

    Raises:
        UsageError: several match.
    """
    if not start:
        return start
    try:
        settings = given.settings()
        npubs = npubs_of(settings, load_agents(settings).definitions)
    except ConfigurationError:  # conversations can be read without valid settings
        return start
    return matching(start.removeprefix("@"), [*npubs, *npubs.values()], "agents") or start


def graph_json(graph: "TransitionGraph", label: str = "") -> dict[str, Any]:
    """A graph as JSON, with the labels of its edges under the name `label` where one is given."""
    return {
        "initial": str(graph.initial),
        "nodes": [str(node) for node in graph.nodes],
        "edges": [
            {"from": edge.source, "to": str(edge.target), **({label: edge.label} if label else {})}
            for edge in graph.edges
        ],
    }


def check_name(slug: str) -> None:
    """See that an agent may have this name.

    Raises:
        UsageError: it may not.
    """
    if is_like_key(slug):
        raise UsageError(
            "SLUG is the name of an agent, and this looks like a key. Delete it from your shell's history."
        )
    if not _KEBAB.fullmatch(slug):
        near = "-".join(re.findall(r"[a-z0-9]+", slug.lower()))
        hint = f" Did you mean {near}?" if near else ""
        raise UsageError(f"{slug!r} is not a name for an agent: use lower-case words joined with hyphens.{hint}")
    if slug in _RESERVED:
        raise UsageError(f"{slug!r} is a reserved word; choose another name")
