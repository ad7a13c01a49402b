"""`decide` is pure and final: the same arguments give the same records, and a signal settles its key."""

import copy
from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.decide.dispatch import OUTBOX_EXPIRY, decide
from tenex.core.effects import Effect, Key, ModelCall, Route, Timer, Work
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import PublishOutcome
from tenex.core.signals import ModelFailed, Opened, Published, Signal, TimerFired
from tests.fakes.play import ID, RELAY, Play, diligent, says, seven_phases

from .kit import WAITS, Script, go, mind, standing, until, work


def signals_for(play: Play, effect: Effect) -> list[Signal]:
    """Every way in which a piece of work can end."""
    ways = [play.perform(effect)]
    if isinstance(effect, (Route, ModelCall)):
        ways += [ModelFailed(key=effect.key, message="x", retryable=retryable) for retryable in (True, False)]
    if effect.key.work is Work.PUBLISH:
        ways += [Published(key=effect.key, outcome=PublishOutcome(accepted=False, detail="blocked"))]
    return ways


@pytest.mark.parametrize("text", ["a", "/quick"])
def test_a_signal_settles_its_key_at_every_step_of_a_whole_conversation(text: str) -> None:
    """Whatever way a task ends, the records make its key not pending, and the same signal then says nothing."""
    play, checked = Play(seven_phases, diligent), 0
    for word in ("hello", text, "let us think", "plan it", "blue"):
        play.person(word)
        while play.running and any(not isinstance(effect, Timer) for effect in play.running.values()):
            for effect in list(play.running.values()):
                now, world = play.now, (copy.copy(play.ran), copy.deepcopy(play.published))
                for signal in signals_for(play, effect):
                    before = play.refold()
                    records = decide(play.conversation, signal, play.rules, play.now)
                    assert play.conversation == before, "the conversation is not touched"
                    assert records == decide(play.conversation, signal, play.rules, play.now)
                    assert records, "a wanted key is never answered with silence"
                    after = play.conversation.fork()
                    for record in records:
                        after.apply(record)
                    assert effect.key not in pending(after)
                    assert decide(after, signal, play.rules, play.now) == []
                    checked += 1
                play.now, (play.ran, play.published) = now, world
            play.step()
    assert play.all(r.Ended)
    assert checked > 300


def test_a_timer_that_is_not_wanted_says_nothing() -> None:
    play = standing(Phase.CHAT)
    for part in ("warn", "close", "retry", "route", "announce", "expire", "", "nonsense"):
        assert decide(play.conversation, TimerFired(key=Key(Work.TIMER, 1, part)), play.rules, play.now) == []


@pytest.mark.parametrize(
    "part", ["", "0", " ", "x ws://relay", "-1 ws://relay", "1 ws://relay", "0 ws://other", "² ws://relay"]
)
def test_a_publication_that_is_not_wanted_says_nothing(part: str) -> None:
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    said = next(iter(play.conversation.outbox), None)
    if said is None:
        play.person("/help")
        said = next(iter(play.conversation.outbox))
    signal = Published(key=Key(Work.PUBLISH, said, part), outcome=PublishOutcome(accepted=True))
    assert decide(play.conversation, signal, play.rules, play.now) == []


# ---- opening ------------------------------------------------------------------------------------------------------


def test_opening_a_conversation_that_has_nothing_to_do_says_nothing() -> None:
    play = standing(Phase.CHAT)
    play.settle()
    assert play.hear(Opened()) == []
    fresh = Conversation(id=ID)
    assert decide(fresh, Opened(), play.rules, play.now) == []


def test_opening_ends_open_calls_that_may_run_only_once_and_leaves_the_others() -> None:
    calls = [("send", {"path": "a"}), ("read_file", {}), ("send", {"path": "b"})]
    play = standing(
        Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=[says("", *calls), says("done")])
    )
    until(play, lambda it: len(it.all(r.ToolCallStarted)) == 2)
    read = next(effect.key for effect in work(play) if effect.request.tool == "read_file")  # type: ignore[union-attr]
    records = play.hear(Opened())
    kinds = [type(record).__name__ for record in records]
    assert kinds == ["ProcessRestarted", "ToolCallCompleted", "ToolCallStarted"]
    assert records[1].content == "unknown: the process stopped while this ran; check before repeating"  # type: ignore[attr-defined]
    assert read in pending(play.conversation), "what may run again simply is still pending"
    play.settle()
    assert play.conversation.waiting_for == "user"


def test_opening_twice_repeats_nothing() -> None:
    play = standing(
        Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=[says("", ("send", {})), says("ok")])
    )
    until(play, lambda it: bool(it.all(r.ToolCallStarted)))
    play.crash()
    play.crash()
    assert len(play.all(r.ToolCallCompleted)) == 1
    assert len(play.all(r.ProcessRestarted)) == 2


# ---- what is said -------------------------------------------------------------------------------------------------


def unannounced() -> Play:
    """A play in which a transition has been made that no message has shown."""
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS))
    until(play, lambda it: it.conversation.unannounced is not None)
    return play


