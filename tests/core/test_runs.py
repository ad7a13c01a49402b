"""An agent at work: whatever its model answers, its part in the turn is counted once and comes to an end."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, Limits
from tenex.core.effects import Key, ModelCall, Timer, ToolCall
from tenex.core.ids import CallId, Millis
from tenex.core.memory.window import MESSAGE_CHARACTERS
from tenex.core.messages import CallRequest, CallResult, ModelStep, Note, Usage, UserText
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import ModelAnswered, ModelFailed, ToolReturned
from tenex.core.work.runs import CALLS, EMPTY, NUDGES
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    check_idle,
    in_flight,
    model_by_phase,
    plain_model,
    policy,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.call_results import results


def at_work(
    *steps: Any, phase: str = "execute", agents: tuple[str, ...] = ("executor",), limits: Limits | None = None
) -> Scenario:
    """A scenario in which a turn in execute has just been opened, with these answers of the agents' models to come."""
    router, models = Router(route(phase, *agents), WAITS), model_by_phase(**{phase: list(steps)})
    scenario = scenario_at(Phase.CHAT, router, models, config=policy(limits=limits))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    return scenario


def ended(scenario: Scenario) -> list[r.RunEnded]:
    """Every completion of the turn in execute."""
    return [record for record in scenario.records(r.RunEnded) if record.run.startswith("turn-2.")]


def finish(scenario: Scenario, key: Key) -> list[r.Record]:
    """Do the work of that key."""
    effect = scenario.running.pop(key)
    return scenario.handle(scenario.perform(effect))


HOUR = 3_600_000
FAST = Limits(default_expectation=Expectation(warn_after=60_000, close_after=120_000))


def timers(scenario: Scenario) -> dict[str, int]:
    """What is due, by kind."""
    return {effect.key.part: effect.due for effect in pending(scenario.conversation).values() if hasattr(effect, "due")}


def test_a_slow_agent_is_mentioned_once_and_then_given_up() -> None:
    scenario = at_work(reply("", ("write_file", {"path": "a"})), limits=FAST)
    opened = scenario.records(r.TurnOpened)[-1].at
    assert timers(scenario)["warn"] == opened + 60_000
    assert next(iter(scenario.conversation.work.runs.values())).close_at == opened + 120_000
    scenario.fire("warn")
    assert [record.run for record in scenario.records(r.RunWarned)] == ["turn-2.executor"]
    assert "Executor is still working; I give it 1 more min." in scenario.sent_texts()[-1]
    assert "warn" not in timers(scenario), "once"
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    scenario.fire("close")
    assert "I could not finish: no answer within 2 min" in scenario.sent_texts()[-1]
    assert not any(isinstance(effect, ModelCall) for effect in in_flight(scenario)), "what ran is no longer wanted"
    scenario.settle()
    check_idle(scenario)


def test_several_slow_agents_are_mentioned_in_one_message() -> None:
    """Each that reflected sent one, in the same second."""
    scenario = Scenario(Router(route("execute", "executor", "helper")), plain_model, config=policy(limits=FAST))
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: len(it.conversation.work.runs) == 2)
    before = len(scenario.sent_texts())
    scenario.fire("warn")
    scenario.fire("warn")
    assert scenario.sent_texts()[before:] == [
        "Executor and Helper are still working; I give them 1 more min. `/stop` ends it now."
    ]
    assert "warn" not in timers(scenario)


def answers(scenario: Scenario, step: ModelStep, *, at: int) -> None:
    """The model that is asked answers at that time."""
    (call,) = (effect for effect in scenario.running.values() if isinstance(effect, ModelCall))
    scenario.running.pop(call.key)
    scenario.now = Millis(at)
    scenario.handle(ModelAnswered(key=call.key, step=step))
    scenario.reconcile()


