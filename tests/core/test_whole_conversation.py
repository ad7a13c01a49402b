"""A run as state through a whole conversation: parallel agents, an ask, every order, a crash at every append."""

from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.effects import ModelCall, Route, ToolCall
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tests.fakes.play import ALICE, Play, diligent, seven_phases

ALL = [Phase.BRAINSTORM, Phase.PLAN, Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION]


def whole(settle: Callable[[Play], None], crash_at: tuple[int, str] | None = None) -> Play:
    """Alice goes the long way round and answers what she is asked."""
    play = Play(seven_phases, diligent)
    play.crash_at = crash_at
    play.person("I want something nice")
    settle(play)
    play.person("let us think")
    settle(play)
    play.person("plan it")
    settle(play)
    if play.conversation.status == "active":  # parked on the helper's question
        play.person("blue")
        settle(play)
    return play


def check_whole(play: Play) -> None:
    """What must hold of a finished conversation, whatever happened on the way."""
    conversation = play.conversation
    assert conversation.status == "ended"
    assert play.phases() == ALL
    assert all(PHASE_TRANSITIONS.permits(t.from_, t.to) for t in play.all(r.PhaseTransition))
    assert all(len(contents) == 1 for contents in play.published.values()), "one id, one content"
    turns = conversation.history.turns if conversation.history else []
    assert all(turn.is_completed and len(turn.completions) == len(turn.agents) for turn in turns)
    assert set(conversation.participants) == conversation.reflected
    finished = {record.call for record in play.all(r.ToolCallCompleted) if record.ok}
    assert finished
    assert not conversation.outbox
    assert not pending(conversation)
    assert play.refold() == conversation
    once = [rec for rec in play.all(r.ToolCallStarted) if rec.replay == "once"]
    assert all(play.ran[f"{conversation.id}:{record.seq}"] <= 1 for record in once)


def test_the_long_way_round_reaches_the_end() -> None:
    play = whole(Play.settle)
    check_whole(play)
    assert "Which colour?" in play.said()
    answer = play.all(r.QuestionAnswered)[0]
    assert (answer.text, answer.name) == ("blue", "alice")


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_results_leads_to_the_same_end(seed: int) -> None:
    check_whole(whole(lambda play: play.settle(seed)))


APPENDS = whole(Play.settle).appends


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("append", range(1, APPENDS + 1))
def test_a_crash_at_every_append_loses_and_repeats_nothing(append: int, moment: str) -> None:
    play = whole(Play.settle, (append, moment))
    assert play.crashed == 1
    check_whole(play)
    permitted = {rec.seq: rec for rec in play.all(r.ToolCallStarted)}
    runs_again = [seq for seq in permitted if play.ran[f"{play.conversation.id}:{seq}"] > 1]
    assert len(runs_again) <= (moment == "before"), "only the call whose result was lost runs again"


def test_parallel_agents_are_in_flight_together() -> None:
    play = Play(seven_phases, diligent)
    for text in ("hello", "think", "plan"):
        play.person(text)
        while play.conversation.phase is not Phase.EXECUTE and play.step():
            pass
    wanted = [effect.run for effect in pending(play.conversation).values() if isinstance(effect, ModelCall)]
    assert wanted == ["turn-4.executor", "turn-4.helper"]


def moments() -> int:
    """How many steps the work of a whole conversation has."""
    play, steps = Play(seven_phases, diligent), 0
    for text in ("a", "b", "c", "blue"):
        play.person(text)
        while play.step():
            steps += 1
    return steps


@pytest.mark.parametrize("moment", range(0, moments(), 1))
def test_a_message_at_every_moment_is_seen_or_gets_its_turn(moment: int) -> None:
    """Whenever the person writes, an agent is shown the message, and the conversation still comes to its end."""
    play, steps, written = Play(seven_phases, diligent), 0, False
    for text in ("a", "b", "c", "blue", "go on", "go on"):
        if play.conversation.status == "ended":
            break
        play.person(text)
        while True:
            if steps == moment and not written:
                written = True
                play.person("by the way: make it green", event_id="f" * 64)
            if not play.step():
                break
            steps += 1
    if not written:
        play.person("by the way: make it green", event_id="f" * 64)
        play.settle()
    for _ in range(6):
        if play.conversation.status in ("ended", "waiting") and not play.conversation.unanswered:
            break
        play.person("go on")
        play.settle()
    seq = next(rec.seq for rec in play.all(r.MessageRecorded) if rec.event_id == "f" * 64)
    answers = {rec.message for rec in play.all(r.QuestionAnswered)}
    assert play.conversation.answered >= seq or seq in answers
    assert not any(isinstance(e, (Route, ModelCall, ToolCall)) for e in pending(play.conversation).values())
    assert play.refold() == play.conversation


@pytest.mark.parametrize("moment", range(0, moments(), 2))
def test_a_stop_at_every_moment_ends_all_work_and_waits(moment: int) -> None:
    play, steps = Play(seven_phases, diligent), 0
    for text in ("a", "b", "c", "blue"):
        play.person(text)
        while steps < moment and play.step():
            steps += 1
        if steps >= moment:
            break
    play.person("/stop")
    assert not any(isinstance(e, (Route, ModelCall, ToolCall)) for e in pending(play.conversation).values())
    assert play.conversation.turn is None
    assert play.conversation.status in ("waiting", "ended")
    said = play.said()[-1]
    assert said.startswith("Stopped") or said == "Nothing is running."
    play.settle()
    play.person("go on then")
    play.settle()
    assert play.conversation.answered > 0
    assert play.refold() == play.conversation


def test_the_same_event_twice_gives_one_record() -> None:
    play = Play(seven_phases, diligent)
    assert play.person("hello", event_id="1" * 64)
    assert play.person("hello", event_id="1" * 64) == []
    play.settle()
    play.crash()
    assert play.person("hello", event_id="1" * 64) == []
    assert [rec.author for rec in play.all(r.MessageRecorded)] == [ALICE]
