"""Conditions for guarded edges, and the targets that move.

Facts are a mapping given by whoever routes: `speaker`, `tools` (names called in the round, in order), `context`
(variables), `first` (who opened), `order` (the participants), or `agent` for an agent's own phases.

Never: read anything but the facts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .graph import END, Choice


@dataclass(frozen=True, slots=True)
class FromSpeaker:
    """Open when this participant has just spoken."""

    speaker: str

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the speaker of the last round is ours."""
        return bool(facts.get("speaker") == self.speaker)


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Open when the last round called this tool."""

    tool: str

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the tool is among those called."""
        return self.tool in (facts.get("tools") or ())


@dataclass(frozen=True, slots=True)
class ContextEquals:
    """Open when a variable has this value; a variable that is not set is None."""

    key: str
    value: Any

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the variable equals the value."""
        return bool((facts.get("context") or {}).get(self.key) == self.value)


@dataclass(frozen=True, slots=True)
class Predicate:
    """Open when a function of the acting agent says so (an agent's own phases)."""

    test: Callable[[Any], bool]

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the function holds of the agent."""
        return bool(self.test(facts.get("agent")))


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """The participant after the last speaker, in order."""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> Choice:
        """The next in line; the first if nobody has spoken."""
        order = list(facts.get("order") or ())
        if not order:
            return Choice(END, "nobody takes part")
        speaker = facts.get("speaker", node)
        return Choice(order[(order.index(speaker) + 1) % len(order)] if speaker in order else order[0])


@dataclass(frozen=True, slots=True)
class Stay:
    """The same node again."""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> Choice:
        """Where we stand."""
        return Choice(node)


@dataclass(frozen=True, slots=True)
class BackToFirst:
    """Whoever opened the conversation."""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> Choice:
        """The participant who opened."""
        first = facts.get("first")
        return Choice(first) if first else Choice(END, "nobody opened the conversation")


@dataclass(frozen=True, slots=True)
class Terminate:
    """The end, with a reason."""

    reason: str = ""

    def resolve(self, node: str, facts: Mapping[str, Any]) -> Choice:
        """The end."""
        return Choice(END, self.reason)
