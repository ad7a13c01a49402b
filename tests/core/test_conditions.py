"""Conditions read facts and nothing else; a missing fact never opens an edge by accident, and never raises."""

from typing import Any

import pytest

from tenex.core.conditions import (
    BackToFirst,
    ContextEquals,
    FromSpeaker,
    Predicate,
    RoundRobin,
    Stay,
    Terminate,
    ToolCalled,
)
from tenex.core.graph import END, Choice, Condition


@pytest.mark.parametrize(
    ("condition", "facts", "holds"),
    [
        (FromSpeaker("a"), {"speaker": "a"}, True),
        (FromSpeaker("a"), {"speaker": "b"}, False),
        (FromSpeaker("a"), {}, False),
        (ToolCalled("t"), {"tools": ("s", "t")}, True),
        (ToolCalled("t"), {"tools": ()}, False),
        (ToolCalled("t"), {"tools": None}, False),
        (ToolCalled("t"), {}, False),
        (ContextEquals("k", 1), {"context": {"k": 1}}, True),
        (ContextEquals("k", 1), {"context": {"k": 2}}, False),
        (ContextEquals("k", 1), {}, False),
        (ContextEquals("k", None), {"context": {}}, True),
        (Predicate(lambda agent: agent == 7), {"agent": 7}, True),
        (Predicate(lambda agent: agent is None), {}, True),
    ],
)
def test_conditions(condition: Condition, facts: dict[str, Any], holds: bool) -> None:
    assert condition.holds(facts) is holds


def test_round_robin_goes_round_and_begins_with_the_first() -> None:
    order = ("a", "b", "c")
    assert [RoundRobin().resolve(s, {"speaker": s, "order": order}).node for s in order] == ["b", "c", "a"]
    assert RoundRobin().resolve("x", {"speaker": "somebody else", "order": order}) == Choice("a")
    assert RoundRobin().resolve("b", {"order": order}) == Choice("c"), "without a speaker the node speaks"
    assert RoundRobin().resolve("a", {}).is_end


def test_the_other_moving_targets() -> None:
    assert Stay().resolve("a", {}) == Choice("a")
    assert BackToFirst().resolve("b", {"first": "a"}) == Choice("a")
    assert BackToFirst().resolve("b", {}).is_end
    assert Terminate("enough").resolve("a", {}) == Choice(END, "enough")
