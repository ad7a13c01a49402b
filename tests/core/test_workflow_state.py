"""Where a workflow is: what goes back with it, what its speakers are shown, and what is expected by when."""

import dataclasses
import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import fold
from tenex.core.effects import Key, ModelCall, Timer
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.messages import AgentText, Note, UserText
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import RolledBack, of_fork
from tenex.core.signals import ClockJumped, ModelFailed, RollBack
from tenex.core.work.turns import STOPPED
from tenex.workflows.speakers import (
    AgentTarget,
    AllOf,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    FromSpeaker,
    TerminateTarget,
    Transition,
    TransitionGraph,
)
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.config import PERSON, View, Within
from tenex.workflows.speakers.state import session_of
from tenex.workflows.speakers.view import session_view
from tests.fakes.scenario import ID, Scenario, remove_agent
from tests.fakes.workflows import NAME, TRIO, calls, session, started, workflow, workflow_policy, workflow_scenario
from tests.kits.speakers import closed, speakers

ROUND = TransitionGraph.round_robin(TRIO, max_turns=9)
TALK = TransitionGraph.round_robin(["person", "writer"], max_turns=20)
LINES = {"editor": [calls(("set_context", {"key": "n", "value": 1})), "edited"]}


def test_going_back_takes_rounds_and_variables_back_and_counts_time_again() -> None:
    one = started(ROUND, LINES).settle()
    first = one.records(w.RoundClosed)[0]
    then = state_at(ID, one.records(), first.seq)
    to = then.next_seq - 1
    one.now = Millis(one.now + 50_000_000)
    one.handle(RollBack(to=to, then=then, by="olga"))
    state = session(one)
    assert (state.expected, state.speakers.turn_count, state.speakers.context_vars) == ("editor", 1, {})
    assert not state.is_closed
    back = one.records(RolledBack)[0]
    assert {watch.seq for watch in state.watches.values()} == {back.seq}, "a key never means two things"
    assert state.watches["ttl.close"].due == back.at + 7_200_000
    one.converse("/continue")
    assert one.records(w.WorkflowClosed)[-1].reason == "max_turns"


def spoke(one: Scenario) -> list[str]:
    """Whose rounds the conversation knows."""
    done = (completion for turn in one.conversation.cycle.turns for completion in turn.completions)
    return [completion.agent for completion in done if completion.outcome == "finished"]


def test_from_whatever_record_it_goes_back_to_it_comes_to_its_end_and_counts_every_round_once() -> None:
    graph = TransitionGraph.sequence(TRIO)
    whole = started(graph, LINES).settle()
    for to in range(1, whole.conversation.next_seq - 1):
        one = started(graph, LINES).settle()
        then = state_at(ID, one.records(), to)
        one.handle(RollBack(to=then.next_seq - 1, then=then, by="olga"))
        if not one.records(RolledBack):
            continue
        assert session(one).speakers.turn_count == len(spoke(one)), to
        one.converse("go on")
        assert session(one).is_closed, to
        assert (session(one).speakers.turn_count, spoke(one)) == (3, list(TRIO)), to


def test_a_fork_goes_on_by_the_rules_of_what_it_was_forked_from() -> None:
    one = started(ROUND, LINES).settle()
    then = state_at(ID, one.records(), one.records(w.RoundClosed)[1].seq)
    state = of_fork(then, Millis(one.now), id=ConversationId("d" * 64), address={"form": "notes"}, title="Again")
    session = session_of(state)
    assert session is not None
    assert (session.expected, session.speakers.context_vars) == ("checker", {"n": 1})


def test_status_and_the_next_speaker_are_shown_its_state() -> None:
    one = started(ROUND, LINES, context={"tone": "dry"}).settle()
    view = json.loads(json.dumps(session_view(session(one))))
    assert (view["name"], view["closeReason"]) == ("review", "max_turns")
    assert (view["next"], view["turnCount"], view["context"]) == (None, 9, {"tone": "dry", "n": 1})
    assert json.loads(shown(one, 2)[1].partition("Its variables:")[2]) == {"tone": "dry", "n": 1}


def shown(one: Scenario, number: int) -> tuple[list[str], str]:
    """What the agent of a run was shown: the words of messages, and the note on the workflow."""
    begun = one.records(r.RunStarted)[number]
    entries = fold(ID, one.records()[: begun.seq]).work.runs[begun.run].entries
    notes = [entry.text for entry in entries if isinstance(entry, Note) and entry.title == "Workflow"]
    return [entry.text for entry in entries if isinstance(entry, (UserText, AgentText))], notes[0]


@pytest.mark.parametrize(("view", "most"), [("full", 8), ("windowed", 6), ("summary", 1)])
def test_a_view_states_how_much_of_what_was_sent_a_speaker_is_shown(view: str, most: int) -> None:
    one = started(ROUND, {name: [f"{name} {n}" for n in range(3)] for name in TRIO}, view=view).settle()
    words, note = shown(one, 8)
    everything = [f"{name} {n}" for n in range(3) for name in TRIO][:8]
    assert words == ["Make it good", *everything[-most:]]
    assert note.startswith("Review, round 9 of at most 9. You speak as checker.")


