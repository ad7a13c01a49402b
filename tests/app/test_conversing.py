"""Where a conversation stands, as an operator is told it."""

from tenex.app.conversing import conversation_status
from tests.fakes.linked import cast, linked, to
from tests.fakes.play import Play, rules, says


def test_who_waits_for_a_colleague_and_who_was_called_by_whom() -> None:
    """Both until the colleague asks the person: then the whole conversation waits for them."""
    worker = cast(executor=[says("", *to("helper"))], helper=[says("", ("ask", {"question": "Which?"}))])
    play = Play(lambda _: {"agents": ["executor"], "reason": "x"}, worker, config=linked(rules(), executor=["helper"]))
    play.person("hello")
    while len(play.conversation.runs) < 2:
        play.step()
    status = conversation_status(play.conversation, play.now)
    caller, called = status["runs"]
    assert (status["kind"], caller["state"], caller["colleagues"]) == ("active", "calling", ["helper"])
    assert (called["agent"], called["calledBy"], called["state"]) == ("helper", "executor", "model")
    play.settle()
    status = conversation_status(play.conversation, play.now)
    assert [run["state"] for run in status["runs"]] == ["calling", "parked"]
    assert status["kind"] == "parked"
