"""An agent at work: whatever its model answers, its part in the turn is counted once and comes to an end."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Expectation, Limits
from tenex.core.decide.dispatch import decide
from tenex.core.decide.runs import NUDGES
from tenex.core.effects import Key, ModelCall, Timer, ToolCall, Work
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Note
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import ModelAnswered, ModelFailed, Signal, ToolReturned
from tests.fakes.play import Play, rules, says

from .kit import WAITS, Script, check_rest, go, mind, standing, until, work


def at_work(
    *steps: Any, phase: str = "execute", agents: tuple[str, ...] = ("executor",), limits: Limits | None = None
) -> Play:
    """A play in which a turn in execute has just been opened, with these answers of the agents' models to come."""
    play = standing(
        Phase.CHAT, Script(go(phase, *agents), WAITS), mind(**{phase: list(steps)}), config=rules(limits=limits)
    )
    until(play, lambda it: it.conversation.turn is not None)
    return play


def ended(play: Play) -> list[r.RunEnded]:
    """Every completion of the turn in execute."""
    return [record for record in play.all(r.RunEnded) if record.run.startswith("turn-2.")]


def results(play: Play) -> list[tuple[str, bool, str]]:
    """What the calls gave back, refusals included, in order."""
    found: list[tuple[str, bool, str]] = []
    for decision in play.journal:
        for record in decision:
            if isinstance(record, r.ToolCallCompleted):
                found.append((record.call, record.ok, record.content))
            elif isinstance(record, r.ToolCallRejected):
                found.append((record.call, False, record.sentence))
    return found


def finish(play: Play, key: Key) -> list[r.Record]:
    """Do the work of that key."""
    effect = play.running.pop(key)
    return play.hear(play.perform(effect))


# ---- counted once -------------------------------------------------------------------------------------------------


def test_an_answer_that_arrives_twice_counts_once() -> None:
    play = at_work(says("done"))
    (call,) = work(play)
    signal = ModelAnswered(key=call.key, step=says("done"))
    assert play.hear(signal)
    assert play.hear(signal) == []
    assert len(ended(play)) == 1


def test_a_result_that_arrives_after_a_stop_counts_for_nothing() -> None:
    play = at_work(says("", ("write_file", {"path": "a"})), says("done"))
    play.step()
    (call,) = work(play)
    assert isinstance(call, ToolCall)
    play.person("/stop")
    late = ToolReturned(key=call.key, result=ToolResult(ok=True, content="written", touched=("a",)))
    assert play.hear(late) == []
    assert play.conversation.touched == frozenset()
    assert [done.outcome for done in ended(play)] == ["stopped"]


def test_a_result_that_arrives_after_the_deadline_counts_for_nothing() -> None:
    play = at_work(says("", ("write_file", {"path": "a"})), says("done"))
    play.step()
    (call,) = work(play)
    play.fire("close")
    assert play.hear(ToolReturned(key=call.key, result=ToolResult(ok=True, content="written", touched=("a",)))) == []
    assert [done.outcome for done in ended(play)] == ["timed_out"]


def test_each_agent_of_a_turn_is_counted_once_in_whatever_order_they_end() -> None:
    for seed in range(10):
        play = at_work(says("done"), agents=("executor", "helper", "planner"))
        play.settle(seed)
        turn = play.conversation.turns[-1]
        assert sorted(done.agent for done in turn.completions) == ["executor", "helper", "planner"]
        assert turn.is_completed
        assert all(turn.has_finished(agent) for agent in turn.agents)


def test_a_turn_stays_open_until_its_last_agent_is_done() -> None:
    play = at_work(says("done"), agents=("executor", "helper"))
    finish(play, work(play)[0].key)
    assert play.conversation.turn is not None
    assert not play.conversation.turn.is_completed
    assert not any(effect.key.work is Work.ROUTE for effect in work(play))
    finish(play, work(play)[0].key)
    assert play.conversation.turn is None


def test_one_agent_that_fails_does_not_take_the_others_down() -> None:
    broken = ModelFailed(key=Key(Work.MODEL, 0), message="no such model", retryable=False)

    def half(conversation: Any, call: ModelCall) -> Any:
        return broken if "helper" in call.run else says("done")

    play = standing(Phase.CHAT, Script(go("execute", "executor", "helper"), WAITS), mind(execute=half))
    play.settle()
    assert {done.run.split(".")[1]: done.outcome for done in ended(play)} == {
        "executor": "finished",
        "helper": "failed",
    }
    assert any("I could not finish: no such model" in text for text in play.said())
    assert "helper failed: no such model" in play.conversation.turns[-1].summary


# ---- deadlines ----------------------------------------------------------------------------------------------------

FAST = Limits(default_expectation=Expectation(warn_after=60_000, close_after=120_000))


def timers(play: Play) -> dict[str, int]:
    """What is due, by kind."""
    return {effect.key.part: effect.due for effect in pending(play.conversation).values() if hasattr(effect, "due")}