@pytest.mark.parametrize("retryable", [None, True, False], ids=["answered", "to be tried again", "refused"])
def test_time_in_the_queue_of_a_busy_provider_counts_against_no_deadline(retryable: bool | None) -> None:
    """Twenty conversations wait for a slow provider: an hour in the queue is no one's work."""
    scenario = at_work(reply("never"), limits=FAST)
    began = next(iter(scenario.conversation.work.runs.values()))
    scenario.now = Millis(began.close_at - 60_000 + HOUR)
    if retryable is None:
        step = dataclasses.replace(reply("", ("write_file", {"path": "a"})), queued=HOUR)
        answers(scenario, step, at=scenario.now)
    else:
        (call,) = in_flight(scenario)
        scenario.handle(ModelFailed(key=call.key, message="no", retryable=retryable, queued=HOUR))
    run = next(iter(scenario.conversation.work.runs.values()))
    assert (run.warn_at, run.close_at) == (began.warn_at + HOUR, began.close_at + HOUR)
    due = [e.due for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "warn"]
    assert due == ([] if retryable else [run.warn_at]), "the timer that ran before was replaced"


def test_time_parked_on_one_question_and_then_another_does_not_count() -> None:
    both = reply("", ("ask", {"question": "Which?"}), ("ask", {"question": "When?"}))
    scenario = at_work(both, reply("done"), limits=FAST)
    scenario.step()
    first, second = scenario.records(r.MessageSent)[-2:]
    assert not set(timers(scenario)) & {"warn", "close"}, "no deadline runs while it waits for the user"
    scenario.now = Millis(scenario.now + HOUR)
    scenario.user_writes("that one", reply_to=first.events[0].id)
    assert scenario.conversation.work.is_parked
    scenario.now = Millis(scenario.now + HOUR)
    scenario.user_writes("now", reply_to=second.events[0].id)
    assert timers(scenario)["warn"] > scenario.now + 30_000, "an hour of waiting is no hour of work"


@pytest.mark.parametrize(
    "steps",
    [
        [reply("", ("read_file", {"path": "a"})), reply("", ("read_file", {"path": "b"}))],
        [reply("", ("complete", {"response": 7}))],
        [reply("", ("complete", {"response": "x", "issues": {}}))],
    ],
)
def test_an_agent_that_never_completes_rightly_meets_the_limit_of_steps(steps: list[ModelStep]) -> None:
    scenario = at_work(*steps, limits=Limits(steps_per_run=2)).settle(most=200)
    (done,) = ended(scenario)
    assert (done.outcome, done.error) == ("failed", "it took 2 steps, which is the limit")
    assert len([record for record in scenario.records(r.ModelResponded) if record.run == done.run]) == 2
    assert len(steps) == 1 or results(scenario)[-1][2] == "not run: the limit of steps is reached"
    check_idle(scenario)


def test_a_model_call_has_a_bound_of_its_own_and_after_the_deadline_its_answer_counts_and_no_tool_is_begun() -> None:
    """The answer is paid for, and the user waits for it."""
    late, calls = 125_000, [("write_file", {"path": "a"}), ("read_file", {"path": "b"})]
    for step, outcome in ((reply("It is built."), "finished"), (reply("", *calls), "timed_out")):
        scenario = at_work(reply("never"), limits=FAST)
        assert "close" not in timers(scenario)
        answers(scenario, step, at=scenario.records(r.TurnOpened)[-1].at + late)
        assert [done.outcome for done in ended(scenario)] == [outcome]
    assert {content for _, _, content in results(scenario)} == {"not run: the time is up"}
    assert scenario.records(r.ToolCallStarted) == []
    assert "I could not finish: no answer within 2 min" in scenario.sent_texts()[-1]


