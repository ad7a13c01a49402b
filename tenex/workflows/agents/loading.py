"""Agents from an operator's Python files: each file holds one agent, and perhaps those that it calls.

An agent is called after its file; those it calls, after their classes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.workflows.loading import load_script

from .definition import PhasedAgent, blueprint, subagents_of, with_subagents
from .fields import State

SUFFIX: Final = ".py"
_STATES: Final = "tenex.output_states."
_SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KINDS: Final = tuple(kind for kind in AgentKind if kind is not AgentKind.ORCHESTRATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonAgent:
    """An agent of a file: one instance, of which copies are asked and called, and the attributes of its class."""

    slug: Slug
    agent: PhasedAgent
    slugs: dict[type, Slug]
    """Of the classes of its file."""
    name: str
    role: str
    kind: AgentKind
    use_when: str
    in_phases: tuple[Phase, ...]
    tools: tuple[str, ...]
    """Of the daemon's own, besides its methods."""
    model: str
    output: Any
    """Its output states, as front matter names them or as classes; None where it answers as its model does."""
    source: str
    is_main: bool
    """Whether the file is about it; the others there are only called."""


def find_agents(folder: Path, faults: list[str], *, code_refusal: str) -> list[PythonAgent]:
    """Every agent of a folder's Python files; what is wrong is added to `faults`. A folder that is not there has none.

    A file whose name begins with `_` or `.` is no agent's. With a `code_refusal` none is run, and it is their fault.
    """
    found: list[PythonAgent] = []
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX) if folder.is_dir() else []
    for path in paths:
        if path.name.startswith((".", "_")):
            continue
        if code_refusal:
            faults.append(f"{path}: {code_refusal}")
            continue
        try:
            found += read_agents(path)
        except ConfigurationError as error:
            faults.extend(error.faults)
    return found


def read_agents(path: Path) -> list[PythonAgent]:
    """The agents of one file, the one that is called after it first; none of a file of output states.

    Raises:
        ConfigurationError: everything that is wrong, each with the file.
    """
    faults: list[str] = []
    slug = Slug(path.stem.lower().replace("_", "-"))
    if not _SLUG.fullmatch(slug):
        faults.append(f"{path.stem!r} cannot be the name of an agent; name the file by words joined with `_` or `-`.")
    module = load_script(path, "tenex_agents")
    if _is_of_states(module):
        return []
    try:
        members = with_subagents(_main(module)(), slug)
    except ConfigurationError as fault:
        raise ConfigurationError([f"{path}: {sentence}" for sentence in (*faults, *fault.faults)]) from fault
    except Exception as fault:  # user code may fail in any way
        what = f"{type(fault).__name__}: {fault}"
        raise ConfigurationError([f"{path}: its agent cannot be made without arguments: {what}."]) from fault
    slugs = {type(member): name for name, member in members.items()}
    found = [_read(name, member, slugs, str(path), faults) for name, member in members.items()]
    if faults:
        raise ConfigurationError([f"{path}: {sentence}" for sentence in faults])
    return found


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


def _read(slug: Slug, agent: PhasedAgent, slugs: dict[type, Slug], source: str, faults: list[str]) -> PythonAgent:
    cls = type(agent)
    shape = blueprint(cls)
    role = _text(cls, "role", faults) or shape.description or "an agent written in Python"
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", cls.__name__)
    return PythonAgent(
        slug=slug,
        agent=agent,
        slugs=slugs,
        name=_text(cls, "name", faults) or " ".join(words),
        role=role,
        kind=_kind(cls, faults),
        use_when=_text(cls, "use_when", faults) or role,
        in_phases=tuple(_phases(cls, faults)),
        tools=_words(cls, "tools", faults),
        model=_text(cls, "model", faults),
        output=_attribute(cls, "output"),
        source=source,
        is_main=slug == next(iter(slugs.values())),
    )


def _attribute(cls: type, name: str) -> Any:
    """Return a class attribute; a field of state by that name is none."""
    value = getattr(cls, name, None)
    return None if isinstance(value, State) else value


def _text(cls: type, name: str, faults: list[str]) -> str:
    value = _attribute(cls, name)
    if value is None or isinstance(value, str):
        return " ".join((value or "").split())
    faults.append(f"{cls.__name__}: `{name}` must be a text.")
    return ""


def _words(cls: type, name: str, faults: list[str]) -> tuple[str, ...]:
    value = _attribute(cls, name)
    if value is None:
        return ()
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value):
        return tuple(value)
    faults.append(f"{cls.__name__}: `{name}` must be a list of words.")
    return ()


def _kind(cls: type, faults: list[str]) -> AgentKind:
    word = _text(cls, "kind", faults) or str(AgentKind.WORKER)
    if word.lower() in _KINDS:
        return AgentKind(word.lower())
    faults.append(f"{cls.__name__}: `kind` is {word!r}; it must be one of {', '.join(_KINDS)}.")
    return AgentKind.WORKER


def _phases(cls: type, faults: list[str]) -> Iterator[Phase]:
    for word in _words(cls, "in_phases", faults):
        phase = Phase.parse(word)
        if phase is None:
            faults.append(f"{cls.__name__}: `in_phases` names {word!r}; the phases are {', '.join(Phase)}.")
        else:
            yield phase
