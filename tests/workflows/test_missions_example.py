"""The shipped mission of five phases: it runs whole, and every edge to the end is driven."""

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from .mission_kit import competition, example, play
from .pages import agent_k


def lead(folder: Path, deps: dict[str, Any] | None = None, **state: Any) -> Any:
    """Run the mission on a folder, with other dependencies where a test has them."""
    mission = example()
    given = dataclasses.replace(mission.offline(folder), **(deps or {}))
    begins = mission.MissionState(mission_id="m", **{"topic": "curve", **state})
    return play(mission.graph, state=begins, deps=given)


def test_it_goes_through_all_five_phases_and_hands_in(tmp_path: Path) -> None:
    result = lead(competition(tmp_path / "p"))
    assert result.output.success
    assert result.state.phases_completed == ["discovery", "research", "prototype", "evolution", "submission"]
    assert result.state.final_rank == 2
    assert result.state.final_score < result.state.prototype_score
    assert len(list((tmp_path / "p" / "submissions").iterdir())) == 1


class Silent:
    def __init__(self, code: str = "") -> None:
        self.code = code

    async def study(self, _: Any) -> None:
        """Nothing."""

    async def write(self, *_: Any) -> str:
        return self.code

    vary = write


@pytest.mark.parametrize(
    ("deps", "state", "phase", "reason"),
    [
        ({}, {"topic": "chess"}, "discovery", "no competition is about 'chess'"),
        ({}, {"competition_id": "ghost"}, "discovery", "no competition"),
        ({"scientist_agent": Silent()}, {}, "research", "nothing could be learned"),
        ({"evolver_agent": Silent("import os")}, {}, "prototype", "does not run"),
        ({"evolver_agent": Silent("1.0 * x")}, {}, "evolution", "nothing better"),
    ],
)
def test_every_phase_may_end_it_with_a_reason(
    tmp_path: Path, deps: dict[str, Any], state: dict[str, Any], phase: str, reason: str
) -> None:
    result = lead(competition(tmp_path / "p"), deps, **state)
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


@pytest.mark.parametrize(
    ("found", "completed"),
    [(["titanic"], ["discovery", "research", "prototype", "evolution", "submission"]), ([], ["discovery"])],
)
def test_the_mission_of_agent_k_s_page_goes_through_its_phases(found: list[str], completed: list[str]) -> None:
    class Lobbyist:
        async def run(self, prompt: str, *, deps: Any) -> list[str]:
            return found

    state = agent_k.MissionState(mission_id="m")
    result = play(agent_k.graph, state=state, deps=agent_k.GraphContext(lobbyist_agent=Lobbyist()))
    assert (result.outcome, result.output.success) == ("finished", bool(found))
    assert result.state.phases_completed == completed