RULES = [
    Transition(AllOf([FromSpeaker("writer"), ContextEquals("approved", value=True)]), TerminateTarget("approved")),
    Transition(ContextThreshold("tries", 3), TerminateTarget("tired")),
    Transition(ContextIn("route", ["code", "law"]), TerminateTarget("routed")),
    Transition(ContextEquals("any", None), TerminateTarget("unset")),
]
GRAPH = TransitionGraph("writer", RULES, max_turns=3)
CONTEXT = {"any": "x", "notes": ["a"], "approved": False}


def reported(text: str, **more: Any) -> Scenario:
    """A workflow that a user has begun, and then given a command; its first speaker has not answered."""
    one = workflow_scenario(GRAPH, context=CONTEXT)
    one.user_writes("Make it good", addressed=(NAME,))
    one.user_writes(text, **more)
    return one


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("/set approved=true", {"approved": True}),
        ("/set tries=2.5", {"tries": 2.5}),
        ("/set route=law tries=1", {"route": "law", "tries": 1}),
        ("/set any=a longer text, with 1 = 2", {"any": "a longer text, with 1 = 2"}),
        ("/set any=7", {"any": "7"}),
        ('/set notes=["b", 2]', {"notes": ["b", 2]}),
        ("/SET approved = x", {}),
        ("/set route=null", {"route": None}),
        ("/set any=", {"any": ""}),
    ],
)
def test_a_command_sets_variables_by_the_kind_they_have(text: str, changed: dict[str, Any]) -> None:
    one = reported(text)
    assert session(one).speakers.context_vars == {**CONTEXT, **changed}
    assert all(record.by == PERSON for record in one.records(w.ContextSet))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "/set colour=red",
            "There is no variable colour in this workflow. There are: any, approved, notes, route, tries.",
        ),
        ("/set approved=yes", 'approved must be true or false, and "yes" is a text.'),
        ("/set tries=many", 'tries must be a number, and "many" is a text.'),
        ("/set tries=true", "tries must be a number, and true is true or false."),
        ("/set notes=b", 'notes must be a list, and "b" is a text.'),
        ("/set approved", "Write it as `/set name=value`."),
        ("/set please approved=true", "Write it as `/set name=value`."),
        ("/set tries=NaN", "tries is nan, which JSON has no word for."),
        (f"/set any={'x' * 65_000}", "All variables together may have 64000 characters as JSON."),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_sentence(text: str, expected: str) -> None:
    one = reported(text)
    assert one.sent_texts()[-1] == expected
    assert session(one).speakers.context_vars == CONTEXT


def test_the_command_alone_lists_them() -> None:
    assert reported("/set").sent_texts()[-1].splitlines() == [
        'any = "x" (a text)',
        "approved = false (true or false)",
        'notes = ["a"] (a list)',
        "route = null (a text)",
        "tries = null (a number)",
    ]


def test_somebody_else_is_notified_whose_turn_it_is_and_an_owner_replaces_who_began_it() -> None:
    one = started(TALK, None, "person", "writer").settle()
    one.user_writes("may I?", role=Role.MEMBER, author=PublicKey("b" * 64))
    assert "It is the turn of the user who started this" in one.sent_texts()[-1]
    assert one.conversation.cycle.status == "waiting"
    assert speakers(one) == ["person", "writer"]
    one.converse("yes, they may", role=Role.MEMBER)
    one.converse("may I?", role=Role.OWNER, author=PublicKey("c" * 64))
    assert speakers(one) == ["person", "writer"] * 3


def test_the_lines_of_a_message_set_variables_before_the_first_speaker_begins_or_it_does_not_begin() -> None:
    one = workflow_scenario(GRAPH, context=CONTEXT)
    one.user_writes("Make it good\n/set route=law\n  /set tries=2 approved=true\n/setting=1", addressed=(NAME,))
    (opened,) = one.records(w.WorkflowOpened)
    assert opened.context == {**CONTEXT, "route": "law", "tries": 2, "approved": True}
    one = workflow_scenario(GRAPH, context=CONTEXT).converse("Make it good\n/set colour=red", addressed=(NAME,))
    assert not one.records(w.WorkflowOpened)
    assert one.conversation.cycle.status == "ended"
    (expected,) = one.sent_texts()
    assert expected.startswith(f"The workflow {NAME} cannot begin: There is no variable colour in this workflow.")


def test_elsewhere_and_after_the_end_nothing_is_set() -> None:
    none = workflow_scenario(TransitionGraph.sequence(["writer", "editor"]))
    none.user_writes("/set a=1")
    assert none.sent_texts()[-1] == "Only a workflow has variables; mention one in a new note to begin it."
    none = started(TransitionGraph.sequence(["writer", "editor"]))
    none.user_writes("/set")
    assert none.sent_texts()[-1] == "This workflow has no variables."
    none.user_writes("/set a=1")
    assert none.sent_texts()[-1] == "There is no variable a in this workflow. It has none."
    one = reported("/set approved=true").settle()
    assert one.records(w.WorkflowClosed)[0].reason == "approved"
    one.user_writes("/set approved=false")
    assert "has ended (approved)" in one.sent_texts()[-1]
    assert len(one.records(w.ContextSet)) == 1


