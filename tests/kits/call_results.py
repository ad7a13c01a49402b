"""The results that calls gave back."""

from tenex.core import records as r
from tests.fakes.scenario import Scenario


def results(scenario: Scenario) -> list[tuple[str, bool, str]]:
    """What the calls gave back, refusals included, in order."""
    back = (record for record in scenario.records() if isinstance(record, (r.ToolCallCompleted, r.ToolCallRejected)))
    return [
        (one.call, False, one.sentence) if isinstance(one, r.ToolCallRejected) else (one.call, one.ok, one.content)
        for one in back
    ]
