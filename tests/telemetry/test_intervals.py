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
from tests.fakes.linked import cast, linked, to
from tests.fakes.play import ID, Play, diligent, rules, says, seven_phases


def of(play: Play) -> list[Interval]:
    """Everything that ended, as a process hears it that lives all the time."""
    return heard(Intervals(), play)


def heard(intervals: Intervals, play: Play, first: int = 0, last: int | None = None) -> list[Interval]:
    """Let it hear the decisions of a journal, each with the conversation as it left it."""
    before = [record for decision in play.journal[:first] for record in decision]
    conversation, found = fold(ID, before), list[Interval]()
    for decision in play.journal[first:last]:
        for record in decision:
            conversation.apply(record)
        found += intervals.on_records(conversation, decision)
    return found


def by_stage(found: Sequence[Interval], stage: str) -> list[Interval]:
    return [interval for interval in found if interval.stage == stage]


def whole_conversation() -> Play:
    play = Play(seven_phases, diligent)
    play.person("I want something nice")
    go_through(play)
    return play


def go_through(play: Play) -> None:
    """Work, answer what is asked, and write again where the person is next, until the cycle ends."""
    for seed in range(10):
        play.settle(seed)
        if play.conversation.status == "ended":
            return
        play.person("Green, please", reply_to=next(iter(play.conversation.asks), None))
    raise AssertionError("the cycle does not end")


def test_every_stage_of_a_whole_cycle_is_paired_and_nothing_stays_open() -> None:
    play, intervals = whole_conversation(), Intervals()
    assert play.conversation.status == "ended"
    found = heard(intervals, play)
    assert len(intervals) == 0
    stages = {stage: len(by_stage(found, stage)) for stage in ("turn", "run", "model", "tool", "ask", "route")}
    assert stages == {
        "turn": len(play.all(r.TurnClosed)),
        "run": len(play.all(r.RunEnded)),
        "model": len(play.all(r.ModelResponded)),
        "tool": len(play.all(r.ToolCallStarted)),
        "ask": len(play.all(r.QuestionAnswered)),
        "route": len(play.all(r.Routed)),
    }
    assert stages["ask"] == 1
    keys = [interval.key for interval in found]
    assert len(keys) == len(set(keys))
    assert all(interval.seconds >= 0 and interval.cycle == 1 for interval in found)


def test_an_interval_begins_and_ends_where_the_records_do() -> None:
    play = whole_conversation()
    found = of(play)
    opened = {record.turn_id: record for record in play.all(r.TurnOpened)}
    for turn, closed in zip(by_stage(found, "turn"), play.all(r.TurnClosed), strict=True):
        assert (turn.began, turn.ended) == (opened[closed.turn_id].at, closed.at)
        assert (turn.phase, turn.outcome) == (opened[closed.turn_id].phase, "finished")
    permitted = {(record.run, record.call): record for record in play.all(r.ToolCallStarted)}
    for tool in by_stage(found, "tool"):
        assert isinstance(tool.ending, r.ToolCallCompleted)
        intent = permitted[tool.ending.run, tool.ending.call]
        assert (tool.began, tool.tool, tool.outcome) == (intent.at, intent.tool, "ok")
        assert (tool.parent, tool.phase) == (intent.run, intent.phase)
    (ask,) = by_stage(found, "ask")
    assert ask.began == play.all(r.QuestionAsked)[0].at
    assert ask.ended == play.all(r.QuestionAnswered)[0].at
    wanted = play.all(r.RunStarted)[0]
    first = by_stage(found, "model")[0]
    assert (first.key, first.began) == (f"{wanted.run} {wanted.seq}", wanted.at)


def test_runs_carry_what_their_calls_cost() -> None:
    play = whole_conversation()
    found = of(play)
    for run in by_stage(found, "run"):
        steps = [step for step in by_stage(found, "model") if step.parent == run.key]
        assert run.usage.input_tokens == sum(step.usage.input_tokens for step in steps) > 0
        assert run.parent == run.key.partition(".")[0]


def test_a_message_is_followed_to_its_decision_and_to_the_first_words_for_it() -> None:
    play = Play(seven_phases, diligent)
    play.person("one")
    play.person("two, before anybody has answered")
    play.settle(1)
    found = of(play)
    first = play.all(r.MessageRecorded)[0]
    routed, *later = by_stage(found, "routed")
    assert (routed.began, routed.ended) == (first.at, play.all(r.Routed)[0].at)
    (reply,) = by_stage(found, "reply")
    assert (reply.began, reply.ended) == (
        first.at,
        next(s.at for s in play.all(r.MessageSent) if s.purpose == "completion"),
    )
    assert not later


def test_failed_tries_and_useless_answers_are_model_intervals_of_their_own() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="no", retryable=True),  # type: ignore[arg-type]
        ModelFailed(key=None, message="filtered", retryable=False, usage=Usage(input_tokens=7)),  # type: ignore[arg-type]
        says("here you are"),
    ]
    play = Play(lambda question: {"agents": ["project-manager"], "reason": "x"}, lambda _c, _call: answers.pop(0))
    play.person("hello")
    while answers:
        if not play.step():
            play.fire("retry")
    found = by_stage(of(play), "model")
    assert [interval.outcome for interval in found] == ["unavailable", "refused", "answered"]
    assert found[1].usage.input_tokens == 7
    due = play.all(r.RetryDue)[0]
    assert (found[1].key, found[1].began) == (f"turn-1.project-manager {due.seq}", due.at)


