"""Conditions of a workflow's rules, and their targets, by AG2's names and protocols; and one for an agent's own phases.

A condition's `evaluate(state, envelope)` and a target's `resolve(state, envelope)` see the state with the round already
counted in, and the round. `name` is the key under which a class is written down and found again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from tenex.core.errors import ConfigurationError, kind_of
from tenex.workflows.speakers.rounds import Envelope, TransitionDecision, WorkflowState

_NOT_GIVEN: Final[Any] = object()


class TransitionCondition(Protocol):
    """When a rule fires. Pure."""

    name: ClassVar[str]

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether it fires after this round."""


class TransitionTarget(Protocol):
    """Where the next turn goes. Pure."""

    name: ClassVar[str]

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """Who speaks next, or why it ends."""


# ---- conditions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Always:
    """Fires after every round."""

    name: ClassVar[str] = "always"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """True."""
        return True


@dataclass(frozen=True, slots=True)
class FromSpeaker:
    """Fires when this participant has just spoken."""

    agent_id: str
    name: ClassVar[str] = "from_speaker"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the round is theirs."""
        return envelope.sender_id == self.agent_id


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Fires when the round's routing tool is this one: of the tools it called, the first that any rule names."""

    tool_name: str
    name: ClassVar[str] = "tool_called"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the tool is the one that counts."""
        return envelope.tool == self.tool_name


@dataclass(frozen=True, slots=True)
class ContextEquals:
    """Fires while a variable has this value; a variable that is not set is None. Equal as in Python: 1 is True.

    Raises ConfigurationError without a value.
    """

    key: str
    value: Any = _NOT_GIVEN
    name: ClassVar[str] = "context_equals"

    def __post_init__(self) -> None:
        if self.value is _NOT_GIVEN:
            raise ConfigurationError(
                [f"ContextEquals of {self.key!r} has no value; give one: None (null) is a variable that is not set."]
            )

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the variable equals the value."""
        return bool(state.context_vars.get(self.key) == self.value)


@dataclass(frozen=True, slots=True)
class ContextIn:
    """Fires while a variable is one of these values; not set, it is None.

    Raises ConfigurationError for what is no list.
    """

    key: str
    values: Sequence[Any]
    name: ClassVar[str] = "context_in"

    def __post_init__(self) -> None:
        given: object = self.values
        if isinstance(given, str):
            raise ConfigurationError([f"ContextIn needs a list of values, not the text {given[:80]!r}."])
        if not isinstance(given, list | tuple | set | frozenset):
            raise ConfigurationError([f"ContextIn needs a list of values, not {kind_of(given)}."])
        object.__setattr__(self, "values", tuple(self.values))

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the variable is among the values."""
        return state.context_vars.get(self.key) in self.values


@dataclass(frozen=True, slots=True)
class ContextThreshold:
    """Fires while a variable is a number of at least `threshold`; not set, it counts as 0 (so does AG2's recipe)."""

    key: str
    threshold: float
    name: ClassVar[str] = "context_threshold"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the number has come that far."""
        value = state.context_vars.get(self.key, 0)
        return isinstance(value, int | float) and value >= self.threshold


@dataclass(frozen=True, slots=True)
class AllOf:
    """Fires when all of these do. Raises ConfigurationError without any: it would always fire."""

    conditions: Sequence[TransitionCondition]
    name: ClassVar[str] = "all_of"

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _some(self.conditions, "AllOf"))

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether each one fires."""
        return all(condition.evaluate(state, envelope) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Fires when one of these does. Raises ConfigurationError without any: it would never fire."""

    conditions: Sequence[TransitionCondition]
    name: ClassVar[str] = "any_of"

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _some(self.conditions, "AnyOf"))

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether one of them fires."""
        return any(condition.evaluate(state, envelope) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Not:
    """Fires when the other one does not."""

    condition: TransitionCondition
    name: ClassVar[str] = "not"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Whether the other does not fire."""
        return not self.condition.evaluate(state, envelope)


def _some(conditions: Sequence[TransitionCondition], name: str) -> tuple[TransitionCondition, ...]:
    given: object = conditions
    if given is not None and not isinstance(given, list | tuple):
        what = kind_of(given)
        raise ConfigurationError([f"{name} needs a list of conditions, not {what}: write {name}([...])."])
    if not conditions:
        raise ConfigurationError([f"{name} needs at least one condition."])
    return tuple(conditions)


class UnreadablePartError(ConfigurationError):
    """A condition or a target of an operator cannot be made of its arguments any more."""


@dataclass(frozen=True, slots=True)
class OwnPart:
    """A condition or a target of an operator's class, as data: `make` makes it when it is evaluated, not before."""

    name: str
    args: Mapping[str, Any]
    cls: type = field(compare=False)
    make: Callable[[], Any] = field(compare=False)

    @property
    def key(self) -> Any:
        """The variable it looks at, where it names one as the built-in conditions do."""
        return self.args.get("key")

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        """Evaluate the operator's condition."""
        fires: bool = self.make().evaluate(state, envelope)
        return fires

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """Resolve the operator's target."""
        decision: TransitionDecision = self.make().resolve(state, envelope)
        return decision


# ---- targets --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """A participant by name."""

    agent_id: str
    name: ClassVar[str] = "agent"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """That participant."""
        return TransitionDecision(self.agent_id)


@dataclass(frozen=True, slots=True)
class RoundRobinTarget:
    """The participant after the last speaker, in order; the first where no one has spoken."""

    name: ClassVar[str] = "round_robin"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """The next in line."""
        order = state.participant_order
        if not order:
            return TransitionDecision(None, "no_participants")
        last = state.last_speaker_id or envelope.sender_id
        return TransitionDecision(order[(order.index(last) + 1) % len(order)] if last in order else order[0])


@dataclass(frozen=True, slots=True)
class StayTarget:
    """The same speaker again."""

    name: ClassVar[str] = "stay"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """The last speaker."""
        return TransitionDecision(state.last_speaker_id or envelope.sender_id)


@dataclass(frozen=True, slots=True)
class RevertToInitiatorTarget:
    """The participant who opened the workflow."""

    name: ClassVar[str] = "revert_to_initiator"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """The creator."""
        return TransitionDecision(state.creator_id)


@dataclass(frozen=True, slots=True)
class TerminateTarget:
    """The end, with a reason."""

    reason: str = "after_work"
    name: ClassVar[str] = "terminate"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        """The end."""
        return TransitionDecision(None, self.reason)


CONDITIONS: tuple[type[TransitionCondition], ...] = (
    Always,
    FromSpeaker,
    ToolCalled,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    AllOf,
    AnyOf,
    Not,
)
"""All that are built in."""

TARGETS: tuple[type[TransitionTarget], ...] = (
    AgentTarget,
    RoundRobinTarget,
    StayTarget,
    RevertToInitiatorTarget,
    TerminateTarget,
)
"""All that are built in."""
