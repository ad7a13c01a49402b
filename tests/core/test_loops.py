"""Agents that repeat themselves are stopped and the user learns why; those that make progress go on."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import Effect, ToolCall
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.workflows.speakers import Always, StayTarget, Transition, TransitionGraph
from tests.fakes.scenario import WAITS, Router, Scenario, check_idle, model_by_phase, reply, route, scenario_at
from tests.fakes.workflows import started

READS = reply("", ("read_file", {"path": "a"}))
READS_B = reply("", ("read_file", {"path": "b"}))
REFUSED = reply("", ("deploy", {"to": "production"}))
DONE = reply("done")


def worked(*steps: Any, scenario: type[Scenario] = Scenario) -> Scenario:
    """A scenario in which the executor has answered with these steps in execute, until all came to rest."""
    held = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=list(steps)))
    held.__class__ = scenario
    held.settle()
    check_idle(held)
    assert held.refold() == held.conversation
    return held


def ended(scenario: Scenario) -> r.RunEnded:
    """How the executor's part in execute ended."""
    found: r.RunEnded = next(record for record in scenario.records(r.RunEnded) if record.run == "turn-2.executor")
    return found


def steps(scenario: Scenario) -> int:
    """Model steps of the executor's run in execute."""
    return sum(record.run == "turn-2.executor" for record in scenario.records(r.ModelResponded))


# ---- the same call ------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_three_times_ends_the_run() -> None:
    scenario = worked(READS)
    assert (ended(scenario).outcome, steps(scenario)) == ("failed", 3)
    assert scenario.sent_texts()[-1] == (
        "I could not finish: it called read_file 3 times with the same arguments and got the same result each time: "
        "read_file done"
    )


def test_the_same_refused_call_three_times_ends_the_run() -> None:
    scenario = worked(REFUSED)
    assert (ended(scenario).outcome, steps(scenario)) == ("failed", 3)
    assert "There is no tool deploy." in ended(scenario).error


def test_two_calls_in_turns_are_a_loop_too() -> None:
    assert steps(worked(READS, READS_B, READS, READS_B, READS, READS_B, DONE)) == 5


def test_a_refused_call_with_others_in_between_is_a_loop() -> None:
    others = [reply("", ("read_file", {"path": str(n)})) for n in range(3)]
    scenario = worked(REFUSED, others[0], REFUSED, others[1], REFUSED, others[2], DONE)
    assert (ended(scenario).outcome, steps(scenario)) == ("failed", 5)


def test_the_same_file_written_the_same_way_three_times_is_a_loop() -> None:
    scenario = worked(reply("", ("write_file", {"path": "a"})))
    assert (ended(scenario).outcome, steps(scenario)) == ("failed", 3)


def test_a_test_that_still_fails_after_each_new_edit_is_no_loop() -> None:
    edits = [reply("", ("write_file", {"path": "a", "content": str(n)})) for n in range(5)]
    tests = reply("", ("check", {}))
    scenario = worked(*(step for edit in edits for step in (edit, tests)), DONE)
    assert ended(scenario).outcome == "finished"


def test_an_edit_and_its_test_in_one_answer_are_no_loop() -> None:
    rounds = [reply("", ("write_file", {"content": str(n)}), ("check", {})) for n in range(5)]
    assert ended(worked(*rounds, DONE)).outcome == "finished"


def test_the_same_call_many_times_in_one_answer_is_no_loop() -> None:
    calls = [("read_file", {"path": "a"})] * 5
    assert ended(worked(reply("", *calls), DONE)).outcome == "finished"


class _Changing(Scenario):
    """A scenario whose tools give another result each time."""

    def perform(self, effect: Effect) -> Signal:
        if isinstance(effect, ToolCall):
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content=f"seen at {effect.key.seq}"))
        return super().perform(effect)


def test_a_call_whose_result_changes_is_no_loop() -> None:
    assert ended(worked(READS, READS, READS, READS, READS, DONE, scenario=_Changing)).outcome == "finished"


def test_the_same_question_answered_the_same_way_by_a_user_is_no_loop() -> None:
    asks = reply("", ("ask", {"question": "Rock, paper or scissors?"}))
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[asks, asks, asks, asks, DONE])
    )
    for _ in range(4):
        scenario.settle()
        scenario.user_writes("rock")
    scenario.settle()
    assert ended(scenario).outcome == "finished"


def test_a_loop_is_found_across_a_restart() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[READS]))
    while steps(scenario) < 2:
        scenario.step()
    scenario.crash()
    scenario.settle()
    assert (ended(scenario).outcome, steps(scenario)) == ("failed", 3)


# ---- the same failure ---------------------------------------------------------------------------------------------


def failing(*results: str) -> Scenario:
    """A scenario whose router always names the executor, and whose executor loops on calls with such results."""

    class _Failing(Scenario):
        def perform(self, effect: Effect) -> Signal:
            if isinstance(effect, ToolCall):
                turns = sum(record.phase is Phase.EXECUTE for record in self.records(r.TurnOpened))
                content = results[(turns - 1) % len(results)]
                return ToolReturned(key=effect.key, result=ToolResult(ok=False, content=content))
            return super().perform(effect)

    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor")), model_by_phase(execute=[READS]))
    scenario.__class__ = _Failing
    return scenario


def failures(scenario: Scenario) -> int:
    """Runs that failed."""
    return sum(record.outcome == "failed" for record in scenario.records(r.RunEnded))


def test_the_same_failure_twice_stops_and_states_what_to_do() -> None:
    scenario = failing("no such file")
    scenario.settle()
    assert failures(scenario) == 2
    assert [record.limit for record in scenario.records(r.LimitReached)] == ["same_failure"]
    assert scenario.conversation.waiting_for == "limit"
    assert scenario.sent_texts()[-1] == (
        "Executor failed 2 times for the same reason, so I have stopped: it called read_file 3 times with the same "
        "arguments and got the same result each time: no such file. Remove the cause, or ask for it in another way. "
        "Write `/continue` to go on."
    )
    check_idle(scenario)


def test_numbers_and_ids_in_a_failure_do_not_make_it_another() -> None:
    scenario = failing("error 500 in request req_1a2", "error 502 in request req_9f3")
    scenario.settle()
    assert failures(scenario) == 2


def test_different_failures_are_not_the_same() -> None:
    scenario = failing("no such file", "permission denied", "disk full")
    scenario.settle()
    assert failures(scenario) == 4, "the first comes again with the fourth"


@pytest.mark.parametrize("text", ["/continue", "try the other folder"])
def test_a_user_who_goes_on_gives_it_two_more_tries(text: str) -> None:
    scenario = failing("no such file")
    scenario.settle()
    scenario.converse(text)
    assert failures(scenario) == 4
    assert len(scenario.records(r.LimitReached)) == 2


def test_a_workflow_stops_at_the_same_failure_too() -> None:
    scenario = started(TransitionGraph("writer", [Transition(Always(), StayTarget())], max_turns=20))
    scenario.worker = lambda _conversation, _call: READS
    scenario.settle()
    assert failures(scenario) == 2
    assert scenario.conversation.waiting_for == "limit"
