"""`tenex graph show` draws the table the program runs by."""

import json

import pytest

from tenex.cli.main import main
from tenex.core.phases import PHASE_TRANSITIONS


def test_the_diagram_holds_every_transition_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show"]) == 0
    first, start, *rest = capsys.readouterr().out.splitlines()
    assert (first, start.strip()) == ("stateDiagram-v2", "[*] --> chat")
    assert [tuple(line.split(" --> ")) for line in map(str.strip, rest)] == [
        (edge.source, edge.target) for edge in PHASE_TRANSITIONS.edges
    ]


def test_json_holds_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["initial"] == "chat"
    assert len(found["nodes"]) == 7
    assert {"from": "plan", "to": "execute"} in found["edges"]
    assert {"from": "plan", "to": "chat"} not in found["edges"]
    assert len(found["edges"]) == len(PHASE_TRANSITIONS.edges)
