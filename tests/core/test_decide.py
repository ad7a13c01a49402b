"""`decide` is pure and final, also in a whole conversation: in any order, with a crash at every append."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import new_conversation
from tenex.core.delivery.decide import OUTBOX_EXPIRY
from tenex.core.delivery.state import OUTBOX_LONGEST
from tenex.core.dispatch import decide
from tenex.core.effects import Key, ModelCall, Timer, Work
from tenex.core.ids import EventId, Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.port_values import Wrap
from tenex.core.ports import PublishOutcome, ToolResult
from tenex.core.signals import (
    InboundMessage,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    Published,
    Signal,
    TimerFired,
    ToolReturned,
)
from tenex.store.view_json import render
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ALICE,
    ID,
    RELAY,
    WAITS,
    Router,
    Scenario,
    diligent,
    in_flight,
    longest_way,
    model_by_phase,
    plain_model,
    reply,
    route,
    scenario_at,
    step_until,
)


def test_what_is_pending_has_a_stable_order_and_a_call_in_flight_never_changes() -> None:
    scenario = Scenario(longest_way, diligent)
    for text in ("hello", "let us think", "plan it", "blue"):
        scenario.user_writes(text)
        while scenario.step():
            wanted = pending(scenario.conversation)
            assert list(wanted) == list(pending(scenario.refold()))
            assert all(wanted[key] == run for key, run in scenario.running.items() if isinstance(run, ModelCall))
    assert scenario.records(r.Ended)


@pytest.mark.parametrize(
    "part", ["", "0", "x ws://relay", "-1 ws://relay", "1 ws://relay", "0 ws://other", "² ws://relay"]
)
def test_a_publication_that_is_not_wanted_has_no_effect(part: str) -> None:
    scenario = scenario_at(Phase.CHAT)
    scenario.user_writes("/help")
    sent = next(iter(scenario.conversation.delivery.outbox))
    signal = Published(key=Key(Work.PUBLISH, sent, part), outcome=PublishOutcome(accepted=True))
    assert not decide(scenario.conversation, signal, scenario.policy, scenario.now).records


def test_opening_a_conversation_that_has_nothing_to_do_has_no_effect() -> None:
    scenario = scenario_at(Phase.CHAT).settle()
    assert scenario.handle(Opened()) == []
    fresh = new_conversation(ID)
    assert not decide(fresh, Opened(), scenario.policy, scenario.now).records


def test_opening_ends_open_calls_that_may_run_only_once_and_leaves_the_others() -> None:
    calls = reply("", ("send", {"path": "a"}), ("read_file", {}), ("send", {"path": "b"}))
    router = Router(route("execute", "executor"), WAITS)
    scenario = scenario_at(Phase.CHAT, router, model_by_phase(execute=[calls, reply("done")]))
    step_until(scenario, lambda it: len(it.records(r.ToolCallStarted)) == 1)
    records = scenario.handle(Opened())
    kinds = [type(record).__name__ for record in records]
    assert kinds == ["ProcessRestarted", "ToolCallCompleted", "ToolCallStarted"]
    assert records[1].content == "unknown: the process stopped while this ran; check before repeating"  # type: ignore[attr-defined]
    (read,) = in_flight(scenario)
    assert [type(record).__name__ for record in scenario.handle(Opened())] == ["ProcessRestarted"]
    assert read.key in pending(scenario.conversation), "what may run again simply is still pending"
    scenario.settle()
    assert scenario.conversation.cycle.waiting_for == "user"


def test_keys_that_were_never_wanted_have_no_effect() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
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
    assert not any(decide(scenario.conversation, signal, scenario.policy, scenario.now).records for signal in strange)


def test_a_transition_sends_nothing_and_is_shown_by_the_next_message_once() -> None:
    """`Now in execute` was a notification on a phone."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    step_until(scenario, lambda it: phases_of(it.conversation).unannounced is not None)
    before = scenario.sent_texts()
    scenario.settle()
    first, *later = scenario.records(r.MessageSent)[len(before) :]
    assert first.purpose == "completion"
    assert first.tags[:3] == (("phase", "execute"), ("phase-from", "chat"), ("new-phase", "execute"))
    assert not any(name == "phase-from" for message in later for name, *_ in message.tags)


