"""What an agent holds: its phase, where it has been, and the values of its state, as objects that may be changed.

Values are made of JSON when they are first asked for, and made JSON again when somebody wants to know what changed:
so `self.data.append(x)` is seen.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.agent_phases.program import HISTORY, AgentPhaseState, Moved
from tenex.core.errors import SerializationError
from tenex.core.phases import Phase
from tenex.runtime.clock import SystemClock
from tenex.workflows.kit.serialization import Typed


@dataclass(frozen=True, slots=True)
class ConversationView:
    """The conversation an agent works in, as conditions and templates may know it."""

    phase: str | None
    """Of the conversation; None outside one."""


class InstanceState:
    """The values of one agent, or of a copy of it that a condition or a call is given."""

    __slots__ = ("_fields", "_live", "_recorded", "history", "is_given", "moves_made", "phase", "talk")

    def __init__(
        self,
        fields: Mapping[str, Typed[Any]],
        agent_state: AgentPhaseState,
        conversation: Phase | None,
        *,
        is_given: bool = False,
    ) -> None:
        self._fields = fields
        self._recorded = dict(agent_state.values)
        self._live: dict[str, Any] = {}
        self.phase = agent_state.phase
        self.history = agent_state.history
        self.talk = ConversationView(None if conversation is None else str(conversation))
        self.moves_made: list[tuple[str, str]] = []
        """The moves its own triggers made, since it was made."""
        self.is_given = is_given
        """Whether this state replaces the journal's."""

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The values it was made with, as JSON."""
        return self._recorded

    def get(self, name: str) -> Any:
        """A field's value; the same object each time.

        Raises:
            DeserializationError: what was recorded is not of the field's type any more.
        """
        if name not in self._live:
            self._live[name] = self._fields[name].load(copy.deepcopy(self._recorded[name]))
        return self._live[name]

    def set(self, name: str, value: Any) -> None:
        """Give a field a value.

        Raises:
            SerializationError: it is not of the field's type.
        """
        field = self._fields[name]
        try:
            field.dump(value)
        except SerializationError as fault:
            kind = getattr(field.kind, "__name__", None) or str(field.kind)
            raise SerializationError(f"{field.what} must be {kind}, and this {type(value).__name__} is none") from fault
        self._live[name] = value

    def move(self, source: str, target: str) -> None:
        """Move to another phase."""
        self.moves_made.append((source, target))
        self.history = (*self.history, Moved(source=source, target=target, at=SystemClock().now()))[-HISTORY:]
        self.phase = target

    def changed(self) -> dict[str, Any]:
        """The fields whose values are other ones than recorded, as JSON.

        Raises:
            SerializationError: a value is not of its field's type.
        """
        written = {name: self._fields[name].dump(value) for name, value in self._live.items()}
        return {name: value for name, value in written.items() if value != self._recorded[name]}

    def snapshot(self) -> AgentPhaseState:
        """All of it, as JSON.

        Raises:
            SerializationError: as for `changed`.
        """
        return AgentPhaseState(phase=self.phase, values={**self._recorded, **self.changed()}, history=self.history)

    def applied_to(self, known: AgentPhaseState | None) -> AgentPhaseState | None:
        """Return the recorded state with what was changed here between two runs; None if nothing differs.

        Raises:
            SerializationError: as for `changed`.
        """
        values = self.changed()
        if self.is_given or known is None:
            return self.snapshot() if self.is_given or values or self.moves_made else None
        moves_made = self.history[-len(self.moves_made) :] if self.moves_made else ()
        merged = AgentPhaseState(
            phase=self.phase if self.moves_made else known.phase,
            values={**known.values, **values},
            history=(*known.history, *moves_made)[-HISTORY:],
        )
        return None if merged == known else merged


class StateView:
    """An agent's state by name: `agent.state.plan`, `agent.state.phase`, `agent.state.history`."""

    __slots__ = ("_instance",)
    _instance: InstanceState

    def __init__(self, instance: InstanceState) -> None:
        object.__setattr__(self, "_instance", instance)

    @property
    def phase(self) -> str:
        """The phase the agent is in; empty for one without phases."""
        return self._instance.phase

    @property
    def history(self) -> tuple[Moved, ...]:
        """The newest of its moves, oldest first."""
        return self._instance.history

    def __getattr__(self, name: str) -> Any:
        try:
            return self._instance.get(name)
        except KeyError:
            raise AttributeError(f"the state has no field {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            self._instance.set(name, value)
        except KeyError:
            raise AttributeError(f"the state has no field {name!r}") from None