def test_a_rejected_route_and_an_unreachable_router_are_told_apart() -> None:
    answers: list[Any] = [
        ModelFailed(key=None, message="no", retryable=True),  # type: ignore[arg-type]
        {"agents": ["nobody"], "reason": "x"},
        {"agents": ["project-manager"], "reason": "x"},
    ]
    play = Play(lambda _question: answers.pop(0), diligent)
    play.person("hello")
    while answers:
        if not play.step():
            play.fire("route")
    assert [interval.outcome for interval in by_stage(of(play), "route")] == ["unavailable", "rejected", "accepted"]


def test_a_stop_ends_what_is_open() -> None:
    play = Play(seven_phases, diligent)
    play.person("hello")
    while not play.all(r.RunStarted):
        play.step()
    play.person("/stop")
    intervals = Intervals()
    found = heard(intervals, play)
    assert [(i.stage, i.outcome) for i in found if i.stage in ("model", "run", "turn")] == [
        ("model", "stopped"),
        ("run", "stopped"),
        ("turn", "stopped"),
    ]
    assert len(intervals) == 0


def test_complete_and_the_limit_of_steps_ask_no_model_that_was_not_asked() -> None:
    """Calls that are closed with their run make no model wanted."""
    endless = Play(
        lambda question: {"agents": ["executor"] if not question["turns"] else ["USER"], "reason": "x"},
        lambda _c, _call: says("", ("no_such_tool", {}), ("another", {})),
        config=rules(limits=Limits(steps_per_run=3)),
    )
    endless.person("hello")
    endless.settle(1)
    found = of(endless)
    assert [interval.outcome for interval in by_stage(found, "model")] == ["answered"] * 3
    assert by_stage(found, "tool") == []


def test_a_restart_goes_on_with_what_was_open_and_begins_anew_what_is_done_again() -> None:
    """A process that never heard the beginning finds what one finds that lived all the time."""
    play = whole_conversation()
    for cut in range(1, len(play.journal)):
        again = Play(seven_phases, diligent)
        again.now, again.count = Millis(play.now + 1_000_000), play.count
        again.journal = list(play.journal[:cut])
        again.conversation = fold(ID, [record for decision in again.journal for record in decision])
        again.hear(Opened())
        go_through(again)
        before = len(work(heard(Intervals(), again, last=cut)))
        after = work(heard(Intervals(), again, first=cut))
        assert after == work(of(again))[before:], cut
        for interval in after:
            if interval.stage in ("model", "tool"):
                assert interval.seconds < 100, "the time the process was away is nobody's work"


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
    play = whole_conversation()
    turn = by_stage(of(play), "turn")[0]
    assert dataclasses.replace(turn, ended=Millis(turn.began - 5_000)).seconds == 0


# ---- colleagues called like tools ---------------------------------------------------------------------------------


def with_a_colleague() -> Play:
    """A turn in chat in which the executor calls the helper, who reads something."""
    worker = cast(executor=[says("", *to("helper")), "built"], helper=[says("", ("ask", {"question": "Which?"}))])
    play = Play(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=linked(rules(), executor=["helper"]),
    )
    play.person("hello")
    play.settle()
    play.person("green")
    play.settle()
    return play


def test_a_called_run_hangs_on_the_call_that_began_it_and_is_no_part_of_the_turn() -> None:
    play = with_a_colleague()
    found = of(play)
    child, caller = by_stage(found, "run")
    (tool,) = by_stage(found, "tool")
    assert (caller.agent, caller.parent) == ("executor", "turn-1")
    assert (tool.tool, tool.parent, tool.outcome) == ("to_helper", caller.key, "ok")
    assert (child.agent, child.parent) == ("helper", tool.key)
    assert tool.began <= child.began <= child.ended <= tool.ended
    assert by_stage(found, "ask")[0].parent == child.key


def test_a_process_that_begins_in_the_middle_of_a_called_run_knows_whose_it_is() -> None:
    play = with_a_colleague()
    whole = of(play)
    parked = next(
        place
        for place, decision in enumerate(play.journal, 1)
        if any(isinstance(record, r.QuestionAsked) for record in decision)
    )
    found = heard(Intervals(), play, first=parked)
    for stage in ("run", "tool", "turn"):
        assert [(one.key, one.parent, one.outcome) for one in by_stage(found, stage)] == [
            (one.key, one.parent, one.outcome) for one in by_stage(whole, stage)
        ]


def test_a_called_run_that_fails_is_not_the_turn_s_failure() -> None:
    failed = ModelFailed(key=Key(Work.MODEL, 0), message="filtered", retryable=False)
    worker = cast(executor=[says("", *to("helper")), "built alone"], helper=[failed] * 3)
    play = Play(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=linked(rules(), executor=["helper"]),
    )
    play.person("hello")
    play.settle()
    (turn,) = by_stage(of(play), "turn")
    assert turn.outcome == "finished"
    assert [one.outcome for one in by_stage(of(play), "tool")] == ["failed"]