def expiry(scenario: Scenario, sent: r.MessageSent) -> Timer:
    """The timer that ends the outbox row of a message."""
    wanted = pending(scenario.conversation).values()
    (timer,) = (effect for effect in wanted if effect.key.seq == sent.seq and isinstance(effect, Timer))
    return timer


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
        assert expiry(scenario, both).due == scenario.now + OUTBOX_EXPIRY
        if answers:
            key = Key(Work.PUBLISH, both.seq, "0 ws://dead")
            scenario.handle(Published(key=key, outcome=PublishOutcome(accepted=False)))
        else:
            scenario.handle(TimerFired(key=expiry(scenario, both).key))
        assert both.seq not in scenario.conversation.delivery.outbox


def test_a_message_that_no_relay_takes_is_given_up_after_thirty_days_and_says_who_has_none() -> None:
    """Also a private one: its copies go to relays that its readers have named, and these may be gone for ever."""
    scenario = scenario_at(Phase.CHAT)
    last = scenario.records(r.MessageSent)[-1]
    first, second = (dataclasses.replace(last.events[0], id=EventId(digit * 64)) for digit in "12")
    wraps = (Wrap(event=first, relays=("ws://dead", "ws://gone")), Wrap(event=second, relays=("ws://dead", RELAY)))
    sent = dataclasses.replace(last, seq=scenario.conversation.next_seq, at=scenario.now, wraps=wraps)
    scenario.conversation.apply(sent)
    scenario.journal.append((sent,))

    assert expiry(scenario, sent).due == sent.at + OUTBOX_LONGEST
    refusal = PublishOutcome(accepted=False, detail="blocked: you")
    scenario.handle(Published(key=Key(Work.PUBLISH, sent.seq, "0 ws://gone"), outcome=refusal))
    assert expiry(scenario, sent).due == sent.at + OUTBOX_LONGEST
    scenario.handle(Published(key=Key(Work.PUBLISH, sent.seq, f"1 {RELAY}"), outcome=PublishOutcome(accepted=True)))
    assert expiry(scenario, sent).due == scenario.now + OUTBOX_EXPIRY
    scenario.handle(TimerFired(key=expiry(scenario, sent).key))
    expired = scenario.records(r.OutboxExpired)[-1]
    assert (expired.relays, expired.accepted, expired.lost) == (("ws://dead",), 1, 1)
    assert sent.seq not in scenario.conversation.delivery.outbox


def refused_by_the_first_relay(others: tuple[str, ...]) -> tuple[Scenario, r.MessageSent]:
    """A conversation whose newest message goes to one relay, which refuses it, and then to these others."""
    scenario = scenario_at(Phase.CHAT)
    last = scenario.records(r.MessageSent)[-1]
    sent = dataclasses.replace(last, seq=scenario.conversation.next_seq, relays=(RELAY,), others=others)
    scenario.conversation.apply(sent)
    scenario.journal.append((sent,))
    refusal = PublishOutcome(accepted=False, detail="blocked: you")
    scenario.handle(Published(key=Key(Work.PUBLISH, sent.seq, f"0 {RELAY}"), outcome=refusal))
    return scenario, sent


def test_a_refusal_gives_the_relays_that_are_tried_in_its_place_three_days() -> None:
    scenario, sent = refused_by_the_first_relay(others=("ws://dead",))
    timer = expiry(scenario, sent)
    assert timer.due == scenario.now + OUTBOX_EXPIRY
    scenario.handle(TimerFired(key=timer.key))
    assert sent.seq not in scenario.conversation.delivery.outbox


def test_what_one_relay_refused_and_none_accepted_is_shown_as_undelivered() -> None:
    scenario, sent = refused_by_the_first_relay(others=("ws://other",))

    def shown() -> list[tuple[str, bool]]:
        view = json.loads(render(scenario.conversation))
        return [(refusal["relay"], refusal["isDelivered"]) for refusal in view["refusals"]]

    assert shown() == [(RELAY, False)]
    accepted = Published(key=Key(Work.PUBLISH, sent.seq, "0 ws://other"), outcome=PublishOutcome(accepted=True))
    scenario.handle(accepted)
    assert shown() == [(RELAY, True)]


