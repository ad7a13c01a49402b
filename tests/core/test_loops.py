"""Agents that repeat themselves are stopped, and the person is told what happened; those that make progress are not."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import Effect, ToolCall
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.workflows.speakers import Always, StayTarget, Transition, TransitionGraph
from tests.fakes.play import Play, says
from tests.fakes.workflows import begun

from .kit import WAITS, Script, check_rest, go, mind, standing

READS = says("", ("read_file", {"path": "a"}))
READS_B = says("", ("read_file", {"path": "b"}))
REFUSED = says("", ("deploy", {"to": "production"}))
DONE = says("done")


def worked(*steps: Any, play: type[Play] = Play) -> Play:
    """A play in which the executor has answered with these steps in execute, until all came to rest."""
    held = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=list(steps)))
    held.__class__ = play
    held.settle()
    check_rest(held)
    assert held.refold() == held.conversation
    return held


def ended(play: Play) -> r.RunEnded:
    """How the executor's part in execute ended."""
    found: r.RunEnded = next(record for record in play.all(r.RunEnded) if record.run == "turn-2.executor")
    return found


def steps(play: Play) -> int:
    """Model steps of the executor's run in execute."""
    return sum(record.run == "turn-2.executor" for record in play.all(r.ModelResponded))


# ---- the same call ------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_three_times_ends_the_run() -> None:
    play = worked(READS)
    assert (ended(play).outcome, steps(play)) == ("failed", 3)
    assert play.said()[-1] == (
        "I could not finish: it called read_file 3 times with the same arguments and got the same result each time: "
        "read_file done"
    )


def test_the_same_refused_call_three_times_ends_the_run() -> None:
    play = worked(REFUSED)
    assert (ended(play).outcome, steps(play)) == ("failed", 3)
    assert "There is no tool deploy." in ended(play).error


def test_two_calls_in_turns_are_a_loop_too() -> None:
    assert steps(worked(READS, READS_B, READS, READS_B, READS, READS_B, DONE)) == 5


def test_a_refused_call_with_others_in_between_is_a_loop() -> None:
    others = [says("", ("read_file", {"path": str(n)})) for n in range(3)]
    play = worked(REFUSED, others[0], REFUSED, others[1], REFUSED, others[2], DONE)
    assert (ended(play).outcome, steps(play)) == ("failed", 5)


def test_the_same_file_written_the_same_way_three_times_is_a_loop() -> None:
    play = worked(says("", ("write_file", {"path": "a"})))
    assert (ended(play).outcome, steps(play)) == ("failed", 3)


def test_a_test_that_still_fails_after_each_new_edit_is_no_loop() -> None:
    edits = [says("", ("write_file", {"path": "a", "content": str(n)})) for n in range(5)]
    tests = says("", ("check", {}))
    play = worked(*(step for edit in edits for step in (edit, tests)), DONE)
    assert ended(play).outcome == "finished"


def test_an_edit_and_its_test_in_one_answer_are_no_loop() -> None:
    rounds = [says("", ("write_file", {"content": str(n)}), ("check", {})) for n in range(5)]
    assert ended(worked(*rounds, DONE)).outcome == "finished"


def test_the_same_call_many_times_in_one_answer_is_no_loop() -> None:
    calls = [("read_file", {"path": "a"})] * 5
    assert ended(worked(says("", *calls), DONE)).outcome == "finished"


class _Changing(Play):
    """A play whose tools give another result each time."""

    def perform(self, effect: Effect) -> Signal:
        if isinstance(effect, ToolCall):
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content=f"seen at {effect.key.seq}"))
        return super().perform(effect)


def test_a_call_whose_result_changes_is_no_loop() -> None:
    assert ended(worked(READS, READS, READS, READS, READS, DONE, play=_Changing)).outcome == "finished"


def test_the_same_question_answered_the_same_way_by_a_person_is_no_loop() -> None:
    asks = says("", ("ask", {"question": "Rock, paper or scissors?"}))
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=[asks, asks, asks, asks, DONE]))
    for _ in range(4):
        play.settle()
        play.person("rock")
    play.settle()
    assert ended(play).outcome == "finished"


def test_a_loop_is_found_across_a_restart() -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=[READS]))
    while steps(play) < 2:
        play.step()
    play.crash()
    play.settle()
    assert (ended(play).outcome, steps(play)) == ("failed", 3)


# ---- the same failure ---------------------------------------------------------------------------------------------


def failing(*results: str) -> Play:
    """A play whose router names the executor whatever happens, and whose executor loops on calls with such results."""

    class _Failing(Play):
        def perform(self, effect: Effect) -> Signal:
            if isinstance(effect, ToolCall):
                turns = sum(record.phase is Phase.EXECUTE for record in self.all(r.TurnOpened))
                content = results[(turns - 1) % len(results)]
                return ToolReturned(key=effect.key, result=ToolResult(ok=False, content=content))
            return super().perform(effect)

    play = standing(Phase.CHAT, Script(go("execute", "executor")), mind(execute=[READS]))
    play.__class__ = _Failing
    return play


def failures(play: Play) -> int:
    """Runs that failed."""
    return sum(record.outcome == "failed" for record in play.all(r.RunEnded))


def test_the_same_failure_twice_stops_and_says_what_to_do() -> None:
    play = failing("no such file")
    play.settle()
    assert failures(play) == 2
    assert [record.limit for record in play.all(r.LimitReached)] == ["same_failure"]
    assert play.conversation.waiting_for == "limit"
    assert play.said()[-1] == (
        "Executor failed 2 times for the same reason, so I have stopped: it called read_file 3 times with the same "
        "arguments and got the same result each time: no such file. Remove the cause, or ask for it in another way. "
        "Write `/continue` to go on."
    )
    check_rest(play)


def test_numbers_and_ids_in_a_failure_do_not_make_it_another() -> None:
    play = failing("error 500 in request req_1a2", "error 502 in request req_9f3")
    play.settle()
    assert failures(play) == 2


def test_different_failures_are_not_the_same() -> None:
    play = failing("no such file", "permission denied", "disk full")
    play.settle()
    assert failures(play) == 4, "the first comes again with the fourth"


@pytest.mark.parametrize("text", ["/continue", "try the other folder"])
def test_a_person_who_goes_on_gives_it_two_more_tries(text: str) -> None:
    play = failing("no such file")
    play.settle()
    play.person(text)
    play.settle()
    assert failures(play) == 4
    assert len(play.all(r.LimitReached)) == 2


def test_a_workflow_stops_at_the_same_failure_too() -> None:
    play = begun(TransitionGraph("writer", [Transition(Always(), StayTarget())], max_turns=20))
    play.worker = lambda _conversation, _call: READS
    play.settle()
    assert failures(play) == 2
    assert play.conversation.waiting_for == "limit"
