"""`decide` is pure and final: the same arguments give the same records, and a signal settles its key."""

import copy
import dataclasses
from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.decide.dispatch import OUTBOX_EXPIRY, decide
from tenex.core.effects import Effect, Key, ModelCall, Route, Timer, Work
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import PublishOutcome, ToolResult
from tenex.core.signals import ModelAnswered, ModelFailed, Opened, Published, Signal, TimerFired, ToolReturned
from tests.fakes.scenario import (
    ID,
    RELAY,
    WAITS,
    Router,
    Scenario,
    diligent,
    in_flight,
    model_by_phase,
    reply,
    route,
    scenario_at,
    seven_phases,
    step_until,
)


def signals_for(scenario: Scenario, effect: Effect) -> list[Signal]:
    """Every way in which a piece of work can end."""
    ways = [scenario.perform(effect)]
    if isinstance(effect, (Route, ModelCall)):
        ways += [ModelFailed(key=effect.key, message="x", retryable=retryable) for retryable in (True, False)]
    if effect.key.work is Work.PUBLISH:
        ways += [Published(key=effect.key, outcome=PublishOutcome(accepted=False, detail="blocked"))]
    return ways


@pytest.mark.parametrize("text", ["a", "/quick"])
def test_a_signal_settles_its_key_at_every_step_of_a_whole_conversation(text: str) -> None:
    """Whatever way a task ends, the records make its key not pending, and the same signal then has no effect."""
    scenario, checked = Scenario(seven_phases, diligent), 0
    for word in ("hello", text, "let us think", "plan it", "blue"):
        scenario.user_writes(word)
        while scenario.running and any(not isinstance(effect, Timer) for effect in scenario.running.values()):
            for effect in list(scenario.running.values()):
                now, world = scenario.now, (copy.copy(scenario.ran), copy.deepcopy(scenario.published))
                for signal in signals_for(scenario, effect):
                    before = scenario.refold()
                    records = decide(scenario.conversation, signal, scenario.rules, scenario.now)
                    assert scenario.conversation == before, "the conversation is not touched"
                    assert records == decide(scenario.conversation, signal, scenario.rules, scenario.now)
                    assert records, "a wanted key is never answered with silence"
                    after = scenario.conversation.fork()
                    for record in records:
                        after.apply(record)
                    assert effect.key not in pending(after)
                    assert decide(after, signal, scenario.rules, scenario.now) == []
                    checked += 1
                scenario.now, (scenario.ran, scenario.published) = now, world
            scenario.step()
    assert scenario.records(r.Ended)
    assert checked > 300


@pytest.mark.parametrize(
    "part", ["", "0", "x ws://relay", "-1 ws://relay", "1 ws://relay", "0 ws://other", "² ws://relay"]
)
def test_a_publication_that_is_not_wanted_has_no_effect(part: str) -> None:
    scenario = scenario_at(Phase.CHAT)
    scenario.user_writes("/help")
    sent = next(iter(scenario.conversation.outbox))
    signal = Published(key=Key(Work.PUBLISH, sent, part), outcome=PublishOutcome(accepted=True))
    assert decide(scenario.conversation, signal, scenario.rules, scenario.now) == []


def test_opening_a_conversation_that_has_nothing_to_do_has_no_effect() -> None:
    scenario = scenario_at(Phase.CHAT).settle()
    assert scenario.handle(Opened()) == []
    fresh = Conversation(id=ID)
    assert decide(fresh, Opened(), scenario.rules, scenario.now) == []


def test_opening_ends_open_calls_that_may_run_only_once_and_leaves_the_others() -> None:
    calls = [("send", {"path": "a"}), ("read_file", {}), ("send", {"path": "b"})]
    scenario = scenario_at(
        Phase.CHAT,
        Router(route("execute", "executor"), WAITS),
        model_by_phase(execute=[reply("", *calls), reply("done")]),
    )
    step_until(scenario, lambda it: len(it.records(r.ToolCallStarted)) == 2)
    read = next(effect.key for effect in in_flight(scenario) if effect.request.tool == "read_file")  # type: ignore[union-attr]
    records = scenario.handle(Opened())
    kinds = [type(record).__name__ for record in records]
    assert kinds == ["ProcessRestarted", "ToolCallCompleted", "ToolCallStarted"]
    assert records[1].content == "unknown: the process stopped while this ran; check before repeating"  # type: ignore[attr-defined]
    assert read in pending(scenario.conversation), "what may run again simply is still pending"
    scenario.settle()
    assert scenario.conversation.waiting_for == "user"


