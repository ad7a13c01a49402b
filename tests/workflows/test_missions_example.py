"""The shipped mission of five phases: it runs whole, and every edge to the end is driven."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .mission_kit import competition, example, play


def lead(folder: Path, change: Callable[[Any], None] = lambda deps: None, **state: Any) -> Any:
    """Run the mission on a folder, with other dependencies where a test changes them."""
    mission = example()
    deps = mission.offline(folder)
    change(deps)
    begins = mission.MissionState(mission_id="m", **{"topic": "curve", **state})
    return play(mission.graph, state=begins, deps=deps)


def test_it_goes_through_all_five_phases_and_hands_in(tmp_path: Path) -> None:
    result = lead(competition(tmp_path / "p"))
    assert result.output.success
    assert result.state.phases_completed == ["discovery", "research", "prototype", "evolution", "submission"]
    assert result.state.final_rank == 2
    assert result.state.final_score < result.state.prototype_score
    assert len(list((tmp_path / "p" / "submissions").iterdir())) == 1


class Silent:
    """Agents without an answer."""

    def __init__(self, code: str = "") -> None:
        self.code = code

    async def study(self, _: Any) -> None:
        """Nothing."""

    async def write(self, *_: Any) -> str:
        """What it always writes."""
        return self.code

    async def vary(self, *_: Any) -> str:
        """The same."""
        return self.code


def _no_study(deps: Any) -> None:
    deps.scientist_agent = Silent()


def _no_code(deps: Any) -> None:
    deps.evolver_agent = Silent("import os")


def _no_better(deps: Any) -> None:
    deps.evolver_agent = Silent("1.0 * x")


@pytest.mark.parametrize(
    ("change", "state", "phase", "reason"),
    [
        (lambda deps: None, {"topic": "chess"}, "discovery", "no competition is about 'chess'"),
        (lambda deps: None, {"competition_id": "ghost"}, "discovery", "no competition"),
        (_no_study, {}, "research", "nothing could be learned"),
        (_no_code, {}, "prototype", "does not run"),
        (_no_better, {}, "evolution", "nothing better"),
    ],
)
def test_every_phase_may_end_it_with_a_reason(
    tmp_path: Path, change: Callable[[Any], None], state: dict[str, Any], phase: str, reason: str
) -> None:
    result = lead(competition(tmp_path / "p"), change, **state)
    assert not result.output.success
    assert reason in result.output.reason
    assert result.state.current_phase == phase
    assert not (tmp_path / "p" / "submissions").exists()


def test_the_state_diagram_is_the_one_of_its_users() -> None:
    drawn = set(re.findall(r"(\S+) --> (\S+)", example().graph.mermaid()))
    names = ["Discovery", "Research", "Prototype", "Evolution", "Submission"]
    wanted = {("[*]", "DiscoveryNode")} | {(f"{name}Node", "[*]") for name in names}
    wanted |= {(f"{a}Node", f"{b}Node") for a, b in itertools.pairwise(names)}
    assert drawn == wanted
