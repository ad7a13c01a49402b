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
WRITES = reply("", ("write_file", {"path": "a"}))
CHECKS = reply("", ("check", {}))
DONE = reply("done")


class WithResults(Scenario):
    """A scenario whose tools give these results: one for each turn in execute, or a new one for each call."""

    results: tuple[str, ...] = ()

    def perform(self, effect: Effect) -> Signal:
        if not isinstance(effect, ToolCall):
            return super().perform(effect)
        if not self.results:
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content=f"seen at {effect.key.seq}"))
        turns = sum(record.phase is Phase.EXECUTE for record in self.records(r.TurnOpened))
        content = self.results[(turns - 1) % len(self.results)]
        return ToolReturned(key=effect.key, result=ToolResult(ok=False, content=content))


def worked(*steps: Any, scenario: type[Scenario] = Scenario) -> Scenario:
    """A scenario in which the executor has answered with these steps in execute, until all came to rest."""
    held = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=list(steps)))
    held.__class__ = scenario
    held.settle()
    check_idle(held)
    return held


def outcome(scenario: Scenario) -> tuple[str, int]:
    """How the executor's part in execute ended, and after how many steps of its model."""
    ended = next(record for record in scenario.records(r.RunEnded) if record.run == "turn-2.executor")
    return ended.outcome, sum(record.run == ended.run for record in scenario.records(r.ModelResponded))


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        ([READS], 3),
        ([REFUSED], 3),
        ([WRITES], 3),
        ([READS, READS_B] * 3, 5),
        ([REFUSED, READS, REFUSED, READS_B, REFUSED, CHECKS], 5),
    ],
)
def test_the_third_call_with_the_same_result_ends_the_run(steps: list[Any], after: int) -> None:
    assert outcome(worked(*steps, DONE) if len(steps) > 1 else worked(*steps)) == ("failed", after)


EDITS = [("write_file", {"path": "a", "content": str(number)}) for number in range(5)]


@pytest.mark.parametrize(
    "steps",
    [
        [step for edit in EDITS for step in (reply("", edit), CHECKS)],
        [reply("", edit, ("check", {})) for edit in EDITS],
        [reply("", *[("read_file", {"path": "a"})] * 5)],
    ],
    ids=["a test that still fails after each edit", "an edit and its test in one answer", "one answer"],
)
def test_what_follows_a_change_or_is_in_one_answer_is_no_loop(steps: list[Any]) -> None:
    assert outcome(worked(*steps, DONE))[0] == "finished"


def test_a_call_whose_result_changes_is_no_loop() -> None:
    assert outcome(worked(*[READS] * 5, DONE, scenario=WithResults))[0] == "finished"


def test_the_same_question_answered_the_same_way_by_a_user_is_no_loop() -> None:
    asks = reply("", ("ask", {"question": "Rock, paper or scissors?"}))
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[*[asks] * 4, DONE])
    )
    for _ in range(4):
        scenario.settle()
        scenario.user_writes("rock")
    assert outcome(scenario.settle())[0] == "finished"


def failing(*results: str) -> Scenario:
    """A scenario whose router always names the executor, and whose executor loops on calls with such results."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor")), model_by_phase(execute=[READS]))
    scenario.__class__ = type("Failing", (WithResults,), {"results": results})
    return scenario.settle()


def failures(scenario: Scenario) -> int:
    """Runs that failed."""
    return sum(record.outcome == "failed" for record in scenario.records(r.RunEnded))


def test_the_same_failure_twice_stops_and_a_user_who_goes_on_gives_it_two_more_tries() -> None:
    scenario = failing("no such file")
    assert failures(scenario) == 2
    assert [record.limit for record in scenario.records(r.LimitReached)] == ["same_failure"]
    assert scenario.conversation.waiting_for == "limit"
    assert scenario.sent_texts()[-1] == (
        "Executor failed 2 times for the same reason, so I have stopped: it called read_file 3 times with the same "
        "arguments and got the same result each time: no such file. Remove the cause, or ask for it in another way. "
        "Write `/continue` to go on."
    )
    check_idle(scenario)
    assert failures(scenario.converse("/continue")) == 4
    assert failures(scenario.converse("try the other folder")) == 6


@pytest.mark.parametrize(
    ("results", "failed"),
    [
        (("error 500 in request req_1a2", "error 502 in request req_9f3"), 2),
        (("no such file", "permission denied", "disk full"), 4),  # the first comes again with the fourth
    ],
)
def test_numbers_and_ids_do_not_make_another_failure_and_other_words_do(results: tuple[str, ...], failed: int) -> None:
    assert failures(failing(*results)) == failed


def test_a_workflow_stops_at_the_same_failure_too() -> None:
    scenario = started(TransitionGraph("writer", [Transition(Always(), StayTarget())], max_turns=20))
    scenario.worker = lambda _conversation, _call: READS
    scenario.settle()
    assert failures(scenario) == 2
    assert scenario.conversation.waiting_for == "limit"