def test_what_was_written_in_the_last_round_is_not_passed_over_in_silence() -> None:
    one = started(LINE)
    while one.conversation.work.turn is None or one.conversation.work.turn.agents != ("checker",):
        assert one.step()
    one.converse("and mind the title")
    assert closed(one) == "sequence_complete"
    assert "No one has read what was written since checker began" in one.sent_texts()[-1]
    quiet = started(LINE).settle()
    assert "No one has read" not in quiet.sent_texts()[-1]


def test_a_text_that_crossed_with_the_round_before_the_users_is_no_round_and_they_are_notified() -> None:
    one = started(TALK, None, "person", "writer")
    one.converse("wait, one thing more")
    assert speakers(one) == ["person", "writer"]
    assert (one.conversation.cycle.status, one.conversation.cycle.waiting_for) == ("waiting", "user")
    assert "It is your turn" in one.sent_texts()[-1]
    before = len(one.sent_texts())
    one.user_writes("/continue")
    (once,) = one.sent_texts()[before:]
    assert once.startswith("It is your turn")
    one.converse("go on")
    assert speakers(one) == ["person", "writer", "person", "writer"]


def test_an_answer_to_a_question_was_read_by_the_agent_that_asked() -> None:
    lines = {"writer": [calls(("ask", {"question": "Which title?"})), "the blue one, then"]}
    one = started(TALK, lines, "person", "writer").settle()
    one.converse("the blue one")
    assert speakers(one) == ["person", "writer"]
    assert one.sent_texts()[-1] == "the blue one, then", "nothing is kept for the next speaker"


@pytest.mark.parametrize("view", ["full", "windowed", "summary"])
def test_out_of_turn_text_is_shown_in_every_view(view: View) -> None:
    one = started(LINE, view=view)
    one.user_writes("mind the title")
    assert [run.unseen for run in one.conversation.work.runs.values()] == [()], "it is held until the round has closed"
    one.settle()
    assert speakers(one) == list(TRIO)
    wrote = one.records(r.MessageRecorded)[-1]
    shown = {
        rec.agent: [entry.seq for entry in rec.entries if hasattr(entry, "seq")] for rec in one.records(r.RunStarted)
    }
    assert wrote.seq in shown["editor"]


def test_every_other_workflow_that_is_named_is_notified_to_begin_elsewhere() -> None:
    one = workflow_scenario(LINE)
    other = dataclasses.replace(workflow(LINE), slug=Slug("other"))
    one.policy = workflow_policy(workflow(LINE), other)
    one.user_writes("both of you", addressed=(NAME, "other"))
    assert session(one).slug == NAME
    assert "@other is a workflow; it begins in a thread of its own" in one.sent_texts()[0]


LINE = TransitionGraph.sequence(TRIO)


def timers(one: Scenario) -> dict[str, Timer]:
    """The timers of its expectations, by name."""
    return {e.key.part: e for e in one.running.values() if isinstance(e, Timer) and "." in e.key.part}


def reason(one: Scenario) -> str:
    """Why it ended; it did, once."""
    (closed,) = one.records(w.WorkflowClosed)
    assert one.conversation.cycle.status == "ended"
    assert not timers(one)
    assert session(one).speakers.pending_close_reason == closed.reason
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
    missed = [(record.expectation, record.action) for record in one.records(w.ExpectationMissed)]
    assert missed == [("turn_within", "warn"), ("turn_within", "close")]
    assert reason(one) == "turn_within"
    assert one.records(r.RunEnded)[0].outcome == "timed_out"
    assert any("I could not finish: writer has not answered within 10 min." in text for text in one.sent_texts())
    assert not one.running or all(not isinstance(effect, ModelCall) for effect in one.running.values())


def test_1_3_f_a_round_that_fails_reports_it_and_the_rules_go_on() -> None:
    lines: Any = {"writer": [ModelFailed(key=Key("model", 0), message="no", retryable=False)] * 3}  # type: ignore[arg-type]
    one = started(LINE, lines).settle()
    assert "I could not finish: no" in one.sent_texts()
    assert [record.outcome for record in one.records(w.RoundClosed)] == ["failed", "finished", "finished"]
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
    assert one.records(w.RoundClosed) == []


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
    full = one.policy
    remove_agent(one, "editor")
    one.user_writes("go", addressed=("review",))
    assert session(one).missing == ("editor",)
    assert one.records(r.TurnOpened) == []
    if comes:
        one.policy = full
        one.converse("/continue")
        assert "acks_within.close" not in timers(one)
        assert len(one.records(w.RoundClosed)) == 2
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
