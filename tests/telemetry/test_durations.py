"""How long things took: what each stage is paired with, what a restart changes, and that nothing is kept for ever."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.runs import UNKNOWN
from tenex.core.effects import Key, Work
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Usage
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed, Opened
from tenex.telemetry.durations import Interval, Intervals
from tests.fakes.scenario import ID, Scenario, diligent, reply, rules, seven_phases
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents

from .kit import go_through, whole_conversation


def of(scenario: Scenario) -> list[Interval]:
    """Everything that ended, for a process that runs all the time."""
    return intervals_of(Intervals(), scenario)


def intervals_of(intervals: Intervals, scenario: Scenario, first: int = 0, last: int | None = None) -> list[Interval]:
    """Feed it the decisions of a journal, each with the state after it."""
    before = [record for decision in scenario.journal[:first] for record in decision]
    conversation, found = fold(ID, before), list[Interval]()
    for decision in scenario.journal[first:last]:
        for record in decision:
            conversation.apply(record)
        found += intervals.on_records(conversation, decision)
    return found


def by_stage(found: Sequence[Interval], stage: str) -> list[Interval]:
    return [interval for interval in found if interval.stage == stage]


def test_every_stage_of_a_whole_cycle_is_paired_and_nothing_stays_open() -> None:
    scenario, intervals = whole_conversation(), Intervals()
    assert scenario.conversation.status == "ended"
    found = intervals_of(intervals, scenario)
    assert len(intervals) == 0
    stages = {stage: len(by_stage(found, stage)) for stage in ("turn", "run", "model", "tool", "ask", "route")}
    assert stages == {
        "turn": len(scenario.records(r.TurnClosed)),
        "run": len(scenario.records(r.RunEnded)),
        "model": len(scenario.records(r.ModelResponded)),
        "tool": len(scenario.records(r.ToolCallStarted)),
        "ask": len(scenario.records(r.QuestionAnswered)),
        "route": len(scenario.records(r.Routed)),
    }
    assert stages["ask"] == 1
    keys = [interval.key for interval in found]
    assert len(keys) == len(set(keys))
    assert all(interval.seconds >= 0 and interval.cycle == 1 for interval in found)


def test_an_interval_begins_and_ends_where_the_records_do() -> None:
    scenario = whole_conversation()
    found = of(scenario)
    opened = {record.turn_id: record for record in scenario.records(r.TurnOpened)}
    for turn, closed in zip(by_stage(found, "turn"), scenario.records(r.TurnClosed), strict=True):
        assert (turn.began, turn.ended) == (opened[closed.turn_id].at, closed.at)
        assert (turn.phase, turn.outcome) == (opened[closed.turn_id].phase, "finished")
    permitted = {(record.run, record.call): record for record in scenario.records(r.ToolCallStarted)}
    for tool in by_stage(found, "tool"):
        assert isinstance(tool.ending, r.ToolCallCompleted)
        intent = permitted[tool.ending.run, tool.ending.call]
        assert (tool.began, tool.tool, tool.outcome) == (intent.at, intent.tool, "ok")
        assert (tool.parent, tool.phase) == (intent.run, intent.phase)
    (ask,) = by_stage(found, "ask")
    assert ask.began == scenario.records(r.QuestionAsked)[0].at
    assert ask.ended == scenario.records(r.QuestionAnswered)[0].at
    wanted = scenario.records(r.RunStarted)[0]
    first = by_stage(found, "model")[0]
    assert (first.key, first.began) == (f"{wanted.run} {wanted.seq}", wanted.at)


def test_runs_carry_what_their_calls_cost() -> None:
    scenario = whole_conversation()
    found = of(scenario)
    for run in by_stage(found, "run"):
        steps = [step for step in by_stage(found, "model") if step.parent == run.key]
        assert run.usage.input_tokens == sum(step.usage.input_tokens for step in steps) > 0
        assert run.parent == run.key.partition(".")[0]


def test_a_message_is_followed_to_its_decision_and_to_the_first_words_for_it() -> None:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("one")
    scenario.user_writes("two, before anybody has answered")
    scenario.settle(1)
    found = of(scenario)
    first = scenario.records(r.MessageRecorded)[0]
    routed, *later = by_stage(found, "routed")
    assert (routed.began, routed.ended) == (first.at, scenario.records(r.Routed)[0].at)
    (answer,) = by_stage(found, "reply")
    assert (answer.began, answer.ended) == (
        first.at,
        next(s.at for s in scenario.records(r.MessageSent) if s.purpose == "completion"),
    )
    assert not later


def test_failed_tries_and_useless_answers_are_model_intervals_of_their_own() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="no", retryable=True),  # type: ignore[arg-type]
        ModelFailed(key=None, message="filtered", retryable=False, usage=Usage(input_tokens=7)),  # type: ignore[arg-type]
        reply("here you are"),
    ]
    scenario = Scenario(
        lambda question: {"agents": ["project-manager"], "reason": "x"}, lambda _c, _call: answers.pop(0)
    )
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("retry")
    found = by_stage(of(scenario), "model")
    assert [interval.outcome for interval in found] == ["unavailable", "refused", "answered"]
    assert found[1].usage.input_tokens == 7
    due = scenario.records(r.RetryDue)[0]
    assert (found[1].key, found[1].began) == (f"turn-1.project-manager {due.seq}", due.at)


def test_a_rejected_route_and_an_unreachable_router_differ() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="no", retryable=True),  # type: ignore[arg-type]
        {"agents": ["unknown"], "reason": "x"},
        {"agents": ["project-manager"], "reason": "x"},
    ]
    scenario = Scenario(lambda _question: answers.pop(0), diligent)
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("route")
    assert [interval.outcome for interval in by_stage(of(scenario), "route")] == ["unavailable", "rejected", "accepted"]


def test_a_stop_ends_what_is_open() -> None:
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("hello")
    while not scenario.records(r.RunStarted):
        scenario.step()
    scenario.user_writes("/stop")
    intervals = Intervals()
    found = intervals_of(intervals, scenario)
    assert [(i.stage, i.outcome) for i in found if i.stage in ("model", "run", "turn")] == [
        ("model", "stopped"),
        ("run", "stopped"),
        ("turn", "stopped"),
    ]
    assert len(intervals) == 0


def test_complete_and_the_limit_of_steps_ask_no_model_that_was_not_asked() -> None:
    """Calls that are closed with their run make no model wanted."""
    endless = Scenario(
        lambda question: {"agents": ["executor"] if not question["turns"] else ["USER"], "reason": "x"},
        lambda _c, _call: reply("", ("no_such_tool", {}), ("another", {})),
        config=rules(limits=Limits(steps_per_run=3)),
    )
    endless.user_writes("hello")
    endless.settle(1)
    found = of(endless)
    assert [interval.outcome for interval in by_stage(found, "model")] == ["answered"] * 3
    assert by_stage(found, "tool") == []


def test_a_restart_continues_open_work_and_restarts_repeated_work() -> None:
    """A process that missed the beginning finds what one finds that ran all the time."""
    scenario = whole_conversation()
    for cut in range(1, len(scenario.journal)):
        again = Scenario(seven_phases, diligent)
        again.now, again.count = Millis(scenario.now + 1_000_000), scenario.count
        again.journal = list(scenario.journal[:cut])
        again.conversation = fold(ID, [record for decision in again.journal for record in decision])
        again.handle(Opened())
        go_through(again)
        before = len(work(intervals_of(Intervals(), again, last=cut)))
        after = work(intervals_of(Intervals(), again, first=cut))
        assert after == work(of(again))[before:], cut
        for interval in after:
            if interval.stage in ("model", "tool"):
                assert interval.seconds < 100, "the time the process was away counts for no work"


def work(found: Sequence[Interval]) -> list[Interval]:
    """What is paired across a restart whenever it comes.

    Not how long a message waited, and not a call or a question that the first records after it end.
    """
    return [
        interval
        for interval in found
        if interval.stage not in ("reply", "routed", "ask") and getattr(interval.ending, "content", "") != UNKNOWN
    ]


def test_it_keeps_nothing_of_conversations_that_rest_and_forgets_the_oldest_of_too_many(monkeypatch: Any) -> None:
    monkeypatch.setattr("tenex.telemetry.durations.FOLLOWED", 3)
    intervals = Intervals()
    for number in range(5):
        conversation = Conversation(id=f"{number:064x}")  # type: ignore[arg-type]
        asked = r.RouteRequested(seq=1, at=Millis(1), attempt=1)
        conversation.apply(asked)
        assert intervals.on_records(conversation, [asked]) == []
    assert len(intervals) == 3


def test_a_record_that_fits_nothing_is_passed_over() -> None:
    conversation = Conversation(id=ID, next_seq=9)
    strays: list[r.Record] = [
        r.ModelResponded(seq=1, at=Millis(1), run="turn-1.x", step=ModelStep()),  # type: ignore[arg-type]
        r.ToolCallCompleted(seq=2, at=Millis(1), run="turn-1.x", call="k", tool="t", ok=True, content=""),  # type: ignore[arg-type]
        r.RunEnded(seq=3, at=Millis(1), run="turn-1.x", outcome="finished"),  # type: ignore[arg-type]
        r.TurnClosed(seq=4, at=Millis(1), turn_id="turn-1", summary=""),  # type: ignore[arg-type]
        r.Routed(seq=5, at=Millis(1), agents=("USER",), phase=Phase.CHAT, reason="", by=""),
    ]
    assert Intervals().on_records(conversation, strays) == []


def test_a_clock_that_is_set_back_gives_no_negative_time() -> None:
    scenario = whole_conversation()
    turn = by_stage(of(scenario), "turn")[0]
    assert dataclasses.replace(turn, ended=Millis(turn.began - 5_000)).seconds == 0


# ---- sub-agents ----


def with_a_sub_agent() -> Scenario:
    """A turn in chat in which the executor calls the helper, who reads something."""
    worker = model_by_agent(
        executor=[reply("", *calls_to("helper")), "built"], helper=[reply("", ("ask", {"question": "Which?"}))]
    )
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=with_subagents(rules(), executor=["helper"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    scenario.user_writes("green")
    scenario.settle()
    return scenario


def test_a_called_run_hangs_on_the_call_that_began_it_and_is_no_part_of_the_turn() -> None:
    scenario = with_a_sub_agent()
    found = of(scenario)
    child, caller = by_stage(found, "run")
    (tool,) = by_stage(found, "tool")
    assert (caller.agent, caller.parent) == ("executor", "turn-1")
    assert (tool.tool, tool.parent, tool.outcome) == ("to_helper", caller.key, "ok")
    assert (child.agent, child.parent) == ("helper", tool.key)
    assert tool.began <= child.began <= child.ended <= tool.ended
    assert by_stage(found, "ask")[0].parent == child.key


def test_a_process_that_begins_in_the_middle_of_a_called_run_knows_whose_it_is() -> None:
    scenario = with_a_sub_agent()
    whole = of(scenario)
    parked = next(
        place
        for place, decision in enumerate(scenario.journal, 1)
        if any(isinstance(record, r.QuestionAsked) for record in decision)
    )
    found = intervals_of(Intervals(), scenario, first=parked)
    for stage in ("run", "tool", "turn"):
        assert [(one.key, one.parent, one.outcome) for one in by_stage(found, stage)] == [
            (one.key, one.parent, one.outcome) for one in by_stage(whole, stage)
        ]


def test_a_called_run_that_fails_is_not_the_turn_s_failure() -> None:
    failed = ModelFailed(key=Key(Work.MODEL, 0), message="filtered", retryable=False)
    worker = model_by_agent(executor=[reply("", *calls_to("helper")), "built alone"], helper=[failed] * 3)
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=with_subagents(rules(), executor=["helper"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    (turn,) = by_stage(of(scenario), "turn")
    assert turn.outcome == "finished"
    assert [one.outcome for one in by_stage(of(scenario), "tool")] == ["failed"]
