"""An agent's tool calls: the gate's verdict when each is about to start, their order, and what ends a run."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.context.window import MESSAGE_CHARACTERS
from tenex.core.decide.runs import CALLS
from tenex.core.effects import ModelCall, ToolCall
from tenex.core.ids import CallId, Millis
from tenex.core.messages import CallResult, ModelStep, UserText
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import ToolReturned
from tests.fakes.scenario import in_flight, reply

from .test_runs import at_work, ended, finish, results


def with_ids(step: ModelStep, *ids: str) -> ModelStep:
    """The same answer with these call ids."""
    calls = tuple(dataclasses.replace(call, id=CallId(name)) for call, name in zip(step.calls, ids, strict=True))
    return dataclasses.replace(step, calls=calls)


def test_duplicate_call_ids_are_distinguished_within_and_across_answers() -> None:
    read = ("read_file", {"path": "a"})
    scenario = at_work(
        with_ids(reply("", read, read, read), "x", "x", ""), with_ids(reply("", read, read), "x", ""), reply("done")
    ).settle()
    ids = [record.call for record in scenario.records(r.ToolCallStarted)]
    assert len(ids) == 5 == len(set(ids))
    assert [name for name, *_ in results(scenario)] == ids
    assert ended(scenario)[0].outcome == "finished"


def test_of_hundreds_of_calls_in_one_answer_the_first_are_carried_out() -> None:
    scenario = at_work(
        reply("", *[("read_file", {"path": f"f{n}"}) for n in range(CALLS + 30)]), reply("done")
    ).settle()
    assert len(scenario.records(r.ToolCallStarted)) == CALLS
    assert {record.sentence for record in scenario.records(r.ToolCallRejected)} == {
        f"Not run: of one answer the first {CALLS} calls are carried out. Ask again if you need it."
    }
    assert len(scenario.records(r.ToolCallRejected)) == 30
    assert ended(scenario)[0].outcome == "finished"


@pytest.mark.parametrize(
    ("phase", "tool"), [("chat", "read_file"), ("plan", "write_file"), ("brainstorm", "send"), ("execute", "learn")]
)
def test_a_tool_the_phase_forbids_does_not_run_even_when_the_model_names_it(phase: str, tool: str) -> None:
    scenario = at_work(reply("", (tool, {"path": "a"})), reply("done"), phase=phase).settle()
    assert f"may not be used by executor in the {phase} phase; nothing was done" in results(scenario)[0][2]
    assert scenario.records(r.ToolCallStarted) == []
    assert not scenario.ran


def test_the_gate_is_asked_again_when_a_call_is_about_to_start() -> None:
    """Two changes in one answer; the phase changes between them; the second is refused."""
    scenario = at_work(reply("", ("write_file", {"path": "a"}), ("write_file", {"path": "b"})), reply("done"))
    scenario.step()
    (first,) = in_flight(scenario)
    moved = r.PhaseTransition(
        seq=scenario.conversation.next_seq,
        at=scenario.now,
        from_=Phase.EXECUTE,
        to=Phase.VERIFICATION,
        message="",
        reason="",
        agent_pubkey=scenario.rules.project.pubkey,
        agent_name="",
        summary="",
        announce_at=Millis(scenario.now + 1),
    )
    scenario.conversation.apply(moved)
    scenario.journal.append((moved,))
    finish(scenario, first.key)
    assert [ok for _, ok, _ in results(scenario)] == [True, False]
    assert "in the verification phase" in results(scenario)[1][2]
    assert [record.call for record in scenario.records(r.ToolCallStarted)] == ["k0"]


def test_reads_start_together_and_changes_one_by_one_in_order() -> None:
    calls = [("read_file", {"path": "a"}), ("write_file", {"path": "b"}), ("read_file", {"path": "c"}), ("check", {})]
    scenario = at_work(reply("", *calls), reply("done"))
    scenario.step()
    assert [effect.request.id for effect in in_flight(scenario) if isinstance(effect, ToolCall)] == ["k0", "k1", "k2"]
    finish(scenario, in_flight(scenario)[1].key)
    assert [effect.request.id for effect in in_flight(scenario) if isinstance(effect, ToolCall)] == ["k0", "k2", "k3"]


def test_complete_beside_other_calls_ends_the_run_after_them() -> None:
    scenario = at_work(reply("", ("complete", {"response": "done"}), ("write_file", {"path": "a"}), ("read_file", {})))
    scenario.step()
    assert ended(scenario) == []
    while in_flight(scenario) and isinstance(in_flight(scenario)[0], ToolCall):
        assert ended(scenario) == []
        finish(scenario, in_flight(scenario)[0].key)
    assert (ended(scenario)[0].text, ended(scenario)[0].outcome) == ("done", "finished")
    assert scenario.conversation.touched == {"a"}


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (reply("said", ("complete", {})), "said"),
        (reply("said", ("complete", {"response": "written"})), "written"),
        (reply("", ("complete", {"summary": "short"})), "short"),
        (reply("said", ("complete", {"issues": "and this"})), "said\n\nand this"),
    ],
)
def test_what_a_user_reads_is_in_the_completion_wherever_the_model_put_it(step: ModelStep, text: str) -> None:
    scenario = at_work(step).settle()
    assert ended(scenario)[0].text == text
    assert text in scenario.sent_texts()


@pytest.mark.parametrize("arguments", [{"question": "  "}, {"question": 7}, {"q": "x"}])
def test_a_question_without_words_is_refused(arguments: dict[str, Any]) -> None:
    scenario = at_work(reply("", ("ask", arguments)), reply("done")).settle()
    assert "`ask` needs `question`" in results(scenario)[0][2]
    assert scenario.records(r.QuestionAsked) == []
    assert ended(scenario)[0].outcome == "finished"


@pytest.mark.parametrize(
    ("options", "sent"),
    [(None, "Which?"), ("yes or no", "Which?"), ({"a": 1}, "Which?"), (["red", 2], "Which?\n- red\n- 2")],
)
def test_options_are_listed_below_the_question_if_they_are_a_list(options: Any, sent: str) -> None:
    scenario = at_work(reply("", ("ask", {"question": "Which?", "options": options})))
    scenario.step()
    assert scenario.sent_texts()[-1] == sent


def test_results_are_shown_in_the_order_of_the_calls_and_then_what_users_wrote() -> None:
    scenario = at_work(reply("", ("read_file", {}), ("teleport", {}), ("write_file", {"path": "a"})), reply("done"))
    scenario.step()
    scenario.user_writes("make it green")
    for effect in reversed(in_flight(scenario)):
        finish(scenario, effect.key)
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    assert [entry.id for entry in call.entries[-4:-1] if isinstance(entry, CallResult)] == ["k0", "k1", "k2"]
    assert call.entries[-1] == UserText(author="alice", text="make it green", role="owner", key="a" * 64)


def fails(scenario: Any) -> None:
    """The call that runs gives a failure."""
    (call,) = (effect for effect in in_flight(scenario) if isinstance(effect, ToolCall))
    scenario.running.pop(call.key)
    scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=False, content="exit status 1")))


DONE = ("complete", {"response": "All tests pass.", "verdict": "verified"})


def test_a_report_written_before_a_call_of_the_same_answer_failed_does_not_count() -> None:
    scenario = at_work(reply("", ("write_file", {"path": "a"}), DONE), reply("", DONE))
    scenario.step()
    fails(scenario)
    assert results(scenario)[-1][2] == (
        "write_file in the same answer did not succeed. Look at its result first, then call `complete`."
    )
    assert not ended(scenario)
    scenario.settle()
    assert [done.outcome for done in ended(scenario)] == ["finished"]


def test_of_two_reports_the_first_counts() -> None:
    scenario = at_work(reply("", DONE, ("complete", {"response": "No.", "verdict": "issues"}))).settle()
    assert [done.text for done in ended(scenario)] == ["All tests pass."]
    assert [record.sentence for record in scenario.records(r.ToolCallRejected)] == [
        "The first `complete` of an answer counts."
    ]


def test_at_the_limit_of_steps_the_report_counts_whatever_failed_beside_it() -> None:
    scenario = at_work(reply("", ("write_file", {"path": "a"}), DONE), limits=Limits(steps_per_run=1))
    scenario.step()
    fails(scenario)
    assert [done.outcome for done in ended(scenario)] == ["finished"]


def test_a_pasted_log_is_cut_for_an_agent_at_work_as_for_one_that_begins() -> None:
    """Words of users are never left out of a request, so a long one must not be whole in it."""
    scenario = at_work(
        reply("", ("ask", {"question": "Which?"})), reply("", ("ask", {"question": "And?"})), reply("done")
    )
    scenario.step()
    log = "x" * 200_000
    scenario.user_writes("a log: " + log, addressed=("planner",))
    scenario.user_writes("answer: " + log, reply_to=next(iter(scenario.conversation.asks)))
    call = next(effect for effect in scenario.running.values() if isinstance(effect, ModelCall))
    words = [entry.text for entry in call.entries if isinstance(entry, UserText)]
    answers = [entry.content for entry in call.entries if isinstance(entry, CallResult)]
    assert [text[:5] for text in words[-1:]] == ["a log"]
    assert [text[:6] for text in answers] == ["answer"]
    assert all(len(text) < MESSAGE_CHARACTERS + 100 for text in (*words, *answers))
