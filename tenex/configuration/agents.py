"""Who works here: the agents' files and the keys they speak with."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey, Slug
from tenex.core.installation import pip_install
from tenex.log import get_logger
from tenex.nostr.keys import Key, KeyRing
from tenex.plugins.packages import AgentSource, packaged_agents
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.agents import ACP_TOOLS
from tenex.settings import ProjectPaths, Settings, suggestion
from tenex.tools.standard import TOOL_NAMES
from tenex.tools.tool import Tool

from .own_tools import OwnTools
from .python_agents import read_folder

log = get_logger(__name__)

PROJECT: Final = "project"
"""The name of the key the orchestrator speaks with: the address people write to."""
OWNER: Final = "owner"
"""The name of the key `tenex init` makes for an owner who has none, for clients on this machine."""


def load_agents(
    where: ProjectPaths, methods: dict[Slug, tuple[Tool, ...]] | None = None, own: OwnTools | None = None
) -> PromptLibrary:
    """Read and check the built-in agents and the operator's own; `methods` takes the tools of those in Python.

    With the operator's own tools agents may name them, and have those that are added to them.

    An agent with faults is disabled; so is one that would speak with the key of somebody else.

    Raises:
        ConfigurationError: with every fault of the built-in files and of the orchestrator, without which nothing runs.
    """
    allowed = () if own is None else own.settings.plugins.allow
    library = read_library(
        where.agents,
        TOOL_NAMES if own is None else own.names,
        methods,
        code_refusal=where.code_refusal,
        packaged=packaged_agents(allowed, _built_in()),
    )
    library = library.without(
        {
            slug: [f"{agent.source}: {slug} cannot be an agent's slug, for its key is no agent's. Rename the file."]
            for slug, agent in library.definitions.items()
            if slug in (PROJECT, OWNER)
        }
    )
    library = library.without(_without_program(library, TOOL_NAMES if own is None else own.names))
    if any(definition.output is not None for definition in library.definitions.values()):
        from .output_states import checked_outputs  # a quarter of a second that most do not need

        library = library.without(checked_outputs(library, where)[1])
    return library if own is None else library.with_tools(own.added)


def _without_program(library: PromptLibrary, tools: Collection[str]) -> dict[Slug, list[str]]:
    """Why agents that are programs cannot be used here, by their slugs."""
    programs = {slug: agent for slug, agent in library.definitions.items() if agent.acp is not None}
    if not programs:
        return {}
    if not ACP_TOOLS.issubset(tools):
        why = "this program is without the feature `acp_agents`. Use one that has it, or remove `acp`."
    elif find_spec("acp") is None:
        why = f"an agent with `acp` needs the extra `acp`: {pip_install(extra='acp')}"
    else:
        return {}
    return {slug: [f"{agent.source}: {why}"] for slug, agent in programs.items()}


def read_library(
    folder: Path,
    tools: Collection[str] | None = None,
    methods: dict[Slug, tuple[Tool, ...]] | None = None,
    *,
    code_refusal: str,
    packaged: Sequence[AgentSource] = (),
) -> PromptLibrary:
    """Read the built-in agents and the operator's own, in Markdown and in Python.

    Args:
        folder: the operator's.
        tools: every tool there is; None leaves the names unchecked.
        methods: takes the tools of those in Python.
        code_refusal: why no Python of the folder may be run; empty where it may.
        packaged: agents of installed packages.

    Raises:
        ConfigurationError: with every fault.
    """
    python = partial(read_folder, tools=tools, methods=methods, code_refusal=code_refusal, packaged=packaged)
    return PromptLibrary.load(builtin_prompts(), folder, tools=tools, python=python)


def _built_in() -> frozenset[str]:
    """The slugs of the built-in agents."""
    return frozenset(path.stem for path in (builtin_prompts() / "agents").glob("*.md"))


def only_agent(settings: Settings, library: PromptLibrary) -> Slug:
    """The agent that new conversations are with, also while it is disabled; "" where the setting names none.

    Raises:
        ConfigurationError: there is no such worker or expert.
    """
    name = settings.conversations.agent
    known = [one.slug for one in library.roster if not one.is_called_only]
    if name and name not in (*known, *library.faults):
        sentence = f"there is no agent {name!r}; {suggestion(name, map(str, known))}"
        raise ConfigurationError([f"{settings.file or settings.data}: conversations.agent: {sentence}"])
    return Slug(name)


def project_key(ring: KeyRing) -> Key:
    """The key people write to, which is never made in passing: they would write to a stranger.

    Raises:
        ConfigurationError: there is none, or it cannot be read.
    """
    return ring.read(PROJECT)


def keys_of(ring: KeyRing, names: Iterable[Slug], what: str) -> tuple[dict[str, Key], dict[Slug, list[str]]]:
    """The keys of agents or workflows by name, where one that is new gets one; and the faults of those without."""
    keys: dict[str, Key] = {}
    faults: dict[Slug, list[str]] = {}
    known = ring.names()
    for name in names:
        try:
            if what == "agent" and name not in known:
                log.warning("key.created", name=name)  # a new agent; or one whose key was lost, and who is now another
            keys[name] = ring.read_or_create(name)
        except ConfigurationError as error:
            faults[name] = [*error.faults]
    return keys, faults


def disabled_agents(ring: KeyRing, library: PromptLibrary) -> tuple[dict[Slug, tuple[str, ...]], dict[str, Key]]:
    """The faults of each disabled agent as users read them, and the keys of those that have one and can be called."""
    faults: dict[Slug, tuple[str, ...]] = {}
    keys: dict[str, Key] = {}
    known = ring.names()
    for one in library.disabled:
        log.error("agent.disabled", agent=one.slug, file=one.source, faults=list(one.faults))
        if not one.slug or one.slug in (PROJECT, OWNER):
            continue
        # users read this: they need the file's name, and not where on this machine it is
        named = (fault.replace(one.source, Path(one.source).name) for fault in one.faults)
        faults[one.slug] = (*faults.get(one.slug, ()), *named)
        if one.slug in known:
            with suppress(ConfigurationError):
                keys[one.slug] = ring.read(one.slug)
    return faults, keys


def former_keys(ring: KeyRing, names: Collection[str], people: Collection[PublicKey]) -> dict[PublicKey, Key]:
    """The keys of agents that are no longer configured: messages they had begun are still to be signed, and are ours.

    Args:
        ring: where keys are.
        names: those that are in use.
        people: who may talk here; a key of theirs signs for no agent.
    """
    found: dict[PublicKey, Key] = {}
    for name in ring.names():
        if name == OWNER or name in names:
            continue
        try:
            key = ring.read(name)
        except ConfigurationError as error:  # no agent of today needs it
            log.warning("key.not_read", name=name, reason=str(error))
            continue
        if key.public not in people:
            found[key.public] = key
    return found
