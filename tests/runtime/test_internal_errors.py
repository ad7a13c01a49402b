"""Internal errors while a signal is handled: reported, counted, and no reason to repeat the same work for ever."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.dispatch import decide
from tenex.core.effects import Key, Work
from tenex.core.ids import Millis
from tenex.core.messages import ModelRequest, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.ports import ToolResult
from tenex.core.signals import MessageReceived, RouteAnswered, Signal, TimerFired, ToolReturned, without_result
from tenex.core.transaction import Seal, Transaction
from tenex.runtime.actor import MAX_FAILURES, _log_notable
from tenex.workflows.missions.signals import NodeFailed, NodeReturned
from tests.fakes.runtime import World
from tests.fakes.scenario import ID, one_turn, reply
from tests.fakes.virtual import virtual_time

DAY = 86_400.0


def reads(request: ModelRequest) -> ModelStep:
    asked = any(isinstance(entry, ModelStep) for entry in request.entries)
    return reply("it is done") if asked else reply("", ("send", {"path": "a"}))


@pytest.mark.parametrize("part", ["prompt", "answer", "result"])
@virtual_time
async def test_a_signal_that_always_fails_is_not_retried_for_ever(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(one_turn("executor", "execute"), reads)
    is_broken = True

    def prompt(*_: object) -> Any:
        raise ZeroDivisionError

    def odd(state: Conversation, signal: Signal, policy: Policy, now: Millis, seal: Seal) -> Transaction:
        if is_broken and part == "answer" and isinstance(signal, RouteAnswered):
            raise ZeroDivisionError
        if is_broken and part == "result" and isinstance(signal, ToolReturned) and signal.result.ok:
            raise ZeroDivisionError
        return decide(state, signal, policy, now, seal)

    monkeypatch.setattr("tenex.runtime.actor.decide", odd)
    if part == "prompt":
        monkeypatch.setattr(world, "prompt", prompt)

    async with world.daemon() as daemon:
        daemon.write("build it")
        await daemon.until("waiting")
        await asyncio.sleep(DAY)
        assert len(world.requests) <= 4
        assert max(world.calls.values(), default=0) <= 1
        assert daemon.state().totals.usage.calls == len(world.requests), "all of it is counted"
        is_broken = False
        monkeypatch.undo()
        daemon.write("and now?")
        await daemon.until("waiting")
    assert any("it is done" in text for text in world.order)
    if part == "result":
        result = world.records(r.ToolCallCompleted)[0]
        assert (result.ok, "The result is lost" in result.content) == (False, True)
    else:
        assert any("ZeroDivisionError" in text for text in world.order), "the user was notified"


@virtual_time
async def test_what_cannot_be_taken_in_even_without_its_result_waits_for_the_next_start() -> None:
    world = World(one_turn("executor", "execute"), reads)
    seal, is_mute = world.seal, True

    def mute(draft: Any) -> Any:
        if is_mute and ("error", "internal") not in draft.tags:
            raise ZeroDivisionError
        return seal(draft)

    world.seal = mute  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("build it")
        await asyncio.sleep(DAY)
        asked = len(world.requests)
        await asyncio.sleep(DAY)
        assert len(world.requests) == asked <= 5
        notices = [event.content.partition(":")[0] for event in world.published.values()]
        assert notices == [
            "An internal error stopped this message several times. I will retry it after the next restart. Operator"
        ]
    is_mute = False
    async with world.daemon() as daemon:
        await daemon.until("waiting")
        assert not pending(daemon.state())
    assert any("it is done" in text for text in world.order)


@virtual_time
async def test_a_message_that_was_put_aside_is_asked_of_the_relays_again_however_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(one_turn("executor", "execute"), lambda _request: reply("done"))

    def odd(state: Conversation, signal: Signal, policy: Policy, now: Millis, seal: Seal) -> Transaction:
        if isinstance(signal, MessageReceived) and signal.message.text == "odd":
            tries.append(signal)
            raise ZeroDivisionError
        return decide(state, signal, policy, now, seal)

    tries: list[Signal] = []
    with monkeypatch.context() as patch:
        patch.setattr("tenex.runtime.actor.decide", odd)
        async with world.daemon() as daemon:
            written = world.clock.now() // 1000
            daemon.write("odd", event_id="b" * 64)
            await asyncio.sleep(60)
            assert len(tries) == 1 + MAX_FAILURES, "the first try was in one batch with the signal that opened it"
            daemon.sent.clear()
            daemon.write("even")
            await daemon.until("waiting")
            await asyncio.sleep(DAY)
            assert daemon.runtime.coordinator.unjournaled_since() == written
            assert sum("internal error" in text for text in world.order) == 1, "it is reported once"
    async with world.daemon() as daemon:
        assert daemon.runtime.coordinator.unjournaled_since() is None
        assert daemon.write("odd", event_id="b" * 64) == "admitted"
        await daemon.until("waiting")
    assert [record.text for record in world.records(r.MessageRecorded)] == ["even", "odd"]


def test_the_end_of_a_task_without_its_result_is_of_the_same_task_and_has_no_lesser_form() -> None:
    key = Key(Work.TOOL, 3)
    ends: list[Signal] = [
        RouteAnswered(key=key, step=reply("x")),
        ToolReturned(key=key, result=ToolResult(ok=True, content="x")),
        NodeReturned(key=key, to="END", state={}, spent={"large": Usage(input_tokens=7)}),
    ]
    for signal in ends:
        lesser = without_result(signal, "a fault")
        assert lesser is not None
        assert (getattr(lesser, "key", None), without_result(lesser, "a fault")) == (key, None)
    failed = without_result(ends[2], "a fault")
    assert isinstance(failed, NodeFailed)
    assert failed.who == "operator", "the mission pauses, and can go on"
    assert failed.spent == {"large": Usage(input_tokens=7)}, "what it cost is no part of what is lost"
    assert without_result(TimerFired(key=key), "a fault") is None


def test_a_move_and_a_condition_that_raised_are_lines_without_what_anybody_wrote() -> None:
    run: Any = {"seq": 1, "at": Millis(1), "run": "turn-1.executor", "agent": "executor", "source": "a", "target": "b"}
    failed = r.ConditionFailed(**run, error="ValueError: invalid literal for int(): 'my secret'")
    with capture_logs() as lines:
        _log_notable(ID, [r.AgentPhaseChanged(**run), failed])
    assert [(line["event"], line["log_level"], line["source"], line["target"]) for line in lines] == [
        ("agent.moved", "info", "a", "b"),
        ("condition.failed", "warning", "a", "b"),
    ]
    assert lines[1]["error"] == "ValueError"
    assert "secret" not in str(lines)


def test_a_message_that_is_given_up_is_one_line_with_how_far_it_came() -> None:
    expired = r.OutboxExpired(seq=9, at=Millis(1), message=3, relays=("ws://dead",), accepted=1, lost=0)
    with capture_logs() as lines:
        _log_notable(ID, [expired])
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("event.given_up", "warning")
    assert (line["relays"], line["reached"], line["lost"]) == (("ws://dead",), "1 of 2 relays", 0)