@pytest.mark.parametrize(("queued", "outcome"), [(0, ["timed_out"]), (60_000, [])])
def test_an_answer_that_was_cut_off_when_the_time_was_up_ends_the_run_and_not_one_that_waited_for_its_turn(
    queued: int, outcome: list[str]
) -> None:
    scenario = at_work(reply("never"), limits=FAST)
    (call,) = (effect for effect in scenario.running.values() if isinstance(effect, ModelCall))
    scenario.running.pop(call.key)
    scenario.now = scenario.conversation.work.runs[call.run].close_at
    usage = Usage(output_tokens=7, calls=1)
    cut = ModelFailed(key=call.key, run=call.run, message="cut", retryable=True, usage=usage, queued=queued)
    scenario.handle(cut)
    assert [done.outcome for done in ended(scenario)] == outcome
    assert [done.usage for done in ended(scenario)] == [usage for _ in outcome]
    assert bool(scenario.records(r.RetryScheduled)) is not bool(outcome)


def test_an_empty_answer_is_reminded_twice_and_then_fails() -> None:
    reminder = "Your answer is empty. Say what the person should read."
    scenario = at_work(reply("\n\t "))
    scenario.step()
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    assert call.entries[-1] == Note(title="Reminder", text=reminder), "the model sees it"
    scenario.settle()
    assert [record.text for record in scenario.records(r.ModelReprompted)] == [reminder] * NUDGES
    assert (ended(scenario)[0].outcome, ended(scenario)[0].error) == ("failed", EMPTY)
    check_idle(scenario)


@pytest.mark.parametrize("word", [None, "VERIFIED", ["verified"]])
def test_a_verdict_that_is_none_is_refused_and_an_answer_without_one_is_at_last_taken_as_it_is(word: Any) -> None:
    steps = [reply("", ("complete", {"response": "x", "verdict": word})), reply("fine")]
    scenario = scenario_at(
        Phase.EXECUTE, Router(route("verification", "executor"), WAITS), model_by_phase(verification=steps)
    ).settle()
    assert "needs `verdict`" in scenario.records(r.ToolCallRejected)[0].sentence
    assert len(scenario.records(r.ModelReprompted)) == NUDGES
    last = scenario.records(r.RunEnded)[-1]
    assert (last.outcome, last.text, last.verdict) == ("finished", "fine", "")


def test_duplicate_call_ids_are_distinguished_within_and_across_answers() -> None:
    known = {name: CallRequest(id=CallId(name), tool="read_file", arguments={"path": "a"}) for name in ("x", "")}
    first, second = (ModelStep(calls=tuple(known[name] for name in names)) for names in (("x", "x", ""), ("x", "")))
    scenario = at_work(first, second, reply("done")).settle()
    ids = [record.call for record in scenario.records(r.ToolCallStarted)]
    assert len(ids) == 5 == len(set(ids))
    assert [name for name, *_ in results(scenario)] == ids
    assert ended(scenario)[0].outcome == "finished"


def test_of_hundreds_of_calls_in_one_answer_the_first_are_carried_out() -> None:
    reads = [("read_file", {"path": f"f{n}"}) for n in range(CALLS + 30)]
    scenario = at_work(reply("", *reads), reply("done")).settle()
    assert len(scenario.records(r.ToolCallStarted)) == CALLS
    assert {record.sentence for record in scenario.records(r.ToolCallRejected)} == {
        f"Not run: of one answer the first {CALLS} calls are carried out. Ask again if you need it."
    }
    assert len(scenario.records(r.ToolCallRejected)) == 30
    assert ended(scenario)[0].outcome == "finished"


@pytest.mark.parametrize(
    ("phase", "tool", "others"),
    [
        ("chat", "read_file", "ask, complete"),
        ("plan", "write_file", "ask, complete, read_file"),
        ("brainstorm", "send", "ask, complete, read_file"),
        ("execute", "learn", "ask, check, complete, read_file, send, write_file"),
    ],
)
def test_a_tool_the_phase_forbids_does_not_run_even_when_the_model_names_it(phase: str, tool: str, others: str) -> None:
    scenario = at_work(reply("", (tool, {"path": "a"})), reply("done"), phase=phase).settle()
    assert results(scenario)[0][2] == (
        f"The tool {tool} may not be used by executor in the {phase} phase; nothing was done. You may use: {others}."
    )
    assert scenario.records(r.ToolCallStarted) == []
    assert not scenario.ran


