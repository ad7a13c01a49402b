"""Log lines of agents' own phases."""

from typing import Any

from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.core.ids import Millis, RunId, Slug
from tenex.runtime.actor import _log_notable
from tests.fakes.scenario import ID

RUN: dict[str, Any] = {
    "seq": 1,
    "at": Millis(1),
    "run": RunId("turn-1.executor"),
    "agent": Slug("executor"),
    "source": "a",
    "target": "b",
}


def test_a_move_and_a_condition_that_raised_are_lines_without_what_anybody_wrote() -> None:
    failed = r.ConditionFailed(**RUN, error="ValueError: invalid literal for int(): 'my secret'")
    with capture_logs() as lines:
        _log_notable(ID, [r.AgentPhaseChanged(**RUN), failed])
    assert [(line["event"], line["log_level"], line["source"], line["target"]) for line in lines] == [
        ("agent.moved", "info", "a", "b"),
        ("condition.failed", "warning", "a", "b"),
    ]
    assert lines[1]["error"] == "ValueError"
    assert "secret" not in str(lines)
