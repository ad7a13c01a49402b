"""Agents from an operator's Python files: each file holds one agent, and perhaps those that it calls.

An agent is called after its file; those it calls, after their classes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from tenex.core.errors import ConfigurationError, UntrustedFolder
from tenex.core.ids import Slug
from tenex.workflows.kit.loading import load_object, load_script

from .definition import PhasedAgent, subagents_of, with_subagents

SUFFIX: Final = ".py"
_STATES: Final = "tenex.output_states."
_SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonAgent:
    """An agent of a file: one instance, of which copies are asked and called."""

    slug: Slug
    agent: PhasedAgent
    slugs: dict[type, Slug]
    """Of the classes of its file."""
    source: str
    is_main: bool
    """Whether the file is about it; the others there are only called."""


def agent_files(folder: Path) -> list[Path]:
    """The Python files of a folder that may hold agents, in order; none where there is no such folder.

    A file whose name begins with `_` or `.` is no agent's.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX) if folder.is_dir() else []
    return [path for path in paths if not path.name.startswith((".", "_"))]


def agents_of(path: Path, faults: list[str], *, code_refusal: str) -> list[PythonAgent]:
    """The agents of one file; what is wrong is added to `faults`.

    With a `code_refusal` the file is not run, and that is its fault.
    """
    if code_refusal:
        faults.append(f"{path}: {code_refusal}")
        return []
    try:
        return read_agents(path)
    except UntrustedFolder:  # somebody else may have written it: no part of the folder is used
        raise
    except ConfigurationError as error:
        faults.extend(error.faults)
        return []


def slug_of(path: Path) -> Slug:
    """What the agent of a file is called."""
    return Slug(path.stem.lower().replace("_", "-"))


def read_agents(path: Path) -> list[PythonAgent]:
    """The agents of one file, the one that is called after it first; none of a file of output states.

    Raises:
        ConfigurationError: everything that is wrong, each with the file.
    """
    faults: list[str] = []
    slug = slug_of(path)
    if not _SLUG.fullmatch(slug):
        faults.append(f"{path.stem!r} cannot be the name of an agent; name the file by words joined with `_` or `-`.")
    module = load_script(path, "tenex_agents")
    if _is_of_states(module):
        return []
    return _made(lambda: _main(module), slug, str(path), faults)


def read_packaged(slug: Slug, reference: str, source: str) -> list[PythonAgent]:
    """The agent of a class in an installed package, as `package.module:Class`, first; then those that it calls.

    Raises:
        ConfigurationError: everything that is wrong, each with the source.
    """
    faults = [] if _SLUG.fullmatch(slug) else [f"{slug!r} cannot be the name of an agent."]
    cls = load_object(reference, _is_agent, "agent")
    if not (isinstance(cls, type) and issubclass(cls, PhasedAgent)):
        raise ConfigurationError([f"{source}: {reference} is no class of a BaseAgent."])
    return _made(lambda: cls, slug, source, faults)


def _made(make: Callable[[], type[PhasedAgent]], slug: Slug, source: str, faults: list[str]) -> list[PythonAgent]:
    """An agent of the class that `make` gives, with those that it calls."""
    try:
        members = with_subagents(make()(), slug)
    except ConfigurationError as fault:
        raise ConfigurationError([f"{source}: {sentence}" for sentence in (*faults, *fault.faults)]) from fault
    except Exception as fault:  # user code may fail in any way
        what = f"{type(fault).__name__}: {fault}"
        raise ConfigurationError([f"{source}: its agent cannot be made without arguments: {what}."]) from fault
    if faults:
        raise ConfigurationError([f"{source}: {sentence}" for sentence in faults])
    slugs = {type(member): name for name, member in members.items()}
    return [
        PythonAgent(slug=name, agent=member, slugs=slugs, source=source, is_main=name == slug)
        for name, member in members.items()
    ]


def _is_agent(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, PhasedAgent)


def _is_of_states(module: ModuleType) -> bool:
    """Whether a file holds states of output, which other agents name, and no agent."""
    bases = {base for value in vars(module).values() if isinstance(value, type) for base in value.__mro__}
    return PhasedAgent not in bases and any(base.__module__.startswith(_STATES) for base in bases)


def _main(module: ModuleType) -> type[PhasedAgent]:
    """The class a file is about: the one in it that no other one there calls or derives from."""
    there = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, PhasedAgent) and value.__module__ == module.__name__
    ]
    faults: list[str] = []
    used: set[type] = set()
    for cls in there:
        used.update(one for one in cls.__mro__[1:] if one in there)
        try:
            used.update(subagents_of(cls))
        except ConfigurationError as fault:
            faults.extend(fault.faults)
    if faults:
        raise ConfigurationError(list(dict.fromkeys(faults)))
    left = [cls for cls in dict.fromkeys(there) if cls not in used]
    if len(left) != 1:
        names = ", ".join(cls.__name__ for cls in left)
        which = f"{names} are each an agent of their own; give each a file" if names else "it holds no BaseAgent"
        raise ConfigurationError([f"{which}."])
    return left[0]
