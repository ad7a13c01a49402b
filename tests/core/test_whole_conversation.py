"""A run as state through a whole conversation: parallel agents, an ask, every order, a crash at every append."""

from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tests.fakes.scenario import Scenario, diligent, seven_phases

ALL = [Phase.BRAINSTORM, Phase.PLAN, Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION]


def whole(settle: Callable[[Scenario], object], crash_at: tuple[int, str] | None = None) -> Scenario:
    """Alice goes the long way round and answers what she is asked."""
    scenario = Scenario(seven_phases, diligent)
    scenario.crash_at = crash_at
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        if scenario.conversation.status != "ended":
            scenario.user_writes(text)
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


@pytest.mark.parametrize("seed", range(10))
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
