"""What a page lists as waiting for a user: calls that need a permission beside questions of agents."""

from dataclasses import replace

import pytest

from tenex.operations.asks import asks_of
from tests.kits.call_approvals import asked


def test_a_call_that_waits_for_a_permission_is_listed_with_the_message_that_asks() -> None:
    scenario = asked()
    (ask,) = asks_of(scenario.conversation, scenario.records())
    assert (ask.kind, ask.who) == ("approval", "Executor")
    assert "git push origin main" in ask.text
    assert ask.replied is not None
    scenario.user_writes("yes")
    assert not [left for left in asks_of(scenario.conversation, scenario.records()) if left.kind == "approval"]


@pytest.mark.altered  # the address is put into the state
def test_in_direct_messages_a_page_shows_what_is_asked_and_answers_nothing() -> None:
    scenario = asked()
    state = scenario.conversation
    state.identity = replace(state.identity, address={**state.identity.address, "room": "a" * 64})
    (ask,) = asks_of(state, scenario.records())
    assert "git push origin main" in ask.text
    assert ask.replied is None