def test_the_gate_is_asked_again_when_a_call_is_about_to_start() -> None:
    """Two changes in one answer; the phase changes between them; the second is refused."""
    scenario = at_work(reply("", ("write_file", {"path": "a"}), ("write_file", {"path": "b"})), reply("done"))
    scenario.step()
    (first,) = in_flight(scenario)
    entered = scenario.records(r.PhaseTransition)[-1]
    seq, onward = scenario.conversation.next_seq, {"from_": Phase.EXECUTE, "to": Phase.VERIFICATION}
    moved = dataclasses.replace(entered, seq=seq, at=scenario.now, **onward)
    scenario.conversation.apply(moved)
    scenario.journal.append((moved,))
    finish(scenario, first.key)
    assert [ok for _, ok, _ in results(scenario)] == [True, False]
    assert "in the verification phase" in results(scenario)[1][2]
    assert [record.call for record in scenario.records(r.ToolCallStarted)] == ["k0"]


def test_reads_start_together_and_changes_one_by_one_in_order() -> None:
    """What a model asks for first shows the files before a change, and what it asks for after it, after the change."""
    reads = [("read_file", {"path": "a"}), ("read_file", {"path": "b"})]
    calls = [*reads, ("write_file", {"path": "b"}), *reads, ("check", {})]
    scenario = at_work(reply("", *calls), reply("done"))
    scenario.step()
    for together in (["k0", "k1"], ["k2"], ["k3", "k4"], ["k5"]):
        under_way = in_flight(scenario)
        assert [effect.request.id for effect in under_way if isinstance(effect, ToolCall)] == together
        for effect in reversed(under_way):
            finish(scenario, effect.key)


def test_an_answer_that_comes_during_a_change_starts_no_read_after_it() -> None:
    """The read would miss the change."""
    calls = (("ask", {"question": "Which?"}), ("write_file", {"path": "a"}), ("read_file", {"path": "a"}))
    scenario = at_work(reply("", *calls), reply("done"))
    scenario.step()
    (write,) = in_flight(scenario)
    scenario.user_writes("that one", reply_to=next(iter(scenario.conversation.work.asks)))
    assert len(scenario.records(r.QuestionAnswered)) == 1
    assert [call.key for call in in_flight(scenario)] == [write.key]
    finish(scenario, write.key)
    (read,) = in_flight(scenario)
    assert isinstance(read, ToolCall)
    assert read.request.id == "k2"


def test_complete_beside_other_calls_ends_the_run_after_them() -> None:
    scenario = at_work(reply("", ("complete", {"response": "done"}), ("write_file", {"path": "a"}), ("read_file", {})))
    scenario.step()
    assert ended(scenario) == []
    while in_flight(scenario) and isinstance(in_flight(scenario)[0], ToolCall):
        assert ended(scenario) == []
        finish(scenario, in_flight(scenario)[0].key)
    assert (ended(scenario)[0].text, ended(scenario)[0].outcome) == ("done", "finished")
    assert scenario.conversation.cycle.touched == {"a"}


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (reply("said"), "said"),
        (reply("said", ("complete", {})), "said"),
        (reply("said", ("complete", {"response": "written"})), "written"),
        (reply("", ("complete", {"summary": "short"})), "short"),
        (reply("said", ("complete", {"issues": "and this"})), "said\n\nand this"),
    ],
)
def test_b10_b20_what_a_user_reads_is_in_the_completion_wherever_the_model_put_it(step: ModelStep, text: str) -> None:
    """Completions made up by the program were seen by no one, and the clock of a run went on after it."""
    scenario = at_work(step).settle()
    assert scenario.conversation.memory.last_turn is not None
    assert [done.text for done in scenario.conversation.memory.last_turn.completions] == [text]
    sent = [sent.text for sent in scenario.records(r.MessageSent) if sent.purpose == "completion"]
    assert sent[-1] == f"{text}\n\nNo file was changed and nothing was run.", "with what the daemon has seen"
    assert not timers(scenario).keys() & {"warn", "close"}
    check_idle(scenario)


