"""What a page lists as waiting for a user: calls that need a permission beside questions of agents."""

from tenex.web.asks import asks_of
from tests.core.test_call_approvals import asked


def test_a_call_that_waits_for_a_permission_is_listed_with_the_message_that_asks() -> None:
    scenario = asked()
    (ask,) = asks_of(scenario.conversation, scenario.records())
    assert (ask.kind, ask.who) == ("approval", "Executor")
    assert "git push origin main" in ask.text
    assert ask.replied is not None
    scenario.user_writes("yes")
    assert not [left for left in asks_of(scenario.conversation, scenario.records()) if left.kind == "approval"]
