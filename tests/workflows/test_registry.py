"""Conditions and targets of one's own are known by their names."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tenex.core.errors import ConfigurationError
from tenex.workflows.speakers import (
    AllOf,
    Always,
    Envelope,
    FromSpeaker,
    StayTarget,
    Transition,
    TransitionCondition,
    TransitionDecision,
    TransitionGraph,
    TransitionTarget,
    WorkflowState,
    register_condition,
    register_target,
)

pytestmark = pytest.mark.usefixtures("fresh_default")


@dataclass(frozen=True)
class Twice:
    """A condition that holds another one."""

    inner: TransitionCondition
    times: int = 2
    name: ClassVar[str] = "twice"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        return self.inner.evaluate(state, envelope)


@dataclass(frozen=True)
class Otherwise:
    """A target that holds others."""

    targets: tuple[TransitionTarget, ...]
    name: ClassVar[str] = "otherwise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        if len(self.targets) > 2:
            raise LookupError("too many")

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        return self.targets[0].resolve(state, envelope)


GRAPH = TransitionGraph("a", [Transition(Twice(AllOf([Always(), Twice(Always())])), Otherwise((StayTarget(),)))])


def test_a_graph_with_registered_parts_is_written_down_and_read_again() -> None:
    for call in (GRAPH.to_dict, lambda: GRAPH.begin(["a", "b"])):
        with pytest.raises(ConfigurationError, match="twice"):
            call()
    assert register_condition(Twice) is Twice
    assert register_target(Otherwise) is Otherwise
    assert TransitionGraph.loads(GRAPH.dumps()) == GRAPH
    assert GRAPH.begin(["a", "b"])[1].expected_next_speaker == "a"

    @register_condition
    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "twice"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            return False

    (fault,) = GRAPH.validate().faults
    assert fault.startswith("transitions[0].when: the condition Twice is not registered as 'twice'")


@pytest.mark.parametrize("given", [object, 5, type("Nameless", (), {"evaluate": lambda *_: True}), FromSpeaker("a")])
def test_what_is_no_condition_is_not_registered(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no condition: it must be a class with"):
        register_condition(given)
    with pytest.raises(ConfigurationError, match="is no target"):
        register_target(Always)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("when", "then", "fault"),
    [
        ({"name": "always"}, {"name": "otherwise", "args": {"targets": [{"name": "stay"}] * 3}}, "args: too many"),
        ({"name": "twice", "args": {"inner": {"name": "stay"}}}, {}, r"when.args.inner: there is no condition 'stay'"),
        ({"name": "twice", "args": {"inner": {"name": "always"}, "times": True}}, {}, "when.times is True; it must be"),
    ],
)
def test_a_part_of_ones_own_that_cannot_be_read_is_a_fault(when: Any, then: Any, fault: str) -> None:
    register_condition(Twice)
    register_target(Otherwise)
    rule = {"when": when, "then": then or {"name": "stay"}}
    with pytest.raises(ConfigurationError, match=fault):
        TransitionGraph.from_dict({"initial_speaker": "a", "transitions": [rule]})
