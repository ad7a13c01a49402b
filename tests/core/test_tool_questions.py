"""A tool may ask a person in the middle of its call: it is parked like `ask`, and called again with the answer."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.answers.forms import Form
from tenex.core.config import Role
from tenex.core.ids import CallId, Millis, PublicKey
from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep
from tenex.core.port_values import QuestionReply, ToolResult
from tenex.core.signals import ClockJumped, ToolReturned
from tenex.core.work.tool_questions import answered, answers_to
from tests.fakes.scenario import ID, Scenario, check_invariants, reply
from tests.kits.tool_questions import ARGUMENTS, TOOL, asking, event_of, parked, until_called


def test_the_call_waits_over_a_restart_and_the_next_one_has_the_answer() -> None:
    answers = [reply("", (TOOL, ARGUMENTS)), reply("", (TOOL, ARGUMENTS)), reply("I ordered it.")]
    scenario = asking(answers)
    call = until_called(scenario)
    assert call.context.answers == ()
    scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=False, content="", question="How many?")))
    assert [record.question for record in scenario.records(r.QuestionAsked)] == ["How many?"]
    assert "How many?" in scenario.records(r.MessageSent)[-1].text
    scenario.crash()
    scenario.settle()
    assert len(answers) == 2, "the model is not asked before the person has answered"
    scenario.user_writes("8", by_program=True)
    assert scenario.records(r.QuestionAnswered) == [], "a server asks a person, and no program answers for them"
    scenario.user_writes("7, please")
    again = until_called(scenario)
    assert again.context.answers == (QuestionReply(question="How many?", text="7, please"),)
    assert again.key != call.key
    scenario.settle()
    assert [record.text for record in scenario.records(r.RunEnded)] == ["I ordered it."]
    results = [record.content for record in scenario.records(r.ToolCallCompleted)]
    assert results == [f"{TOOL} done"]


def test_a_call_that_was_allowed_is_not_asked_about_again_when_it_is_made_with_the_answer() -> None:
    """But one with other arguments is, and one after the end of that call."""
    call = (TOOL, ARGUMENTS)
    scenario = asking([reply("", call), reply("", call), reply("", call)], asks=True)

    def requests() -> int:
        while scenario.step():
            pass
        return len(scenario.records(r.ApprovalRequested))

    assert requests() == 1
    scenario.user_writes("yes")
    first = until_called(scenario)
    scenario.handle(ToolReturned(key=first.key, result=ToolResult(ok=False, content="", question="How many?")))
    assert requests() == 1
    scenario.user_writes("7")
    again = until_called(scenario)
    assert again.context.answers == (QuestionReply(question="How many?", text="7"),)
    assert requests() == 2, "the third call is another one"


def test_a_call_that_has_changed_files_is_not_parked_for_then_they_would_not_count() -> None:
    scenario = asking([reply("", (TOOL, ARGUMENTS)), reply("done")])
    call = until_called(scenario)
    result = ToolResult(ok=False, content="It asks: How many?", question="How many?", touched=("f",))
    scenario.handle(ToolReturned(key=call.key, result=result))
    assert scenario.records(r.QuestionAsked) == []
    assert [record.touched for record in scenario.records(r.ToolCallCompleted)] == [("f",)]


def test_answers_are_those_of_the_same_call_since_it_had_a_result() -> None:
    def step(name: str, **arguments: Any) -> ModelStep:
        return ModelStep(calls=(CallRequest(id=CallId(name), tool=TOOL, arguments=arguments),))

    def result(name: str, content: str, question: str = "") -> CallResult:
        return CallResult(id=CallId(name), tool=TOOL, ok=True, content=content, question=question)

    entries: list[Entry] = [step("a", n=1), result("a", answered(TOOL, "one"), "Which?")]
    asked = CallRequest(id=CallId("z"), tool=TOOL, arguments={"n": 1})
    first = QuestionReply(question="Which?", text="one")
    assert answers_to(entries, asked) == (first,)
    assert answers_to(entries, dataclasses.replace(asked, arguments={"n": 2})) == ()
    entries += [step("b", n=1), result("b", answered(TOOL, "two"), "Sure?")]
    assert answers_to(entries, asked) == (first, QuestionReply(question="Sure?", text="two"))
    entries += [step("c", n=1), result("c", "ordered")]
    assert answers_to(entries, asked) == ()
    entries += [step("d", n=1), result("d", answered(TOOL, "yes"))]
    assert answers_to(entries, asked) == (), "what a tool returns is no answer of a person, whatever its words"


# ---- which message answers -------------------------------------------------------------------------------------------


def replies(scenario: Scenario) -> list[str]:
    return [record.text for record in scenario.records(r.QuestionAnswered)]


def test_a_late_reply_to_an_earlier_question_of_the_same_server_does_not_answer_a_later_one() -> None:
    scenario = parked("Delete a?", "Delete everything?")
    assert replies(scenario) == ["yes"]
    scenario.user_writes("yes", reply_to=event_of(scenario, "Delete a?"))
    assert replies(scenario) == ["yes"]
    repeated = scenario.records(r.MessageSent)[-1].text
    assert repeated == "That is no reply to this question, so it still waits for an answer:\n\nDelete everything?"
    scenario.user_writes("no", reply_to=event_of(scenario, "Delete everything?"))
    assert replies(scenario) == ["yes", "no"], "a reply to the repeated question answers it"
    asked = [(reply.question, reply.text) for reply in until_called(scenario).context.answers]
    assert asked == [("Delete a?", "yes"), ("Delete everything?", "no")]


@pytest.mark.parametrize("addressed", [(), ("executor",)])
def test_a_reply_to_another_message_does_not_answer_a_server(addressed: tuple[str, ...]) -> None:
    scenario = parked("Delete everything?")
    scenario.user_writes("yes", reply_to="e" * 64, addressed=addressed)
    assert replies(scenario) == []
    scenario.crash()
    scenario.user_writes("yes", reply_to=event_of(scenario, "Delete everything?"))
    assert replies(scenario) == ["yes"]


@pytest.mark.parametrize("reply_to", [None, ID])
def test_a_message_to_the_thread_answers_a_server_if_it_was_written_after_the_question(reply_to: str | None) -> None:
    scenario = parked("Delete everything?")
    scenario.now = Millis(scenario.now + 3_600_000)
    scenario.user_writes("yes", reply_to=reply_to, late=2 * 3_600)
    assert replies(scenario) == []
    scenario.handle(ClockJumped(by=-3_600_000))
    scenario.user_writes("yes", reply_to=reply_to, late=5_600)
    assert replies(scenario) == ["yes"], "by the clock as it was set, that is after the question"


def test_what_an_agent_itself_asks_is_answered_as_before() -> None:
    steps = [reply("", ("ask", {"question": "Which colour?"})), reply("blue then")]
    scenario = asking(steps)
    while scenario.step():
        pass
    scenario.user_writes("blue", reply_to="e" * 64)
    assert replies(scenario) == ["blue"]


# ---- an answer is held to the form, and may be corrected -------------------------------------------------------------

FORM = Form({"count": {"type": "integer", "maximum": 9}}, frozenset(["count"]))


def asked_by_form() -> Scenario:
    """A conversation in which a server asks how many, by a form."""
    scenario = asking([reply("", (TOOL, ARGUMENTS)), reply("", (TOOL, ARGUMENTS)), reply("I ordered it.")])
    call = until_called(scenario)
    result = ToolResult(ok=False, content="", question="How many?", form=FORM.stored())
    scenario.handle(ToolReturned(key=call.key, result=result))
    while scenario.step():
        pass
    return scenario


@pytest.mark.parametrize("answer", ["many", "12", "7\nbirthdate: 1990-01-01"])
def test_an_answer_that_the_form_does_not_permit_is_asked_for_again_at_once(answer: str) -> None:
    scenario = asked_by_form()
    scenario.crash()
    scenario.user_writes(answer, reply_to=event_of(scenario, "How many?"))
    assert replies(scenario) == []
    assert "That was no answer" in scenario.records(r.MessageSent)[-1].text
    scenario.user_writes("7", reply_to=event_of(scenario, "How many?"))
    assert replies(scenario) == ["7"]
    check_invariants(scenario)


def test_a_second_answer_counts_until_the_server_has_used_the_first() -> None:
    scenario = asked_by_form()
    question = event_of(scenario, "How many?")
    scenario.user_writes("7", reply_to=question)
    scenario.user_writes("8", reply_to=question)
    assert [record.text for record in scenario.records(r.AnswerCorrected)] == ["8"]
    assert "counts in place of the one before" in scenario.records(r.MessageSent)[-1].text
    check_invariants(scenario)
    scenario.crash()
    again = until_called(scenario)
    assert [answer.text for answer in again.context.answers] == ["8"]
    scenario.user_writes("9", reply_to=question)
    assert len(scenario.records(r.AnswerCorrected)) == 1
    assert "it was used already" in scenario.records(r.MessageSent)[-1].text
    scenario.settle()
    assert replies(scenario) == ["7"]


def test_someone_else_corrects_no_answer() -> None:
    scenario = asked_by_form()
    question = event_of(scenario, "How many?")
    scenario.user_writes("7", reply_to=question)
    scenario.user_writes("8", reply_to=question, author=PublicKey("c" * 64), name="carol", role=Role.GUEST)
    scenario.user_writes("9", reply_to=question, by_program=True)
    assert scenario.records(r.AnswerCorrected) == []
