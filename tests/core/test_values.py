"""`replace` of the state's values does what that of `dataclasses` does."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.cycle.state import Cycle
from tenex.core.router.answer import USER, RoutingDecision
from tenex.core.values import replace

CHANGES = st.fixed_dictionaries(
    {}, optional={"number": st.integers(), "waiting_for": st.text(), "status": st.sampled_from(["active", "waiting"])}
)


@given(CHANGES, CHANGES)
def test_it_gives_an_equal_value_and_leaves_the_one_before(before: dict[str, Any], changes: dict[str, Any]) -> None:
    cycle = Cycle(**before)
    assert replace(cycle, **changes) == dataclasses.replace(cycle, **changes)
    assert cycle == Cycle(**before)


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="Cycle has no field phse"):
        replace(Cycle(), phse=1)  # type: ignore[call-arg]


def test_a_class_that_looks_at_its_values_is_refused() -> None:
    with pytest.raises(TypeError, match="RoutingDecision has a __post_init__"):
        replace(RoutingDecision(agents=(USER,), reason="it is done"), reason="another")
