"""Faults of transport: tried again after the delays of the table, then held, and the person is told once."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.effects import Key, ModelCall, Route, Timer, Work
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.signals import ModelFailed
from tests.fakes.play import Play, rules, says

from .kit import WAITS, Script, check_rest, go, mind, plain, standing, until, work

DELAYS = Limits().retry_delays
HOLD = Limits().hold_for


def down(retry_after: int | None = None) -> ModelFailed:
    """A model's server that cannot be reached."""
    return ModelFailed(key=Key(Work.MODEL, 0), message="connection refused", retryable=True, retry_after=retry_after)


def retries(play: Play) -> list[tuple[int, int, bool]]:
    """(attempt, delay, held) of every retry."""
    return [(record.attempt, record.due - record.at, record.on_hold) for record in play.all(r.RetryScheduled)]


def broken_agent(*, times: int) -> Play:
    """A play whose agent cannot be reached that often."""
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    left = iter([down()] * times)
    play.worker = mind(execute=lambda *_: next(left, says("done")))
    play.settle()
    return play


def broken_router(*, times: int) -> Play:
    """A play whose router cannot be reached that often."""
    left = iter([down()] * times)
    play = standing(Phase.CHAT, lambda _: next(left, WAITS))
    play.settle()
    return play


@pytest.mark.parametrize(("make", "part"), [(broken_agent, "retry"), (broken_router, "route")])
def test_delays_come_from_the_table_and_then_the_work_is_held(make: Any, part: str) -> None:
    play = make(times=6)
    for _ in range(5):
        play.fire(part)
        play.settle()
    expected = [*((n + 1, delay, False) for n, delay in enumerate(DELAYS)), *((n, HOLD, True) for n in (4, 5, 6))]
    assert retries(play) == expected
    assert len([text for text in play.said() if "cannot be reached" in text]) == 1, "told once"
    play.fire(part)
    play.settle()
    check_rest(play)
    assert play.conversation.waiting_for == "user"


@pytest.mark.parametrize(("make", "part"), [(broken_agent, "retry"), (broken_router, "route")])
def test_while_it_waits_nothing_is_asked_and_each_try_has_a_key_of_its_own(make: Any, part: str) -> None:
    play = make(times=3)
    keys = set()
    for _ in range(3):
        assert work(play) == []
        play.fire(part)
        (again,) = work(play)
        assert isinstance(again, (ModelCall, Route))
        keys.add(again.key)
        play.settle()
    assert len(keys) == 3


@pytest.mark.parametrize(("make", "part"), [(broken_agent, "retry"), (broken_router, "route")])
def test_a_failure_that_arrives_twice_is_one_retry(make: Any, part: str) -> None:
    play = make(times=0)
    play.router = Script(go("execute", "executor"), WAITS)
    play.person("again")
    if part == "retry":
        until(play, lambda it: it.conversation.turn is not None)
    (wanted,) = work(play)
    signal = ModelFailed(key=wanted.key, message="reset", retryable=True)
    assert play.hear(signal)
    assert play.hear(signal) == []
    assert len(play.all(r.RetryScheduled)) == 1


def test_a_server_that_asks_for_patience_gets_it() -> None:
    play = standing(Phase.CHAT, Script(down(retry_after=90_000), down(retry_after=1), WAITS))
    play.settle()
    play.fire("route")
    play.settle()
    assert [delay for _, delay, _ in retries(play)] == [90_000, DELAYS[1]]


@pytest.mark.parametrize("who", ["agent", "router"])
def test_a_long_wait_a_server_asks_for_is_told_at_once_and_once(who: str) -> None:
    """Without a word the person would wait for as many hours as the table has delays."""
    hour = 3_600_000
    times = iter([down(retry_after=hour), down(retry_after=hour), down(retry_after=1)])
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    if who == "agent":
        play.worker = mind(execute=lambda *_: next(times, says("done")))
    else:
        play = standing(Phase.CHAT, lambda _: next(times, WAITS))
    part = "retry" if who == "agent" else "route"
    play.settle()
    told = [text for text in play.said() if "cannot be reached" in text]
    assert len(told) == 1
    assert "connection refused. I hold the work and try again in 60 min; `/continue` tries at once." in told[0]
    for _ in range(3):
        play.fire(part)
        play.settle()
    assert [record.on_hold for record in play.all(r.RetryScheduled)] == [True, True, False]
    assert [text for text in play.said() if "cannot be reached" in text] == told
    check_rest(play)


def test_no_wait_for_another_try_counts_against_a_deadline() -> None:
    """A server that asks for half an hour, three times, must not make the agent time out."""
    half = 1_800_000
    times = iter([down(retry_after=half)] * 3)
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    play.worker = mind(execute=lambda *_: next(times, says("", ("read_file", {"path": "a"}))))
    play.settle()
    for _ in range(2):
        play.fire("retry")
        play.settle()
    play.crash()
    assert not [effect for effect in play.running.values() if effect.key.part in ("warn", "close")]
    play.fire("retry")
    play.step()
    assert next(iter(play.conversation.runs.values())).close_at > play.now + half - 60_000


def test_time_away_is_given_back_once_to_a_run_that_waited() -> None:
    play = broken_agent(times=1)
    before = next(iter(play.conversation.runs.values()))
    began = play.all(r.RetryScheduled)[0].at
    play.now = Millis(play.now + 7_200_000)
    play.crash()
    play.fire("retry")
    after = next(iter(play.conversation.runs.values()))
    assert after.close_at - before.close_at == play.all(r.RetryDue)[0].at - began