def test_results_are_shown_in_the_order_of_the_calls_and_then_what_users_wrote() -> None:
    scenario = at_work(reply("", ("read_file", {}), ("teleport", {}), ("write_file", {"path": "a"})), reply("done"))
    scenario.step()
    scenario.user_writes("make it green")
    for _ in ("the read", "the change"):
        (effect,) = in_flight(scenario)
        finish(scenario, effect.key)
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    assert [entry.id for entry in call.entries[-4:-1] if isinstance(entry, CallResult)] == ["k0", "k1", "k2"]
    assert call.entries[-1] == UserText(author="alice", text="make it green", role="owner", key="a" * 64)


DONE = ("complete", {"response": "All tests pass.", "verdict": "verified"})


def test_a_pasted_log_is_cut_for_an_agent_at_work_as_for_one_that_begins() -> None:
    """Words of users are never left out of a request, so a long one must not be whole in it."""
    scenario = at_work(
        reply("", ("ask", {"question": "Which?"})), reply("", ("ask", {"question": "And?"})), reply("done")
    )
    scenario.step()
    log = "x" * 200_000
    scenario.user_writes("a log: " + log, addressed=("planner",))
    scenario.user_writes("answer: " + log, reply_to=next(iter(scenario.conversation.work.asks)))
    call = next(effect for effect in scenario.running.values() if isinstance(effect, ModelCall))
    words = [entry.text for entry in call.entries if isinstance(entry, UserText)]
    answers = [entry.content for entry in call.entries if isinstance(entry, CallResult)]
    assert [text[:5] for text in words[-1:]] == ["a log"]
    assert [text[:6] for text in answers] == ["answer"]
    assert all(len(text) < MESSAGE_CHARACTERS + 100 for text in (*words, *answers))


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"question": "  "}, ""),
        ({"question": 7}, ""),
        ({"q": "x"}, ""),
        ({"question": "Which?", "options": "yes or no"}, "Which?"),
        (
            {"question": "Which?", "options": ["red", 2]},
            "Which?\n1️⃣ red\n2️⃣ 2\nReply or react with a number, or reply in words.",
        ),
    ],
)
def test_a_question_needs_words_and_its_options_are_listed_if_they_are_a_list(
    arguments: dict[str, Any], sent: str
) -> None:
    scenario = at_work(reply("", ("ask", arguments)), reply("done")).settle()
    if sent:
        assert scenario.sent_texts()[-1] == sent
    else:
        assert "`ask` needs `question`" in results(scenario)[0][2]
        assert ended(scenario)[0].outcome == "finished"
    assert bool(scenario.records(r.QuestionAsked)) is bool(sent)


def test_a_report_written_before_a_call_of_the_same_answer_failed_does_not_count_but_at_the_limit_of_steps() -> None:
    for limits in (None, Limits(steps_per_run=1)):
        again = reply("", DONE, ("complete", {"response": "No.", "verdict": "issues"}))
        scenario = at_work(reply("", ("write_file", {"path": "a"}), DONE), again, limits=limits)
        scenario.step()
        (call,) = in_flight(scenario)
        scenario.running.pop(call.key)
        scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=False, content="exit status 1")))
        assert bool(ended(scenario)) is (limits is not None)
        scenario.settle()
        assert [(done.outcome, done.text) for done in ended(scenario)] == [("finished", "All tests pass.")]
        assert [record.sentence for record in scenario.records(r.ToolCallRejected)] == (
            []
            if limits
            else [
                "write_file in the same answer did not succeed. Look at its result first, then call `complete`.",
                "The first `complete` of an answer counts.",
            ]
        )
