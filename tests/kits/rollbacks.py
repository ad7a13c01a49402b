"""A rollback in a scenario."""

from typing import Any

from tenex.core import records as r
from tenex.core.rollback.decide import state_at
from tenex.core.signals import RollBack
from tests.fakes.scenario import ID, Scenario


def back(scenario: Scenario, to: int, **more: Any) -> list[r.Record]:
    """The operator goes back."""
    then = state_at(ID, scenario.records(), to)
    return scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator", **more))
