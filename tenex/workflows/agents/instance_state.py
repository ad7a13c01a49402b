"""What an agent holds: its phase, where it has been, and the values of its state, as objects that may be changed.

Values are made of JSON when they are first asked for, and made JSON again when somebody wants to know what changed:
so `self.data.append(x)` is seen.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.errors import SerializationError
from tenex.core.phases import Phase
from tenex.core.state.agent import HISTORY, AgentPhaseState, Moved
from tenex.workflows.driving import MonotonicClock
from tenex.workflows.serialization import Typed


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation an agent works in, as conditions and templates may know it."""

    phase: str | None
    """One of the seven; None outside a conversation."""


class Held:
    """The values of one agent, or of a copy of it that a condition or a call is given."""

    __slots__ = ("_fields", "_live", "_recorded", "history", "is_given", "phase", "talk", "went")

    def __init__(
        self,
        fields: Mapping[str, Typed[Any]],
        standing: AgentPhaseState,
        conversation: Phase | None,
        *,
        is_given: bool = False,
    ) -> None:
        self._fields = fields
        self._recorded = dict(standing.values)
        self._live: dict[str, Any] = {}
        self.phase = standing.phase
        self.history = standing.history
        self.talk = Talk(None if conversation is None else str(conversation))
        self.went: list[tuple[str, str]] = []
        """The moves its own triggers made, since it was made of a standing."""
        self.is_given = is_given
        """Whether the standing counts as it is, whatever the journal says."""

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The values it was made with, as JSON."""
        return self._recorded

    def get(self, name: str) -> Any:
        """A field's value; the same object each time.

        Raises:
            Unreadable: what was recorded is not of the field's type any more.
        """
        if name not in self._live:
            self._live[name] = self._fields[name].load(copy.deepcopy(self._recorded[name]))
        return self._live[name]

    def set(self, name: str, value: Any) -> None:
        """Give a field a value.

        Raises:
            Unwritable: it is not of the field's type.
        """
        field = self._fields[name]
        try:
            field.dump(value)
        except SerializationError as fault:
            kind = getattr(field.kind, "__name__", None) or str(field.kind)
            raise SerializationError(f"{field.what} must be {kind}, and this {type(value).__name__} is none") from fault
        self._live[name] = value

    def go(self, source: str, target: str) -> None:
        """Move to another phase."""
        self.went.append((source, target))
        self.history = (*self.history, Moved(source=source, target=target, at=MonotonicClock().now()))[-HISTORY:]
        self.phase = target

    def changed(self) -> dict[str, Any]:
        """The fields whose values are other ones than recorded, as JSON.

        Raises:
            Unwritable: a value is not of its field's type.
        """
        written = {name: self._fields[name].dump(value) for name, value in self._live.items()}
        return {name: value for name, value in written.items() if value != self._recorded[name]}

    def standing(self) -> AgentPhaseState:
        """All of it, as JSON.

        Raises:
            Unwritable: as for `changed`.
        """
        return AgentPhaseState(phase=self.phase, values={**self._recorded, **self.changed()}, history=self.history)


@dataclass(frozen=True, slots=True)
class Changes:
    """What somebody changed of an agent between its runs."""

    held: Held

    def upon(self, known: AgentPhaseState | None) -> AgentPhaseState | None:
        """Where the agent stands with the changes, given what is recorded; None if that is what is recorded.

        Raises:
            Unwritable: a value is not of its field's type.
        """
        held, values = self.held, self.held.changed()
        if held.is_given or known is None:
            standing = held.standing()
            return standing if held.is_given or values or held.went else None
        went = held.history[-len(held.went) :] if held.went else ()
        merged = AgentPhaseState(
            phase=held.phase if held.went else known.phase,
            values={**known.values, **values},
            history=(*known.history, *went)[-HISTORY:],
        )
        return None if merged == known else merged


class StateView:
    """An agent's state by name: `agent.state.plan`, `agent.state.phase`, `agent.state.history`."""

    __slots__ = ("_held",)

    def __init__(self, held: Held) -> None:
        object.__setattr__(self, "_held", held)

    @property
    def phase(self) -> str:
        """The phase the agent is in; empty for one without phases."""
        held: Held = object.__getattribute__(self, "_held")
        return held.phase

    @property
    def history(self) -> tuple[Moved, ...]:
        """The newest of its moves, oldest first."""
        held: Held = object.__getattribute__(self, "_held")
        return held.history

    def __getattr__(self, name: str) -> Any:
        held: Held = object.__getattribute__(self, "_held")
        try:
            return held.get(name)
        except KeyError:
            raise AttributeError(f"the state has no field {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        held: Held = object.__getattribute__(self, "_held")
        try:
            held.set(name, value)
        except KeyError:
            raise AttributeError(f"the state has no field {name!r}") from None
