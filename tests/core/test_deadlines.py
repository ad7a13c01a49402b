"""What a workflow expects by when: each expectation has a timer that fires, once, also after a restart."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.decide.turns import STOPPED
from tenex.core.effects import Key, ModelCall, Timer
from tenex.core.ids import Millis
from tenex.core.signals import ClockJumped, ModelFailed, RollBack
from tenex.core.state.rollback import RolledBack
from tenex.core.workflow_config import Within
from tenex.workflows.speakers import AgentTarget, FromSpeaker, Transition, TransitionGraph
from tests.fakes.scenario import Scenario, remove_agent
from tests.fakes.workflows import TRIO, calls, session, started, workflow_scenario

LINE = TransitionGraph.sequence(TRIO)
TALK = TransitionGraph.round_robin(["person", "writer"], max_turns=20)


def timers(one: Scenario) -> dict[str, Timer]:
    """The timers of its expectations, by name."""
    return {e.key.part: e for e in one.running.values() if isinstance(e, Timer) and "." in e.key.part}


def missed(one: Scenario) -> list[tuple[str, str]]:
    """What was missed, in order."""
    return [(record.expectation, record.action) for record in one.records(r.ExpectationMissed)]


def reason(one: Scenario) -> str:
    """Why it ended; it did, once."""
    (closed,) = one.records(r.WorkflowClosed)
    assert one.conversation.status == "ended"
    assert not timers(one)
    assert session(one).speakers.pending_close_reason == closed.reason
    assert one.refold() == one.conversation
    return str(closed.reason)


def test_1_3_c_a_round_is_expected_within_120_s_and_600_s_by_default_and_both_fire() -> None:
    one = started(LINE)
    turn = one.records(r.TurnOpened)[0]
    assert timers(one)["turn_within.warn"].due == turn.at + 120_000
    assert timers(one)["turn_within.close"].due == turn.at + 600_000
    one.fire("turn_within.warn")
    assert "writer has not answered within 2 min. It ends in 8 min." in one.sent_texts()[-1]
    assert "turn_within.warn" not in timers(one)
    one.fire("turn_within.close")
    assert missed(one) == [("turn_within", "warn"), ("turn_within", "close")]
    assert reason(one) == "turn_within"
    assert one.records(r.RunEnded)[0].outcome == "timed_out"
    assert any("I could not finish: writer has not answered within 10 min." in text for text in one.sent_texts())
    assert not one.running or all(not isinstance(effect, ModelCall) for effect in one.running.values())


def test_1_3_f_a_round_that_fails_reports_it_and_the_rules_go_on() -> None:
    lines: Any = {"writer": [ModelFailed(key=Key("model", 0), message="no", retryable=False)] * 3}  # type: ignore[arg-type]
    one = started(LINE, lines).settle()
    assert "I could not finish: no" in one.sent_texts()
    assert [record.outcome for record in one.records(r.RoundClosed)] == ["failed", "finished", "finished"]
    assert reason(one) == "sequence_complete"


def test_1_3_g_a_round_of_the_user_is_the_reply_that_was_expected() -> None:
    one = started(TALK, None, "person", "writer", expectations={"reply_within": Within(warn=1_000, close=5_000)})
    assert "reply_within.warn" not in timers(one)
    one.settle()
    one.fire("reply_within.warn")
    assert one.sent_texts()[-1].startswith("A person's answer is awaited for ")
    one.converse("here I am")
    assert set(timers(one)) == {"reply_within.warn", "reply_within.close", "ttl.close"}, "counted again for the next"
    one.fire("reply_within.close")
    assert reason(one) == "reply_within"


def test_ttl_ends_it_also_while_somebody_speaks_and_a_call_under_way_has_a_result() -> None:
    one = started(LINE, {"writer": [calls(("check", {}))]})
    one.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    assert one.records(r.ToolCallStarted)
    one.fire("ttl.close")
    assert [(record.ok, record.content) for record in one.records(r.ToolCallCompleted)] == [(False, STOPPED)]
    assert reason(one) == "ttl"
    assert one.sent_texts()[-1].startswith("The time of the workflow is up: ")
    assert one.records(r.RunEnded)[0].outcome == "stopped"
    assert one.records(r.RoundClosed) == []


def test_a_question_or_a_user_in_anothers_round_breaks_the_silence() -> None:
    lines = {"writer": [calls(("ask", {"question": "Which?"})), "thanks"]}
    one = started(LINE, lines, expectations={"max_silence": Within(close=9_000)})
    one.now = Millis(one.now + 5_000)
    one.user_writes("I look on")
    assert timers(one)["max_silence.close"].due == one.now + 9_000
    one.settle()
    assert timers(one)["max_silence.close"].due == one.records(r.QuestionAsked)[0].at + 9_000
    one.fire("max_silence.close")
    assert reason(one) == "max_silence"
    assert one.sent_texts()[-1].startswith("No one has written for 0.15 min.")


@pytest.mark.parametrize("comes", [True, False])
def test_an_invited_speaker_that_is_missing_is_waited_for_until_the_time_is_up(comes: bool) -> None:
    graph = TransitionGraph("writer", [Transition(FromSpeaker("writer"), AgentTarget("editor"))])
    one = workflow_scenario(graph, None, "writer", "editor", expectations={"acks_within": Within(close=60_000)})
    full = one.rules
    remove_agent(one, "editor")
    one.user_writes("go", addressed=("review",))
    assert session(one).missing == ("editor",)
    assert one.records(r.TurnOpened) == []
    if comes:
        one.rules = full
        one.converse("/continue")
        assert "acks_within.close" not in timers(one)
        assert len(one.records(r.RoundClosed)) == 2
    else:
        one.fire("acks_within.close")
        assert reason(one) == "acks_within"
        assert one.sent_texts()[-1].startswith("Not everybody was there within 1 min.")


@pytest.mark.parametrize("name", ["reply_within", "acks_within"])
def test_what_was_expected_of_somebody_is_again_once_it_goes_back_counted_from_then(name: str) -> None:
    one = workflow_scenario(TALK, None, "person", "writer", expectations={name: Within(warn=1_000, close=5_000)})
    if name == "acks_within":
        remove_agent(one, "writer")
    one.converse("go", addressed=("review",))
    then = one.refold()
    to = then.next_seq - 1
    assert f"{name}.close" in timers(one)
    one.now = Millis(one.now + 4_000)
    one.fire(f"{name}.warn")
    one.handle(RollBack(to=to, then=then, by="olga"))
    (back,) = one.records(RolledBack)
    assert {"ttl.close", f"{name}.warn", f"{name}.close"} == set(timers(one))
    assert timers(one)[f"{name}.close"].due == back.at + 5_000
    one.fire(f"{name}.close")
    assert reason(one) == name


def test_a_clock_that_is_set_moves_every_watch() -> None:
    one = started(LINE)
    before = {name: watch.due for name, watch in session(one).watches.items()}
    one.handle(ClockJumped(by=3_600_000))
    assert {name: watch.due - 3_600_000 for name, watch in session(one).watches.items()} == before


def test_1_3_g_while_one_of_two_questions_is_open_the_time_is_still_the_users() -> None:
    lines = {"writer": [calls(("ask", {"question": "Which?"}), ("ask", {"question": "When?"})), "thanks"]}
    one = started(LINE, lines, expectations={"reply_within": Within(close=9_000)}).settle()
    first, second = (sent.events[0].id for sent in one.records(r.MessageSent) if sent.purpose == "question")
    due = timers(one)["reply_within.close"].due
    one.user_writes("the first", reply_to=first)
    assert set(timers(one)) == {"reply_within.close", "ttl.close"}
    assert timers(one)["reply_within.close"].due > due, "who answers is given as long for the next"
    one.user_writes("now", reply_to=second)
    assert set(timers(one)) == {"turn_within.warn", "turn_within.close", "ttl.close"}
    one.settle()
    assert reason(one) == "sequence_complete"
