"""The workflows of a configuration go by the classes that were registered when it was read."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tenex.app.workflows import compiler
from tenex.core.rules import Heard
from tenex.workflow import (
    AgentTarget,
    Envelope,
    TerminateTarget,
    Transition,
    TransitionGraph,
    TransitionRegistry,
    WorkflowState,
)


def condition(*, fires: bool) -> type:
    """A condition of an operator's own as one edition of their file has it."""

    @dataclass(frozen=True, slots=True)
    class Ready:
        name: ClassVar[str] = "ready"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            return fires

    return Ready


def test_a_reload_brings_the_new_code_of_a_condition_and_leaves_the_old_configuration_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = TransitionRegistry()
    monkeypatch.setattr(TransitionRegistry, "_default", registry)
    heard = Heard(WorkflowState(("a", "b"), "a"), Envelope("a"))
    old_class = registry.register_condition(condition(fires=False))
    graph = TransitionGraph("a", [Transition(old_class(), AgentTarget("b"))], TerminateTarget("no"))
    data = graph.to_dict()
    old = compiler()
    first = old(data, ("a", "b")).first_match("a", heard)
    assert first is not None
    assert first.is_end
    assert old(data, ("a", "b")) is old(data, ("a", "b")), "it is not read again for every round"
    registry.register_condition(condition(fires=True))
    new = compiler()
    for one, node in ((new, "b"), (old, "END")):
        choice = one(data, ("a", "b")).first_match("a", heard)
        assert choice is not None
        assert choice.node == node
        other = one({**data, "max_turns": 5}, ("a", "b")).first_match("a", heard)
        assert other is not None
        assert other.node == node, "also a graph that it reads only now"