def test_a_slow_agent_is_mentioned_once_and_then_given_up() -> None:
    play = at_work(says("", ("write_file", {"path": "a"})), limits=FAST)
    opened = play.all(r.TurnOpened)[-1].at
    assert timers(play)["warn"] == opened + 60_000
    assert next(iter(play.conversation.runs.values())).close_at == opened + 120_000
    play.fire("warn")
    assert [record.run for record in play.all(r.RunWarned)] == ["turn-2.executor"]
    assert "Executor is still working; I give it 1 more min." in play.said()[-1]
    assert "warn" not in timers(play), "once"
    until(play, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    play.fire("close")
    assert "I could not finish: no answer within 2 min" in play.said()[-1]
    assert not any(isinstance(effect, ModelCall) for effect in work(play)), "what ran is no longer wanted"
    play.settle()
    check_rest(play)


def answers(play: Play, step: ModelStep, *, at: int) -> None:
    """The model that is asked answers at that time."""
    (call,) = (effect for effect in play.running.values() if isinstance(effect, ModelCall))
    play.running.pop(call.key)
    play.now = Millis(at)
    play.hear(ModelAnswered(key=call.key, step=step))
    play.reconcile()


def test_a_model_call_has_a_bound_of_its_own_and_its_answer_counts_after_the_deadline() -> None:
    """It is paid for, and the person waits for it."""
    play = at_work(says("never"), limits=FAST)
    close_at = next(iter(play.conversation.runs.values())).close_at
    assert "close" not in timers(play)
    answers(play, says("It is built."), at=close_at + 5_000)
    assert [done.outcome for done in ended(play)] == ["finished"]


def test_after_the_deadline_no_tool_is_begun() -> None:
    play = at_work(says("never"), limits=FAST)
    close_at = next(iter(play.conversation.runs.values())).close_at
    answers(play, says("", ("write_file", {"path": "a"}), ("read_file", {"path": "b"})), at=close_at + 5_000)
    assert [done.outcome for done in ended(play)] == ["timed_out"]
    assert {content for _, _, content in results(play)[-2:]} == {"not run: the time is up"}
    assert not [permitted for permitted in play.all(r.ToolCallStarted) if permitted.run == ended(play)[-1].run]
    assert "I could not finish: no answer within 2 min" in play.said()[-1]


def test_time_in_the_queue_of_a_busy_provider_counts_against_no_deadline() -> None:
    """Twenty conversations wait for a slow provider: an hour in the queue is nobody's work."""
    play = at_work(says("never"), limits=FAST)
    hour = 3_600_000
    began = next(iter(play.conversation.runs.values()))
    queued = dataclasses.replace(says("", ("write_file", {"path": "a"})), queued=hour)
    answers(play, queued, at=began.close_at - 60_000 + hour)
    run = next(iter(play.conversation.runs.values()))
    assert (run.warn_at, run.close_at) == (began.warn_at + hour, began.close_at + hour)
    assert timers(play)["close"] == run.close_at
    assert timers(play)["warn"] == run.warn_at
    running = [effect.due for effect in play.running.values() if isinstance(effect, Timer)]
    assert run.warn_at in running, "the timer that ran before was replaced"
    assert play.refold() == play.conversation


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failed_call_gives_the_time_in_its_queue_back_too(retryable: bool) -> None:
    play = at_work(says("never"), limits=FAST)
    began = next(iter(play.conversation.runs.values()))
    (call,) = (effect for effect in play.running.values() if isinstance(effect, ModelCall))
    play.running.pop(call.key)
    play.hear(ModelFailed(key=call.key, message="no", retryable=retryable, queued=90_000))
    play.reconcile()
    assert next(iter(play.conversation.runs.values())).close_at == began.close_at + 90_000
    due = [e.due for e in play.running.values() if isinstance(e, Timer) and e.key.part == "warn"]
    assert due == ([] if retryable else [began.warn_at + 90_000])


def test_a_deadline_that_fires_during_a_call_closes_the_call() -> None:
    play = at_work(says("", ("write_file", {"path": "a"}), ("send", {"path": "b"})), limits=FAST)
    play.step()
    play.fire("close")
    assert results(play)[-2:] == [("k0", False, "stopped; outcome unknown"), ("k1", False, "stopped; outcome unknown")]
    assert not any(isinstance(effect, ToolCall) for effect in work(play))


def test_time_spent_parked_does_not_count() -> None:
    play = at_work(says("", ("ask", {"question": "Which?"})), says("done"), limits=FAST)
    began = play.all(r.RunStarted)[-1]
    play.step()
    parked = play.all(r.QuestionAsked)[0].at
    assert not set(timers(play)) & {"warn", "close"}, "no deadline runs while it waits for the person"
    play.now = Millis(play.now + 7 * 3_600_000)
    play.person("that one")
    answered = play.all(r.QuestionAnswered)[0]
    assert answered.warn_at == began.warn_at + (answered.at - parked)
    assert answered.close_at == began.close_at + (answered.at - parked) > play.now
    play.settle()
    assert ended(play)[0].outcome == "finished"


def test_time_parked_on_a_second_question_does_not_count_either() -> None:
    play = at_work(says("", ("ask", {"question": "Which?"}), ("ask", {"question": "When?"})), says("done"), limits=FAST)
    play.step()
    first, second = play.all(r.MessageSent)[-2:]
    play.now = Millis(play.now + 3_600_000)
    play.person("that one", reply_to=first.events[0].id)
    assert play.conversation.is_parked
    play.now = Millis(play.now + 3_600_000)
    play.person("now", reply_to=second.events[0].id)
    assert timers(play)["warn"] > play.now + 30_000, "an hour of waiting is no hour of work"


# ---- steps, nudges ------------------------------------------------------------------------------------------------


def test_an_agent_that_never_stops_calling_meets_the_limit_of_steps() -> None:
    play = at_work(*(says("", ("read_file", {"path": str(n)})) for n in range(7)), limits=Limits(steps_per_run=7))
    play.settle()
    done = ended(play)[0]
    assert (done.outcome, done.error) == ("failed", "it took 7 steps, which is the limit")
    assert len([rec for rec in play.all(r.ModelResponded) if rec.run == done.run]) == 7
    assert results(play)[-1][2] == "not run: the limit of steps is reached"
    check_rest(play)


@pytest.mark.parametrize("bad", [{"response": 7}, {"summary": []}, {"response": "x", "issues": {}}])
def test_an_agent_that_never_completes_rightly_meets_the_limit_of_steps(bad: dict[str, Any]) -> None:
    play = at_work(says("", ("complete", bad)), limits=Limits(steps_per_run=5))
    play.settle(most=200)
    assert ended(play)[0].outcome == "failed"
    check_rest(play)


def test_a_good_completion_at_the_limit_still_counts() -> None:
    play = at_work(
        says("", ("read_file", {})), says("", ("complete", {"response": "done"})), limits=Limits(steps_per_run=2)
    )
    play.settle()
    assert ended(play)[0].outcome == "finished"


@pytest.mark.parametrize("empty", ["", "   ", "\n\t"])
def test_an_empty_answer_is_reminded_twice_and_then_fails(empty: str) -> None:
    play = at_work(says(empty))
    play.settle()
    assert [record.text for record in play.all(r.ModelReprompted)] == [
        "Your answer is empty. Say what the person should read."
    ] * NUDGES
    assert (ended(play)[0].outcome, ended(play)[0].error) == ("failed", "its model gave empty answers")
    check_rest(play)


def test_a_reminded_model_sees_the_reminder_and_may_mend_it() -> None:
    seen: list[Any] = []

    def mended(conversation: Any, call: ModelCall) -> ModelStep:
        seen.append(call.entries[-1])
        return says("" if len(seen) == 1 else "here it is")

    play = at_work()
    play.worker = mind(execute=mended)
    play.settle()
    assert isinstance(seen[1], Note)
    assert "empty" in seen[1].text
    assert ended(play)[0].text == "here it is"


def test_a_verification_without_a_verdict_is_reminded_and_at_last_taken_as_it_is() -> None:
    play = standing(Phase.EXECUTE, Script(go("verification", "executor"), WAITS), mind(verification=[says("fine")]))
    play.settle()
    assert len(play.all(r.ModelReprompted)) == NUDGES
    last = play.all(r.RunEnded)[-1]
    assert (last.outcome, last.text, last.verdict) == ("finished", "fine", "")


@pytest.mark.parametrize("word", [None, "", "VERIFIED", "maybe", 7, ["verified"], {"is": "verified"}])
def test_a_verdict_that_is_none_is_refused(word: Any) -> None:
    steps = [
        says("", ("complete", {"response": "x", "verdict": word})),
        says("", ("complete", {"response": "x", "verdict": "verified"})),
    ]
    play = standing(Phase.EXECUTE, Script(go("verification", "executor"), WAITS), mind(verification=steps))
    play.settle()
    assert "needs `verdict`" in play.all(r.ToolCallRejected)[0].sentence
    assert play.all(r.RunEnded)[-1].verdict == "verified"


# ---- keys --------------------------------------------------------------------------------------------------------


def test_keys_that_were_never_wanted_say_nothing() -> None:
    play = at_work(says("done"))
    result = ToolResult(ok=True, content="")
    strange: list[Signal] = [
        ToolReturned(key=Key(Work.TOOL, 0), result=result),
        ToolReturned(key=Key(Work.TOOL, work(play)[0].key.seq), result=result),
        ToolReturned(key=work(play)[0].key, result=result),
        ModelAnswered(key=Key(Work.MODEL, 10**9), step=says("x")),
        ModelAnswered(key=Key(Work.MODEL, work(play)[0].key.seq, "part"), step=says("x")),
        ModelFailed(key=Key(Work.ROUTE, 1), message="x", retryable=True),
        ModelFailed(key=Key(Work.TIMER, 1), message="x", retryable=False),
    ]
    assert all(decide(play.conversation, signal, play.rules, play.now) == [] for signal in strange)
