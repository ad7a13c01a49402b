"""Who works here: the agents' files and the keys they speak with."""

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey, Slug
from tenex.log import get_logger
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.settings import ProjectPaths, Settings, suggestion
from tenex.tools.standard import TOOL_NAMES
from tenex.tools.tool import Tool

from .python_agents import read_folder

log = get_logger(__name__)

PROJECT: Final = "project"
"""The name of the key the orchestrator speaks with: the address people write to."""
OWNER: Final = "owner"
"""The name of the key `tenex init` makes for an owner who has none, for clients on this machine."""


def load_agents(where: ProjectPaths, methods: dict[Slug, tuple[Tool, ...]] | None = None) -> PromptLibrary:
    """Read and check the built-in agents and the operator's own; `methods` takes the tools of those in Python.

    Raises:
        ConfigurationError: with every fault; also where an agent would speak with the key of somebody else.
    """
    library = read_library(where.agents, TOOL_NAMES, methods, code_refusal=where.code_refusal)
    taken = [slug for slug in library.definitions if slug in (PROJECT, OWNER)]
    if taken:
        raise ConfigurationError(
            [
                f"{library.definitions[slug].source}: {slug} cannot be an agent's slug, for the key of that name is not"
                " an agent's. Rename the file."
                for slug in taken
            ]
        )
    if any(definition.output is not None for definition in library.definitions.values()):
        from .output_states import outputs_of  # a quarter of a second that most do not need

        outputs_of(library, where)
    return library


def read_library(
    folder: Path,
    tools: Collection[str] | None = None,
    methods: dict[Slug, tuple[Tool, ...]] | None = None,
    *,
    code_refusal: str,
) -> PromptLibrary:
    """Read the built-in agents and the operator's own, in Markdown and in Python.

    Args:
        folder: the operator's.
        tools: every tool there is; None leaves the names unchecked.
        methods: takes the tools of those in Python.
        code_refusal: why no Python of the folder may be run; empty where it may.

    Raises:
        ConfigurationError: with every fault.
    """
    python = partial(read_folder, tools=tools, methods=methods, code_refusal=code_refusal)
    return PromptLibrary.load(builtin_prompts(), folder, tools=tools, python=python)


def only_agent(settings: Settings, library: PromptLibrary) -> Slug:
    """The agent that new conversations are with; "" where the setting names none.

    Raises:
        ConfigurationError: there is no such worker or expert.
    """
    name = settings.conversations.agent
    known = [one.slug for one in library.roster if not one.is_called_only]
    if name and name not in known:
        sentence = f"there is no agent {name!r}; {suggestion(name, map(str, known))}"
        raise ConfigurationError([f"{settings.file or settings.data}: conversations.agent: {sentence}"])
    return Slug(name)


def agent_keys(ring: KeyRing, library: PromptLibrary, workflows: Iterable[str] = ()) -> dict[str, SecretKey]:
    """The project's key and those of all agents and these workflows, by name; one that is new gets one.

    Raises:
        ConfigurationError: there is no key of the project, or one cannot be read or made; with all faults.
    """
    keys: dict[str, SecretKey] = {}
    faults: list[str] = []
    known = ring.names()
    try:  # never made in passing: people would write to a stranger
        keys[PROJECT] = ring.get(PROJECT)
    except ConfigurationError as error:
        if PROJECT not in known:
            raise  # and no other key either: it is no folder of ours
        faults.extend(error.faults)
    agents = [definition.slug for definition in library.roster]
    for name in (*agents, *workflows):
        try:
            if name in agents and name not in known:
                log.warning("key.created", name=name)  # a new agent; or one whose key was lost, and who is now another
            keys[name] = ring.get_or_create(name)
        except ConfigurationError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigurationError(faults)
    return keys


def former_keys(ring: KeyRing, names: Collection[str], people: Collection[PublicKey]) -> dict[PublicKey, SecretKey]:
    """The keys of agents that are no longer configured: messages they had begun are still to be signed, and are ours.

    Args:
        ring: where keys are.
        names: those that are in use.
        people: who may talk here; a key of theirs signs for no agent.
    """
    found: dict[PublicKey, SecretKey] = {}
    for name in ring.names():
        if name == OWNER or name in names:
            continue
        try:
            key = ring.get(name)
        except ConfigurationError as error:  # no agent of today needs it
            log.warning("key.not_read", name=name, reason=str(error))
            continue
        if key.public not in people:
            found[key.public] = key
    return found