def test_an_answer_ends_the_count_of_tries() -> None:
    steps = iter([down(), down(), says("", ("read_file", {})), down(), says("done")])
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=lambda *_: next(steps)))
    play.settle()
    for _ in range(3):
        play.fire("retry")
        play.settle()
    assert [attempt for attempt, *_ in retries(play)] == [1, 2, 1]
    assert play.all(r.RunEnded)[-1].outcome == "finished"


@pytest.mark.parametrize("make", [broken_agent, broken_router])
def test_continue_releases_a_hold_at_once(make: Any) -> None:
    play = make(times=4)
    for _ in range(3):
        play.fire("retry" if make is broken_agent else "route")
        play.settle()
    assert retries(play)[-1][2], "held"
    play.person("/continue")
    assert "I try again now." in play.said()
    play.settle()
    assert play.conversation.waiting_for == "user"
    assert not any(isinstance(e, Timer) and e.key.part in ("retry", "route") for e in play.running.values())


def test_a_hold_does_not_keep_the_other_agents_from_working() -> None:
    def half(conversation: Any, call: ModelCall) -> Any:
        return down() if "helper" in call.run else says("done")

    play = standing(Phase.CHAT, Script(go("execute", "executor", "helper"), WAITS), mind(execute=half))
    play.settle()
    assert [record.run for record in play.all(r.RunEnded)][-1] == "turn-2.executor"
    assert list(play.conversation.runs) == ["turn-2.helper"]
    play.person("/stop")
    assert play.conversation.waiting_for == "stopped"


def test_what_cannot_be_retried_ends_the_run() -> None:
    failed = ModelFailed(key=Key(Work.MODEL, 0), message="content policy", retryable=False)
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=[failed]))
    play.settle()
    assert retries(play) == []
    assert (play.all(r.RunEnded)[-1].outcome, play.all(r.RunEnded)[-1].error) == ("failed", "content policy")


def test_what_cannot_be_retried_of_the_router_counts_as_a_refusal() -> None:
    failed = ModelFailed(key=Key(Work.MODEL, 0), message="content policy", retryable=False)
    router = Script(failed, go(None, "project-manager"), WAITS)
    play = standing(Phase.CHAT, router, plain)
    play.settle()
    assert [record.sentence for record in play.all(r.RouteRejected)] == ["The answer was of no use: content policy"]
    assert "content policy" in router.asked[1]["rejections"][0]


def test_nothing_is_held_for_an_agent_that_has_left() -> None:
    """A reload took it out of the roster while its model was asked: it has no tools, and that would fail for ever."""
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=lambda *_: down()))
    until(play, lambda it: it.conversation.turn is not None)
    roster = {slug: agent for slug, agent in play.rules.roster.items() if slug != "executor"}
    play.rules = dataclasses.replace(play.rules, roster=roster)
    play.settle()
    assert "I could not finish: it is no longer one of the agents" in play.said()
    check_rest(play)


def test_a_stop_ends_a_hold() -> None:
    play = broken_router(times=9)
    play.person("/stop")
    assert play.conversation.question is None
    assert play.said()[-1] == "Stopped: the orchestrator. Write to go on, or `/retry`."


def test_a_hold_survives_a_restart() -> None:
    play = broken_agent(times=1)
    due = play.all(r.RetryScheduled)[0].due
    play.crash()
    assert any(isinstance(effect, Timer) and effect.due == due for effect in play.running.values())
    play.fire("retry")
    play.settle()
    assert play.all(r.RunEnded)[-1].outcome == "finished"


def test_a_table_without_delays_holds_at_once() -> None:
    config = rules(limits=Limits(retry_delays=()))
    play = standing(Phase.CHAT, Script(down(), WAITS), config=config)
    play.settle()
    assert retries(play) == [(1, HOLD, True)]
    assert "cannot be reached" in play.said()[-1]


def test_the_time_of_a_hold_counts_against_no_deadline() -> None:
    """A model that is away for a day is no reason to give an agent up."""
    play = broken_agent(times=300)
    for _ in range(290):
        play.fire("retry")
        play.settle()
    held = next(iter(play.conversation.runs.values()))
    assert held.is_held
    assert not [effect for effect in play.running.values() if effect.key.part in ("warn", "close")]
    assert [record.outcome for record in play.all(r.RunEnded)] == ["finished"], "only the turn before it has ended"
    play.fire("retry")
    assert next(iter(play.conversation.runs.values())).close_at > play.now


@pytest.mark.parametrize(("make", "part"), [(broken_agent, "retry"), (broken_router, "route")])
def test_continue_asks_at_once_through_a_pause_and_only_that_once(make: Any, part: str) -> None:
    play = make(times=6)
    for _ in range(3):
        play.fire(part)
        play.settle()
    assert not any(getattr(effect, "is_urgent", False) for effect in play.running.values())
    play.person("/continue")
    (again,) = work(play)
    assert isinstance(again, (ModelCall, Route))
    assert again.is_urgent
    play.settle()
    told = [text for text in play.said() if "cannot be reached" in text]
    assert len(told) == 2, "the person who asked hears that it failed again"
    play.fire(part)
    (later,) = work(play)
    assert isinstance(later, (ModelCall, Route))
    assert not later.is_urgent
    assert play.refold() == play.conversation
