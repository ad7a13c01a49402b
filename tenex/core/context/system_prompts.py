"""System prompts, remembered by their digest."""

from typing import Protocol

from tenex.core.state.conversation import State


class Prompted(Protocol):
    """A record that holds the prompt of a run, or names it by its digest."""

    @property
    def digest(self) -> str:
        """Of the prompt."""
        ...

    @property
    def system(self) -> str | None:
        """The prompt, where it is not remembered."""
        ...

    @property
    def forgets(self) -> tuple[str, ...]:
        """Digests whose prompts are forgotten."""
        ...


def recalled(c: State, record: Prompted) -> str | None:
    """The prompt of a record, from now on the last used; None where it is not rendered."""
    system = c.systems.get(record.digest) if record.system is None else record.system
    if system is not None:
        gone = {record.digest, *record.forgets}
        c.systems = {**{key: text for key, text in c.systems.items() if key not in gone}, record.digest: system}
    return system
