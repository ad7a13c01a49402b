"""A message of a person is answered, wherever the conversation was when it came."""

import pytest

from tenex.core import records as r
from tests.fakes.scenario import VERIFIES, WAITS, Router, Scenario, model_by_phase, reply, route
from tests.kits.rollbacks import back
from tests.kits.team import WORK, team

PASSES = reply("", ("complete", {"response": "it works", "verdict": "verified"}))
READS = reply("looks fine")
AGENTS = {"chat": "project-manager", "execute": "executor", "verification": "executor", "chores": "executor"}


def worked(phase: str, verifies: object) -> Scenario:
    """A cycle in which something was built; the router answers `phase` to the next message."""
    router = Router(route("execute", "executor"), route(phase, AGENTS.get(phase, "executor")), WAITS, WAITS)
    return Scenario(router, model_by_phase(**WORK | {"verification": [verifies]}), config=team()).converse("do it")


LAST = worked("chat", VERIFIES).conversation.next_seq


@pytest.mark.parametrize("verifies", [VERIFIES, PASSES, READS], ids=["tries", "passes", "reads"])
@pytest.mark.parametrize("phase", [*AGENTS, "reflection"])
def test_after_going_back_to_any_record_the_next_message_is_answered(phase: str, verifies: object) -> None:
    for to in range(2, LAST - 1):
        scenario = worked(phase, verifies)
        back(scenario, to)
        begun = scenario.conversation.next_seq
        scenario.converse("Go on")
        sent = [one for one in scenario.records(r.MessageSent) if one.seq > begun and one.events]
        assert sent, f"nothing was said after going back to record {to}"
        texts = [one.text for one in sent]
        assert len(texts) == len(set(texts)), texts
