"""A run as state through a whole conversation: parallel agents, an ask, every order, a crash at every append."""

from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.effects import ModelCall, Route, ToolCall
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tests.fakes.scenario import Scenario, diligent, seven_phases

ALL = [Phase.BRAINSTORM, Phase.PLAN, Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION]


def whole(settle: Callable[[Scenario], object], crash_at: tuple[int, str] | None = None) -> Scenario:
    """Alice goes the long way round and answers what she is asked."""
    scenario = Scenario(seven_phases, diligent)
    scenario.crash_at = crash_at
    scenario.user_writes("I want something nice")
    settle(scenario)
    scenario.user_writes("let us think")
    settle(scenario)
    scenario.user_writes("plan it")
    settle(scenario)
    if scenario.conversation.status == "active":  # parked on the helper's question
        scenario.user_writes("blue")
        settle(scenario)
    return scenario


def check_whole(scenario: Scenario) -> None:
    """What must hold of a finished conversation, whatever happened on the way."""
    conversation = scenario.conversation
    assert conversation.status == "ended"
    assert scenario.phases() == ALL
    assert all(PHASE_TRANSITIONS.permits(t.from_, t.to) for t in scenario.records(r.PhaseTransition))
    assert all(len(contents) == 1 for contents in scenario.published.values()), "one id, one content"
    turns = conversation.history.turns if conversation.history else []
    assert all(turn.is_completed and len(turn.completions) == len(turn.agents) for turn in turns)
    assert set(conversation.participants) == conversation.reflected
    finished = {record.call for record in scenario.records(r.ToolCallCompleted) if record.ok}
    assert finished
    assert not conversation.outbox
    assert not pending(conversation)
    assert scenario.refold() == conversation
    once = [rec for rec in scenario.records(r.ToolCallStarted) if rec.replay == "once"]
    assert all(scenario.ran[f"{conversation.id}:{record.seq}"] <= 1 for record in once)


def test_the_long_way_round_reaches_the_end() -> None:
    scenario = whole(Scenario.settle)
    check_whole(scenario)
    assert "Which colour?" in scenario.sent_texts()
    answer = scenario.records(r.QuestionAnswered)[0]
    assert (answer.text, answer.name) == ("blue", "alice")


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_results_leads_to_the_same_end(seed: int) -> None:
    check_whole(whole(lambda scenario: scenario.settle(seed)))


APPENDS = whole(Scenario.settle).appends


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("append", range(1, APPENDS + 1))
def test_a_crash_at_every_append_loses_and_repeats_nothing(append: int, moment: str) -> None:
    scenario = whole(Scenario.settle, (append, moment))
    assert scenario.crashed == 1
    check_whole(scenario)
    permitted = {rec.seq: rec for rec in scenario.records(r.ToolCallStarted)}
    runs_again = [seq for seq in permitted if scenario.ran[f"{scenario.conversation.id}:{seq}"] > 1]
    assert len(runs_again) <= (moment == "before"), "only the call whose result was lost runs again"


def moments() -> int:
    """How many steps the work of a whole conversation has."""
    scenario, steps = Scenario(seven_phases, diligent), 0
    for text in ("a", "b", "c", "blue"):
        scenario.user_writes(text)
        while scenario.step():
            steps += 1
    return steps


@pytest.mark.parametrize("moment", range(0, moments(), 1))
def test_a_message_at_every_moment_is_seen_or_gets_its_turn(moment: int) -> None:
    """Whenever the user writes, an agent is shown the message, and the conversation still comes to its end."""
    scenario, steps, written = Scenario(seven_phases, diligent), 0, False
    for text in ("a", "b", "c", "blue", "go on", "go on"):
        if scenario.conversation.status == "ended":
            break
        scenario.user_writes(text)
        while True:
            if steps == moment and not written:
                written = True
                scenario.user_writes("by the way: make it green", event_id="f" * 64)
            if not scenario.step():
                break
            steps += 1
    if not written:
        scenario.converse("by the way: make it green", event_id="f" * 64)
    for _ in range(6):
        if scenario.conversation.status in ("ended", "waiting") and not scenario.conversation.unanswered:
            break
        scenario.converse("go on")
    seq = next(rec.seq for rec in scenario.records(r.MessageRecorded) if rec.event_id == "f" * 64)
    answers = {rec.message for rec in scenario.records(r.QuestionAnswered)}
    assert scenario.conversation.answered >= seq or seq in answers
    assert not any(isinstance(e, (Route, ModelCall, ToolCall)) for e in pending(scenario.conversation).values())


@pytest.mark.parametrize("moment", range(0, moments(), 2))
def test_a_stop_at_every_moment_ends_all_work_and_waits(moment: int) -> None:
    scenario, steps = Scenario(seven_phases, diligent), 0
    for text in ("a", "b", "c", "blue"):
        scenario.user_writes(text)
        while steps < moment and scenario.step():
            steps += 1
        if steps >= moment:
            break
    scenario.user_writes("/stop")
    assert not any(isinstance(e, (Route, ModelCall, ToolCall)) for e in pending(scenario.conversation).values())
    assert scenario.conversation.turn is None
    assert scenario.conversation.status in ("waiting", "ended")
    sent = scenario.sent_texts()[-1]
    assert sent.startswith("Stopped") or sent == "Nothing is running."
    scenario.settle()
    scenario.converse("go on then")
    assert scenario.conversation.answered > 0
