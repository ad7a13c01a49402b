"""What the packages that the operator allows name as agents and workflows, by their entry points.

Their tools are read in `sources`, their kinds of conversation in `kinds`.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.workflows.agents.loading import PythonAgent, read_packaged

from .loading import load_within

AGENTS: Final = "tenex.agents"
WORKFLOWS: Final = "tenex.workflows"
KINDS: Final = "tenex.kinds"
"""Groups of entry points; of the last one: the name of a kind of conversation, and its class."""
_IN_WORDS: Final = {AGENTS: "the agent", WORKFLOWS: "the workflow", KINDS: "the kind of conversation"}
OFF: Final = "TENEX_PLUGINS"
"""The variable of the environment that is `none` where no code of plugins is to be loaded."""

AgentSource = tuple[Slug, str, Callable[[list[str]], list[PythonAgent]]]
"""A slug, where the agent comes from, and what reads it; that adds what is wrong to a list."""


def is_off(env: Mapping[str, str] | None = None) -> bool:
    """Whether no code of plugins is to be loaded; None means the process's own environment."""
    return (os.environ if env is None else env).get(OFF, "").strip().lower() == "none"


def workflow_references(allowed: Iterable[str]) -> list[str]:
    """The workflows of the allowed packages, as `package.module:name`."""
    return [entry.value for _, entry in entries_of(allowed, WORKFLOWS)]


def packaged_agents(allowed: Iterable[str], built_in: Collection[str]) -> list[AgentSource]:
    """The agents of the allowed packages; none takes the name of a built-in one, or that of another package's."""
    entries = [*entries_of(allowed, AGENTS)]
    counts = Counter(entry.name for _, entry in entries)
    found: list[AgentSource] = []
    for package, entry in entries:
        source = f"{package}: {entry.name}"
        if entry.name in built_in:  # without a slug, for the built-in agent is not disabled by that
            found.append((Slug(""), source, partial(_refused, f"{source}: there is a built-in agent of this name.")))
        elif counts[entry.name] > 1:
            found.append((Slug(entry.name), source, partial(_refused, f"{source}: two packages have this agent.")))
        else:
            found.append((Slug(entry.name), source, partial(_read, entry, source, built_in)))
    return found


def _refused(sentence: str, faults: list[str]) -> list[PythonAgent]:
    faults.append(sentence)
    return []


def _read(entry: metadata.EntryPoint, source: str, built_in: Collection[str], faults: list[str]) -> list[PythonAgent]:
    try:
        agents = load_within(lambda: read_packaged(Slug(entry.name), entry.value, source))[0]
    except ConfigurationError as error:
        faults += [fault if fault.startswith(source) else f"{source}: {fault}" for fault in error.faults]
        return []
    for one in agents:
        if one.slug in built_in:
            return _refused(f"{source}: it calls {one.slug}, and there is a built-in agent of this name.", faults)
    return agents


def brought(allowed: Collection[str]) -> Mapping[str, Sequence[str]]:
    """What each of the allowed packages brings besides tools, in words, by its name and version."""
    brings: dict[str, list[str]] = {}
    for group, what in _IN_WORDS.items():
        for package, entry in entries_of(allowed, group):
            brings.setdefault(f"{package} {metadata.version(package)}", []).append(f"{what} {entry.name}")
    return brings


def entries_of(allowed: Iterable[str], group: str) -> Iterator[tuple[str, metadata.EntryPoint]]:
    """The entry points of a group, each with the name of its package; one that is not installed has none."""
    for name in () if is_off() else dict.fromkeys(allowed):
        with suppress(metadata.PackageNotFoundError, ValueError):
            distribution = metadata.distribution(name)
            for entry in distribution.entry_points.select(group=group):
                yield distribution.name, entry
