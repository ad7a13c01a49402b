"""Registries keep classes by name, apart from each other."""

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
    TerminateTarget,
    Transition,
    TransitionCondition,
    TransitionDecision,
    TransitionGraph,
    TransitionRegistry,
    TransitionTarget,
    WorkflowState,
    register_condition,
    register_target,
)


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


@pytest.fixture
def registry() -> TransitionRegistry:
    made = TransitionRegistry()
    made.register_condition(Twice)
    made.register_target(Otherwise)
    return made


def test_a_registry_of_ones_own_knows_what_others_do_not(registry: TransitionRegistry) -> None:
    data = GRAPH.to_dict(registry)
    assert TransitionGraph.loads(data, registry=registry) == GRAPH
    assert TransitionGraph.loads(GRAPH.dumps(registry), registry=registry) == GRAPH
    assert TransitionGraph.from_toml(GRAPH.to_toml(registry), registry=registry) == GRAPH
    for call in (lambda: TransitionGraph.loads(data), lambda: GRAPH.to_dict(), lambda: GRAPH.begin(["a", "b"])):
        with pytest.raises(ConfigurationError, match="twice"):
            call()
    assert GRAPH.begin(["a", "b"], registry=registry)[1].expected_next_speaker == "a"


@pytest.mark.usefixtures("fresh_default")
def test_the_registry_of_the_process_is_the_default() -> None:
    assert register_condition(Twice) is Twice
    assert register_target(Otherwise) is Otherwise
    assert TransitionGraph.loads(GRAPH.dumps()) == GRAPH
    assert TransitionRegistry.default() is TransitionRegistry.default()


def test_registering_a_name_again_replaces_it(registry: TransitionRegistry) -> None:
    @registry.register_condition
    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "twice"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            return False

    assert type(registry.condition_from_dict({"name": "twice"})) is Other
    (fault,) = GRAPH.validate(registry=registry).faults
    assert fault.startswith("transitions[0].when: the condition Twice is not registered as 'twice'")


@pytest.mark.parametrize("given", [object, 5, type("Nameless", (), {"evaluate": lambda *_: True}), FromSpeaker("a")])
def test_what_is_no_condition_is_not_registered(registry: TransitionRegistry, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no condition: it must be a class with"):
        registry.register_condition(given)
    with pytest.raises(ConfigurationError, match="is no target"):
        registry.register_target(Always)  # type: ignore[type-var]


def test_reading_one_part_names_its_faults(registry: TransitionRegistry) -> None:
    assert registry.condition_from_dict({"name": "from_speaker", "args": {"agent_id": "a"}}) == FromSpeaker("a")
    assert registry.target_from_dict({"name": "terminate"}) == TerminateTarget()
    with pytest.raises(ConfigurationError, match="the target: otherwise cannot be made of these args: too many"):
        registry.target_from_dict({"name": "otherwise", "args": {"targets": [{"name": "stay"}] * 3}})
    with pytest.raises(ConfigurationError, match=r"the condition.args.inner: there is no condition 'stay'"):
        registry.condition_from_dict({"name": "twice", "args": {"inner": {"name": "stay"}}})
    with pytest.raises(ConfigurationError, match=r"the condition.times is True; it must be int"):
        registry.condition_from_dict({"name": "twice", "args": {"inner": {"name": "always"}, "times": True}})
