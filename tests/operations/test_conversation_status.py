"""Where a conversation stands, as an operator is told it."""

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.ids import Millis
from tenex.operations.conversation_status import conversation_status
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.linked import cast, linked, to
from tests.fakes.play import ID, Play, rules, says
from tests.fakes.workflows import begun, session


def test_who_waits_for_a_colleague_and_who_was_called_by_whom() -> None:
    """Both until the colleague asks the person: then the whole conversation waits for them."""
    worker = cast(executor=[says("", *to("helper"))], helper=[says("", ("ask", {"question": "Which?"}))])
    play = Play(lambda _: {"agents": ["executor"], "reason": "x"}, worker, config=linked(rules(), executor=["helper"]))
    play.person("hello")
    while len(play.conversation.runs) < 2:
        play.step()
    status = conversation_status(play.conversation, play.now)
    caller, called = status["runs"]
    assert (status["kind"], caller["state"], caller["sub_agents"]) == ("active", "calling", ["helper"])
    assert (called["agent"], called["calledBy"], called["state"]) == ("helper", "executor", "model")
    assert play.conversation.turn is not None
    later = conversation_status(play.conversation, Millis(play.conversation.turn.timestamp + 65_000))
    assert (later["turn"]["seconds"], later["runs"][1]["seconds"]) == (65, 65)
    play.settle()
    status = conversation_status(play.conversation, play.now)
    assert [run["state"] for run in status["runs"]] == ["calling", "parked"]
    assert status["kind"] == "parked"


def test_a_workflow_is_told_with_whoever_is_to_speak_until_it_ends() -> None:
    graph = TransitionGraph.sequence(["writer", "editor"])
    play = begun(graph)
    assert conversation_status(play.conversation, play.now)["workflow"] == {"name": "Review", "speaker": "writer"}
    while session(play).expected == "writer":
        play.step()
    assert conversation_status(play.conversation, play.now)["workflow"]["speaker"] == "editor"
    play.settle()
    ended = {"name": "Review", "closeReason": session(play).close_reason}
    assert conversation_status(play.conversation, play.now)["workflow"] == ended
    closed = play.all(r.RoundClosed)[-1]
    last = fold(ID, [one for decision in play.journal for one in decision if one.seq <= closed.seq])
    assert "workflow" not in conversation_status(last, play.now), "nobody is to speak, and its end is the next record"
