"""A slash command as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A word and what follows it."""

    name: str
    argument: str