def test_a_transition_no_message_has_shown_is_announced_in_one_line() -> None:
    play = unannounced()
    moved = play.all(r.PhaseTransition)[0]
    timer = next(e for e in play.running.values() if isinstance(e, Timer) and e.key.part == "announce")
    assert timer.due == moved.at + play.rules.limits.announce_after
    play.fire("announce")
    said = play.all(r.MessageSent)[-1]
    assert (said.text, said.purpose) == ("Now in execute: on to execute", "announcement")
    assert said.tags[:3] == (("phase", "execute"), ("phase-from", "chat"), ("new-phase", "execute"))
    play.settle()
    assert play.all(r.MessageSent)[-1].tags[:1] == (("phase", "execute"),)
    assert not any(tag[0] == "phase-from" for tag in play.all(r.MessageSent)[-1].tags), "shown once"


def test_a_message_that_shows_the_transition_makes_the_announcement_needless() -> None:
    play = unannounced()
    play.settle()
    said = play.all(r.MessageSent)[-1]
    assert ("phase-from", "chat") in said.tags
    assert not any(e.key.part == "announce" for e in play.running.values())


def test_a_completion_says_what_it_cost_and_how_it_came() -> None:
    steps = [says("", ("read_file", {})), says("", ("complete", {"response": "done"}))]
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), mind(execute=steps))
    play.settle()
    tags = dict(tag for tag in play.all(r.MessageSent)[-1].tags if len(tag) == 2)
    assert (tags["status"], tags["tool"], tags["llm-model"]) == ("completed", "complete", "script")
    assert (tags["llm-prompt-tokens"], tags["llm-completion-tokens"], tags["llm-total-tokens"]) == ("20", "10", "30")
    assert "llm-cost-usd" not in tags, "no price is known"


def test_one_relay_that_has_it_gives_the_others_three_days() -> None:
    play = standing(Phase.CHAT)
    said = play.all(r.MessageSent)[-1]
    both = r.MessageSent(
        seq=play.conversation.next_seq,
        at=play.now,
        speaker=said.speaker,
        name=said.name,
        text="x",
        purpose="notice",
        phase=said.phase,
        events=said.events,
        relays=(RELAY, "ws://dead"),
    )
    play.conversation.apply(both)
    play.journal.append((both,))
    play.reconcile()
    play.hear(Published(key=Key(Work.PUBLISH, both.seq, "0 ws://dead"), outcome=PublishOutcome(accepted=False)))
    assert both.seq in play.conversation.outbox
    play.hear(Published(key=Key(Work.PUBLISH, both.seq, f"0 {RELAY}"), outcome=PublishOutcome(accepted=True)))
    assert both.seq not in play.conversation.outbox
    assert Millis(3 * 24 * 3_600_000) == OUTBOX_EXPIRY


def test_a_relay_that_never_answers_is_given_up_after_the_expiry() -> None:
    play = standing(Phase.CHAT)
    said = play.all(r.MessageSent)[-1]
    both = r.MessageSent(
        seq=play.conversation.next_seq,
        at=play.now,
        speaker=said.speaker,
        name=said.name,
        text="x",
        purpose="notice",
        phase=said.phase,
        events=said.events,
        relays=(RELAY, "ws://dead"),
    )
    play.conversation.apply(both)
    play.journal.append((both,))
    play.hear(Published(key=Key(Work.PUBLISH, both.seq, f"0 {RELAY}"), outcome=PublishOutcome(accepted=True)))
    (timer,) = [e for e in pending(play.conversation).values() if isinstance(e, Timer) and e.key.part == "expire"]
    assert timer.due == play.now + OUTBOX_EXPIRY
    play.hear(TimerFired(key=timer.key))
    assert both.seq not in play.conversation.outbox


# ---- keys ---------------------------------------------------------------------------------------------------------


def test_no_key_ever_means_two_things() -> None:
    """Over a whole conversation each key stands for one piece of work, whatever happens in between."""
    play, seen = Play(seven_phases, diligent), dict[Key, Effect]()

    def note() -> None:
        for key, effect in pending(play.conversation).items():
            if isinstance(effect, ModelCall):
                assert seen.setdefault(key, effect) == effect, "a call that is in flight never changes"
            assert type(seen.setdefault(key, effect)) is type(effect)

    steps: Callable[[], bool] = play.step
    for text in ("a", "b", "/stop", "/retry", "c", "blue", "d", "/new", "e"):
        play.person(text)
        note()
        while steps():
            note()
    assert len(seen) > 40


def test_pending_has_a_stable_order() -> None:
    play = Play(seven_phases, diligent)
    for text in ("a", "b", "c"):
        play.person(text)
        while play.step():
            assert list(pending(play.conversation)) == list(pending(play.refold()))


def test_a_record_out_of_order_is_refused_and_changes_nothing() -> None:
    play = standing(Phase.CHAT)
    before = play.refold()
    for seq in (0, 1, play.conversation.next_seq - 1, play.conversation.next_seq + 1):
        with pytest.raises(ValueError, match="is next"):
            play.conversation.apply(r.Stopped(seq=seq, at=play.now, name="x"))
    assert play.conversation == before
