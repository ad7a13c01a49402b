"""What a feature offers to the surfaces, as data.

Commands are named by strings, so that `tenex --help` imports none of them.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program, imported when it is run."""

    name: str
    """What is typed; with two words it is in the group of the first, such as `mcp serve`."""
    function: str
    """Where its function or typer app is: `module:name`."""
    about: str = ""
    """Its line in the help of the program; one in a group has the first sentence of its function."""
    _: KW_ONLY
    has_json: bool = True
    """Whether it prints facts; a command that holds a conversation or serves does not."""
    is_variant: bool = False
    """Whether it takes some calls of a command that is there: its function is asked first, and returns whether it
    did."""
    is_hidden: bool = False
    """Whether the help leaves it out: another name of a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A capability that can be left out, in a folder of its own below `tenex/features/`."""

    name: str
    """That of its folder."""
    commands: Sequence[Command] = ()
