"""How long things took: what each stage is paired with, what a restart changes, and that nothing is kept for ever."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import new_conversation
from tenex.core.effects import Key, Work
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import Usage
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed
from tenex.core.work.runs import UNKNOWN
from tenex.telemetry.durations import Interval, Intervals
from tests.fakes.scenario import (
    WAITS,
    Router,
    Scenario,
    diligent,
    longest_way,
    model_by_phase,
    policy,
    reply,
    route,
    step_until,
)
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents
from tests.kits.team import WORK, team

from .kit import REFUSED, answering, decisions, restarted, whole_conversation


def of(
    scenario: Scenario, first: int = 0, last: int | None = None, intervals: Intervals | None = None
) -> list[Interval]:
    """Everything that ended, for a process that sees these decisions."""
    follow = Intervals() if intervals is None else intervals
    return [one for state, decision in decisions(scenario, first, last) for one in follow.on_records(state, decision)]


def by_stage(found: Sequence[Interval], stage: str) -> list[Interval]:
    return [interval for interval in found if interval.stage == stage]


def test_nothing_stays_open_after_a_cycle_and_a_run_costs_what_its_calls_cost() -> None:
    """That every stage is paired, `test_traces` and `test_metrics` count."""
    scenario, intervals = whole_conversation(), Intervals()
    found = of(scenario, intervals=intervals)
    assert len(intervals) == 0
    assert len(by_stage(found, "run")) == len(scenario.records(r.RunEnded))
    for run in by_stage(found, "run"):
        steps = [step for step in by_stage(found, "model") if step.parent == run.key]
        assert run.usage.input_tokens == sum(step.usage.input_tokens for step in steps) > 0


def test_an_interval_begins_and_ends_where_the_records_do() -> None:
    scenario = whole_conversation()
    found = of(scenario)
    opened = {record.turn_id: record for record in scenario.records(r.TurnOpened)}
    for turn, closed in zip(by_stage(found, "turn"), scenario.records(r.TurnClosed), strict=True):
        began = opened[closed.turn_id]
        assert (turn.began, turn.ended, turn.phase, turn.outcome) == (began.at, closed.at, began.phase, "finished")
        assert turn._replace(ended=Millis(turn.began - 5_000)).seconds == 0, "a clock was set back"
    permitted = {(record.run, record.call): record for record in scenario.records(r.ToolCallStarted)}
    for tool in by_stage(found, "tool"):
        assert isinstance(tool.ending, r.ToolCallCompleted)
        intent = permitted[tool.ending.run, tool.ending.call]
        assert (tool.began, tool.tool, tool.outcome) == (intent.at, intent.tool, "ok")
        assert (tool.parent, tool.phase) == (intent.run, intent.phase)
    (ask,) = by_stage(found, "ask")
    assert ask.began == scenario.records(r.QuestionAsked)[0].at
    assert ask.ended == scenario.records(r.QuestionAnswered)[0].at
    wanted, first = scenario.records(r.RunStarted)[0], by_stage(found, "model")[0]
    assert (first.key, first.began) == (f"{wanted.run} {wanted.seq}", wanted.at)


def test_a_message_is_followed_to_its_decision_and_to_the_first_words_for_it() -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes("one")
    scenario.user_writes("two, before anybody has answered")
    scenario.settle(1)
    began = scenario.records(r.MessageRecorded)[0].at
    (routed,), (answer,) = (by_stage(of(scenario), stage) for stage in ("routed", "reply"))
    first = next(sent.at for sent in scenario.records(r.MessageSent) if sent.purpose == "completion")
    assert (routed.began, routed.ended) == (began, scenario.records(r.Routed)[0].at)
    assert (answer.began, answer.ended) == (began, first)


def test_words_that_users_do_not_get_are_no_reply() -> None:
    scenario = Scenario(Router(route("execute", "executor"), WAITS), model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.CHORES and bool(it.conversation.work.runs))
    scenario.converse("thank you")
    sent = scenario.records(r.MessageSent)
    assert not next(one for one in sent if one.text == "tidy").is_published
    (reply_,) = by_stage(of(scenario), "reply")
    assert reply_.ended == next(one.at for one in sent if one.text == "built")


def test_failed_tries_and_useless_answers_are_model_intervals_of_their_own() -> None:
    useless: Any = dataclasses.replace(REFUSED, retryable=False, usage=Usage(input_tokens=7))
    scenario = answering([REFUSED, useless, reply("here you are")])
    found = by_stage(of(scenario), "model")
    assert [interval.outcome for interval in found] == ["unavailable", "refused", "answered"]
    assert found[1].usage.input_tokens == 7
    due = scenario.records(r.RetryDue)[0]
    assert (found[1].key, found[1].began) == (f"turn-1.project-manager {due.seq}", due.at)


def test_a_rejected_route_and_an_unreachable_router_differ() -> None:
    answers = [REFUSED, {"agents": ["unknown"], "reason": "x"}, {"agents": ["project-manager"], "reason": "x"}]
    scenario = Scenario(lambda _question: answers.pop(0), diligent)
    scenario.user_writes("hello")
    while answers:
        if not scenario.step():
            scenario.fire("route")
    assert [interval.outcome for interval in by_stage(of(scenario), "route")] == ["unavailable", "rejected", "accepted"]


def test_a_stop_ends_what_is_open() -> None:
    scenario, intervals = Scenario(longest_way, diligent), Intervals()
    scenario.user_writes("hello")
    while not scenario.records(r.RunStarted):
        scenario.step()
    scenario.user_writes("/stop")
    ended = [(i.stage, i.outcome) for i in of(scenario, intervals=intervals) if i.stage in ("model", "run", "turn")]
    assert ended == [("model", "stopped"), ("run", "stopped"), ("turn", "stopped")]
    assert len(intervals) == 0


def test_calls_that_are_closed_with_their_run_make_no_model_wanted() -> None:
    calls = reply("", ("no_such_tool", {}), ("another", {}))
    found = of(answering([calls] * 3, config=policy(limits=Limits(steps_per_run=3))))
    assert [interval.outcome for interval in by_stage(found, "model")] == ["answered"] * 3
    assert by_stage(found, "tool") == []


def test_a_restart_continues_open_work_and_restarts_repeated_work() -> None:
    """A process that missed the beginning finds what one finds that ran all the time."""
    scenario = whole_conversation()
    for cut in range(1, len(scenario.journal)):
        again = restarted(scenario, cut, 1_000_000)
        before = len(work(of(again, last=cut)))
        after = work(of(again, first=cut))
        assert after == work(of(again))[before:], cut
        away = [one for one in after if one.stage in ("model", "tool") and one.seconds > 100]
        assert not away, "the time the process was away counts for no work"


def work(found: Sequence[Interval]) -> list[Interval]:
    """What is paired across a restart whenever it comes.

    Not how long a message waited, and not a call or a question that the first records after it end.
    """
    return [
        interval
        for interval in found
        if interval.stage not in ("reply", "routed", "ask") and getattr(interval.ending, "content", "") != UNKNOWN
    ]


def test_it_forgets_the_oldest_of_too_many_conversations(monkeypatch: Any) -> None:
    monkeypatch.setattr("tenex.telemetry.durations.FOLLOWED", 3)
    intervals = Intervals()
    for number in range(5):
        conversation = new_conversation(ConversationId(f"{number:064x}"))
        asked = r.RouteRequested(seq=1, at=Millis(1), attempt=1)
        conversation.apply(asked)
        assert intervals.on_records(conversation, [asked]) == []
    assert len(intervals) == 3


def test_a_conversation_that_waits_for_a_user_holds_no_prompt() -> None:
    """It leaves the memory of the daemon, and there may be thousands."""
    scenario, intervals = answering([reply("", ("ask", {"question": "Which?"}))]), Intervals()
    of(scenario, intervals=intervals)
    assert scenario.conversation.work.is_parked
    kept = [one for work, _ in intervals._followed.values() for one in work.values()]
    assert {one.stage for one in kept} >= {"turn", "run", "ask"}
    assert not any(one.run for one in kept)
    spent, before = next(iter(scenario.conversation.work.runs.values())).usage, len(scenario.journal)
    scenario.user_writes("/stop")
    (run,) = by_stage(of(scenario, before, intervals=intervals), "run")
    assert (run.agent, run.outcome, run.usage) == ("project-manager", "stopped", spent)


# ---- sub-agents ----


def with_a_sub_agent(*helper: Any) -> Scenario:
    """A turn in chat in which the executor calls the helper, with these answers of the helper's model."""
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        model_by_agent(executor=[reply("", *calls_to("helper")), "built"], helper=list(helper)),
        config=with_subagents(policy(), executor=["helper"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    return scenario


def test_a_called_run_hangs_on_the_call_that_began_it_also_where_a_process_begins_in_its_middle() -> None:
    scenario = with_a_sub_agent(reply("", ("ask", {"question": "Which?"})))
    scenario.user_writes("green")
    scenario.settle()
    found = of(scenario)
    child, caller = by_stage(found, "run")
    (tool,) = by_stage(found, "tool")
    assert (caller.agent, caller.parent) == ("executor", "turn-1")
    assert (tool.tool, tool.parent, tool.outcome) == ("to_helper", caller.key, "ok")
    assert (child.agent, child.parent) == ("helper", tool.key)
    assert tool.began <= child.began <= child.ended <= tool.ended
    assert by_stage(found, "ask")[0].parent == child.key

    asked = [any(isinstance(record, r.QuestionAsked) for record in decision) for decision in scenario.journal]
    late = of(scenario, first=asked.index(True) + 1)
    for stage in ("run", "tool", "turn"):
        of_both = ([(one.key, one.parent, one.outcome) for one in by_stage(some, stage)] for some in (late, found))
        assert next(of_both) == next(of_both)


def test_a_called_run_that_fails_is_not_the_turn_s_failure() -> None:
    failed = ModelFailed(key=Key(Work.MODEL, 0), message="filtered", retryable=False)
    found = of(with_a_sub_agent(*[failed] * 3))
    assert [one.outcome for one in by_stage(found, "turn")] == ["finished"]
    assert [one.outcome for one in by_stage(found, "tool")] == ["failed"]
