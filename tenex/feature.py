"""What a feature offers to the surfaces, as data.

What `tenex --help` needs is here as it is, in tuples, which are defined faster than dataclasses. All else is a function
that imports what it names when it is called.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.operations.doctor.findings import Finding
    from tenex.operations.doctor.runner import Check
    from tenex.prompting import AgentDefinition
    from tenex.web.site import PagePart


class Command(NamedTuple):
    """A command of the program, imported when it is run."""

    name: str
    """What is typed; with two words it is in the group of the first, such as `mcp serve`."""
    function: str
    """Where its function or typer app is: `module:name`."""
    about: str = ""
    """Its line in the help of the program; one in a group has the first sentence of its function."""
    has_json: bool = True
    """Whether it prints facts; a command that holds a conversation or serves does not."""
    is_variant: bool = False
    """Whether it takes some calls of a command that is there: its function is asked first, and returns whether it
    did."""
    is_hidden: bool = False
    """Whether the help leaves it out: another name of a command."""


class StatusPart(NamedTuple):
    """How surfaces read a part of a daemon's report, which an `Extension` makes."""

    name: str
    """Its name in the report."""
    lines: Callable[[Any, "datetime"], Iterable[str]]
    """Its lines for `tenex status`, at a time; of None where no daemon has answered."""
    problems: Callable[[Any], Iterable["Finding"]]
    """What the doctor finds in it, or in None, where the daemon does not report it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Feature:
    """A capability that can be left out, in a folder of its own below `tenex/features/`."""

    name: str
    """That of its folder."""
    settings: Sequence[str] = ()
    """Its sections of the settings."""
    commands: Sequence[Command] = ()
    extend: Callable[["Application"], "Extension"] | None = None
    """Makes what it does in a running daemon."""
    checks: Callable[[], Sequence["Check"]] = tuple
    """Checks of `tenex doctor`."""
    status: Callable[[], Sequence[StatusPart]] = tuple
    pages: Callable[[], Sequence["PagePart"]] = tuple
    """What it adds to the pages of `tenex web`."""
    about_agent: Callable[["AgentDefinition", Sequence[str]], Sequence[str]] = lambda _, __: ()
    """Lines of `tenex agents show` about an agent that has these models."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """Tools that agents may have, by name; each with the function that makes it of the settings, as `module:name`."""


def extensions_of(features: Iterable[Feature]) -> "list[Callable[[Application], Extension]]":
    """What makes the parts of features in a daemon."""
    return [feature.extend for feature in features if feature.extend is not None]


def tools_of(features: Iterable[Feature]) -> Mapping[str, Mapping[str, str]]:
    """The names of features, each with its tools: what settings are read for."""
    return {feature.name: feature.tools for feature in features}


def checks_of(features: Iterable[Feature]) -> "list[Check]":
    """The checks of features."""
    return [check for feature in features for check in feature.checks()]


def problems_of(features: Iterable[Feature]) -> "Mapping[str, Callable[[Any], Iterable[Finding]]]":
    """What features find in their parts of a daemon's status."""
    return {part.name: part.problems for feature in features for part in feature.status()}