def test_keys_that_were_never_wanted_have_no_effect() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    step_until(scenario, lambda it: it.conversation.turn is not None)
    (wanted,) = (effect.key for effect in in_flight(scenario))
    result = ToolResult(ok=True, content="")
    strange: list[Signal] = [
        ToolReturned(key=Key(Work.TOOL, wanted.seq), result=result),
        ToolReturned(key=wanted, result=result),
        ModelAnswered(key=Key(Work.MODEL, 10**9), step=reply("x")),
        ModelAnswered(key=Key(Work.MODEL, wanted.seq, "part"), step=reply("x")),
        ModelFailed(key=Key(Work.ROUTE, 1), message="x", retryable=True),
        ModelFailed(key=Key(Work.TIMER, 1), message="x", retryable=False),
        *(TimerFired(key=Key(Work.TIMER, wanted.seq, part)) for part in ("retry", "route", "announce", "expire", "")),
    ]
    assert all(decide(scenario.conversation, signal, scenario.rules, scenario.now) == [] for signal in strange)


def test_a_transition_is_announced_in_one_line_if_no_message_has_shown_it_and_shown_once() -> None:
    for announces in (True, False):
        scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
        step_until(scenario, lambda it: it.conversation.unannounced is not None)
        moved = scenario.records(r.PhaseTransition)[0]
        timer = next(e for e in scenario.running.values() if isinstance(e, Timer) and e.key.part == "announce")
        assert timer.due == moved.at + scenario.rules.limits.announce_after
        if announces:
            scenario.fire("announce")
            sent = scenario.records(r.MessageSent)[-1]
            assert (sent.text, sent.purpose) == ("Now in execute: on to execute", "announcement")
            assert sent.tags[:3] == (("phase", "execute"), ("phase-from", "chat"), ("new-phase", "execute"))
        scenario.settle()
        last = scenario.records(r.MessageSent)[-1]
        assert last.tags[:1] == (("phase", "execute"),)
        assert (("phase-from", "chat") in last.tags) is not announces
        assert not any(effect.key.part == "announce" for effect in scenario.running.values())


def test_one_relay_that_has_it_gives_the_others_three_days() -> None:
    assert Millis(3 * 24 * 3_600_000) == OUTBOX_EXPIRY
    for answers in (True, False):
        scenario = scenario_at(Phase.CHAT)
        last = scenario.records(r.MessageSent)[-1]
        both = dataclasses.replace(last, seq=scenario.conversation.next_seq, relays=(RELAY, "ws://dead"))
        scenario.conversation.apply(both)
        scenario.journal.append((both,))
        accepted = Published(key=Key(Work.PUBLISH, both.seq, f"0 {RELAY}"), outcome=PublishOutcome(accepted=True))
        scenario.handle(accepted)
        timers = [e for e in pending(scenario.conversation).values() if e.key.part == "expire"]
        assert [timer.due for timer in timers if isinstance(timer, Timer)] == [scenario.now + OUTBOX_EXPIRY]
        if answers:
            key = Key(Work.PUBLISH, both.seq, "0 ws://dead")
            scenario.handle(Published(key=key, outcome=PublishOutcome(accepted=False)))
        else:
            scenario.handle(TimerFired(key=timers[0].key))
        assert both.seq not in scenario.conversation.outbox


def test_no_key_ever_means_two_things() -> None:
    """Over a whole conversation each key represents one piece of work, whatever happens in between."""
    scenario, seen = Scenario(seven_phases, diligent), dict[Key, Effect]()

    def note() -> None:
        for key, effect in pending(scenario.conversation).items():
            if isinstance(effect, ModelCall):
                assert seen.setdefault(key, effect) == effect, "a call that is in flight never changes"
            assert type(seen.setdefault(key, effect)) is type(effect)

    steps: Callable[[], bool] = scenario.step
    for text in ("a", "b", "/stop", "/retry", "c", "blue", "d", "/new", "e"):
        scenario.user_writes(text)
        note()
        while steps():
            note()
            assert list(pending(scenario.conversation)) == list(pending(scenario.refold())), "in a stable order"
    assert len(seen) > 40


def test_a_record_out_of_order_is_refused_and_changes_nothing() -> None:
    scenario = scenario_at(Phase.CHAT)
    before = scenario.refold()
    for seq in (0, 1, scenario.conversation.next_seq - 1, scenario.conversation.next_seq + 1):
        with pytest.raises(ValueError, match="is next"):
            scenario.conversation.apply(r.Stopped(seq=seq, at=scenario.now, name="x"))
    assert scenario.conversation == before
