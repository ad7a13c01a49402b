"""Every scenario of these tests is held against the invariants when its test is over."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.scenario import Scenario, check_invariants


@pytest.fixture(autouse=True)
def check_every_scenario(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    scenarios: list[Scenario] = []
    begin = Scenario.__init__

    def registered(self: Scenario, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        scenarios.append(self)

    monkeypatch.setattr(Scenario, "__init__", registered)
    yield
    for scenario in scenarios:
        check_invariants(scenario)
