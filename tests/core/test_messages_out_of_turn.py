"""What users write in a workflow when it is no one's turn of theirs: kept, shown, and never passed over in silence."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import PublicKey, Slug
from tenex.core.workflow_config import View
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.workflows import NAME, TRIO, calls, session, started, workflow, workflow_policy, workflow_scenario

from .test_speakers_rounds import closed, speakers

LINE = TransitionGraph.sequence(TRIO)


def test_what_was_written_in_the_last_round_is_not_passed_over_in_silence() -> None:
    one = started(LINE)
    while one.conversation.turn is None or one.conversation.turn.agents != ("checker",):
        assert one.step()
    one.converse("and mind the title")
    assert closed(one) == "sequence_complete"
    assert "No one has read what was written since checker began" in one.sent_texts()[-1]
    quiet = started(LINE).settle()
    assert "No one has read" not in quiet.sent_texts()[-1]


def test_a_text_that_crossed_with_the_round_before_the_users_is_no_round_and_they_are_notified() -> None:
    one = started(TransitionGraph.round_robin(["person", "writer"], max_turns=9), None, "person", "writer")
    one.converse("wait, one thing more")
    assert speakers(one) == ["person", "writer"]
    assert (one.conversation.status, one.conversation.waiting_for) == ("waiting", "user")
    assert "It is your turn" in one.sent_texts()[-1]
    before = len(one.sent_texts())
    one.user_writes("/continue")
    assert len(one.sent_texts()) == before + 1, "once is enough"
    one.converse("go on")
    assert speakers(one) == ["person", "writer", "person", "writer"]


def test_somebody_else_is_notified_whose_turn_it_is() -> None:
    one = started(TransitionGraph.round_robin(["person", "writer"], max_turns=9), None, "person", "writer").settle()
    one.user_writes("may I?", role=Role.MEMBER, author=PublicKey("b" * 64))
    assert "It is the turn of the user who started this" in one.sent_texts()[-1]
    assert one.conversation.status == "waiting"


def test_an_owner_replaces_the_user_who_began_it() -> None:
    one = started(TransitionGraph.round_robin(["person", "writer"], max_turns=9), None, "person", "writer").settle()
    one.converse("may I?", role=Role.OWNER, author=PublicKey("b" * 64))
    assert speakers(one) == ["person", "writer", "person", "writer"]


def test_an_answer_to_a_question_was_read_by_the_agent_that_asked() -> None:
    lines = {"writer": [calls(("ask", {"question": "Which title?"})), "the blue one, then"]}
    one = started(TransitionGraph.round_robin(["person", "writer"], max_turns=9), lines, "person", "writer").settle()
    one.converse("the blue one")
    assert speakers(one) == ["person", "writer"]
    assert one.sent_texts()[-1] == "the blue one, then", "nothing is kept for the next speaker"


@pytest.mark.parametrize("view", ["full", "windowed", "summary"])
def test_out_of_turn_text_is_shown_in_every_view(view: View) -> None:
    one = started(LINE, view=view)
    one.converse("mind the title")
    wrote = one.records(r.MessageRecorded)[-1]
    shown = {
        rec.agent: [entry.seq for entry in rec.entries if hasattr(entry, "seq")] for rec in one.records(r.RunStarted)
    }
    assert wrote.seq in shown["editor"]


def test_every_other_workflow_that_is_named_is_notified_to_begin_elsewhere() -> None:
    one = workflow_scenario(LINE)
    other = dataclasses.replace(workflow(LINE), slug=Slug("other"))
    one.rules = workflow_policy(workflow(LINE), other)
    one.user_writes("both of you", addressed=(NAME, "other"))
    assert session(one).slug == NAME
    assert "@other is a workflow; it begins in a thread of its own" in one.sent_texts()[0]
