"""An agent and everybody it calls, as the core knows them: each with a slug, its tools and its program."""

import re
from collections.abc import Iterator, Mapping

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug

from .definition import PhasedAgent, blueprint


def slug_of(cls: type) -> Slug:
    """What an agent of a class is called: `ResearchAgent` is `research-agent`."""
    return Slug("-".join(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", cls.__name__)))


def linked(cls: type[PhasedAgent]) -> Iterator[type[PhasedAgent]]:
    """The classes an agent calls, those that they call, and so on; not itself."""
    found: dict[type[PhasedAgent], None] = {cls: None}
    for one in (queue := [cls]):
        for shape in blueprint(one).links.values():
            if shape.target is not None and issubclass(shape.target, PhasedAgent) and shape.target not in found:
                found[shape.target] = None
                queue.append(shape.target)
    yield from (one for one in found if one is not cls)


def household(agent: PhasedAgent, slug: Slug) -> Mapping[Slug, PhasedAgent]:
    """An agent by its slug, and those it calls by theirs.

    Raises:
        ConfigurationError: two of them have one name, or one cannot be made.
    """
    members: dict[Slug, PhasedAgent] = {slug: agent}
    faults: list[str] = []
    for cls in linked(type(agent)):
        name = slug_of(cls)
        if name in members:
            faults.append(f"{cls.__name__}: {type(members[name]).__name__} is called {name} too; rename one of them.")
            continue
        try:
            members[name] = cls()
        except ConfigurationError as fault:
            faults.extend(fault.faults)
        except Exception as error:  # noqa: BLE001 - the author's code may fail in any way
            faults.append(f"{cls.__name__}: it cannot be made: {type(error).__name__}: {error}.")
    if faults:
        raise ConfigurationError(faults)
    return members