def test_a_record_out_of_order_is_refused_and_changes_nothing() -> None:
    scenario = scenario_at(Phase.CHAT)
    before = scenario.refold()
    for seq in (0, 1, scenario.conversation.next_seq - 1, scenario.conversation.next_seq + 1):
        with pytest.raises(ValueError, match="is next"):
            scenario.conversation.apply(r.Stopped(seq=seq, at=scenario.now, name="x"))
    assert scenario.conversation == before


ALL = [Phase.BRAINSTORM, Phase.PLAN, Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION]


def whole(settle: Callable[[Scenario], object], crash_at: tuple[int, str] | None = None) -> Scenario:
    """Alice goes the long way round and answers what she is asked."""
    scenario = Scenario(longest_way, diligent)
    scenario.crash_at = crash_at
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        if scenario.conversation.cycle.status != "ended":
            scenario.user_writes(text)
            settle(scenario)
    return scenario


def check_whole(scenario: Scenario) -> None:
    """What must hold of a finished conversation, whatever happened on the way."""
    conversation = scenario.conversation
    assert conversation.cycle.status == "ended"
    assert scenario.phases() == ALL
    assert all(len(contents) == 1 for contents in scenario.published.values()), "one id, one content"
    turns = conversation.history.turns if conversation.history else []
    assert all(turn.is_completed and len(turn.completions) == len(turn.agents) for turn in turns)
    assert set(conversation.cycle.participants) == phases_of(conversation).reflected
    finished = {record.call for record in scenario.records(r.ToolCallCompleted) if record.ok}
    assert finished
    assert not conversation.delivery.outbox
    assert not pending(conversation)
    once = [rec for rec in scenario.records(r.ToolCallStarted) if rec.replay == "once"]
    assert all(scenario.ran[f"{conversation.id}:{record.seq}"] <= 1 for record in once)
    assert "Which colour?" in scenario.sent_texts()
    answer = scenario.records(r.QuestionAnswered)[0]
    assert (answer.text, answer.name) == ("blue", "alice")


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_results_leads_to_the_same_end(seed: int) -> None:
    check_whole(whole(lambda scenario: scenario.settle(seed)))


APPENDS = whole(Scenario.settle).appends


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("append", range(1, APPENDS + 1))
def test_b21_a_crash_at_every_append_loses_and_repeats_nothing(append: int, moment: str) -> None:
    """Whom a run waited for was kept in memory, in a value that could not be written."""
    scenario = whole(Scenario.settle, (append, moment))
    assert scenario.crashed == 1
    check_whole(scenario)
    permitted = {rec.seq: rec for rec in scenario.records(r.ToolCallStarted)}
    runs_again = [seq for seq in permitted if scenario.ran[f"{scenario.conversation.id}:{seq}"] > 1]
    assert len(runs_again) <= (moment == "before"), "only the call whose result was lost runs again"


@pytest.mark.parametrize(
    ("address", "is_outside"),
    [
        ({"group": "g", "relays": ["wss://g"]}, False),
        ({"group": "g", "relays": ["wss://open"]}, True),
        ({"group": "h", "relays": ["wss://g"]}, True),
        ({"relays": ["wss://g"]}, True),
    ],
)
def test_a_message_from_outside_the_group_of_a_conversation_is_recorded_as_such(
    address: dict[str, Any], is_outside: bool
) -> None:
    """Who has written may read a conversation; its id alone must not make anyone one who has."""
    scenario = Scenario(Router(WAITS), plain_model)
    for event, place in (("1", {"group": "g", "relays": ["wss://g"]}), ("2", address)):
        message = InboundMessage(
            event_id=EventId(event), author=ALICE, text="hi", created_at=1, conversation=ID, starts=True, address=place
        )
        scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))
    assert [record.is_outside for record in scenario.records(r.MessageRecorded)] == [False, is_outside]
