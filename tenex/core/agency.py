"""An agent's own phases: its graph, its typed state, and which tools and colleagues each phase offers.

A `Program` is what is configured; a `Standing` is where an agent stands, and all of it is JSON. Conditions are asked
with what `look` makes of a standing: the agent itself (Python) or its values (front matter). Of the current phase's
edges the first true one is taken, one per evaluation.

Never: hold state, or know how a program was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from .graph import Condition, TransitionGraph
from .ids import Millis, Slug
from .phases import Phase

HISTORY: Final = 50
"""Moves of an agent that are remembered, the newest; the journal has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An agent went from one of its phases to another."""

    source: str
    target: str
    at: Millis

    @property
    def trigger(self) -> str:
        """The name of the pair: `planning_to_research`."""
        return f"{self.source}_to_{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an agent stands."""

    phase: str = ""
    """Empty for an agent that has state and no phases."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Its typed state as JSON values, every field of it."""
    history: tuple[Moved, ...] = ()

    def moved(self, move: Moved) -> "Standing":
        """The agent changed its phase."""
        return replace(self, phase=move.target, history=(*self.history, move)[-HISTORY:])

    def changed(self, values: Mapping[str, Any]) -> "Standing":
        """Fields of its state have new values."""
        return replace(self, values={**self.values, **values})


class Look(Protocol):
    """What a program's conditions are asked with. Pure: a copy, which no condition can change the standing by."""

    def __call__(self, standing: Standing, conversation: Phase | None) -> Any:
        """The agent as it stands; `conversation` is the conversation's phase, None outside one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """When a tool or a colleague is there: in these phases (empty means all) AND while the condition holds."""

    phases: frozenset[str] = frozenset()
    when: Condition | None = None


ALWAYS: Final = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A colleague that is called like a tool."""

    agent: Slug
    description: str
    scope: Scope = ALWAYS
    is_shared: bool = False
    """Whether it keeps its standing from call to call; else each call finds it at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An agent's own phases and state, as configured. Compared by identity: conditions are functions."""

    graph: TransitionGraph | None
    """None for an agent that has state or links and no phases."""
    defaults: Mapping[str, Any]
    schema: Mapping[str, Mapping[str, Any]]
    """JSON Schema of each field."""
    look: Look
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """Of the tools that are not always there, by name."""
    links: Mapping[str, Link] = field(default_factory=dict)
    """By the name of the tool that calls them."""

    def begin(self) -> Standing:
        """Where an agent stands before it has done anything."""
        return Standing(phase=self.graph.initial if self.graph else "", values=dict(self.defaults))

    def next_phase(self, standing: Standing, conversation: Phase | None) -> str | None:
        """The phase that follows now: one step, never more; None to stay.

        Raises:
            Exception: whatever a condition raises; only those of the current phase are asked.
        """
        if self.graph is None:
            return None
        choice = self.graph.first_match(standing.phase, self.look(standing, conversation))
        return None if choice is None or choice.is_end else choice.node

    def offers(self, tool: str, standing: Standing, conversation: Phase | None) -> bool:
        """Whether a tool or a colleague is there now: phases AND condition."""
        link = self.links.get(tool)
        scope = link.scope if link is not None else self.scopes.get(tool, ALWAYS)
        if scope.phases and standing.phase not in scope.phases:
            return False
        return scope.when is None or scope.when.holds(self.look(standing, conversation))
