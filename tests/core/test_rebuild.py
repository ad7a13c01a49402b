"""What `JournalRebuilt` does to a state in the middle of work: nothing is in flight after it and nothing grows."""

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.ids import EventId, Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.state.conversation import SEEN
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases


def test_open_work_is_over() -> None:
    """After every record of a scenario with questions, calls and deliveries in flight."""
    scenario = Scenario(seven_phases, diligent).converse("I want something nice")
    for _ in range(2):
        scenario.converse("go on")
    records = scenario.records()
    assert scenario.conversation.asks  # an agent waits for an answer at the end
    for cut in range(1, len(records) + 1):
        state = fold(ID, records[:cut])
        state.apply(r.JournalRebuilt(seq=state.next_seq, at=Millis(9), source="relay"))
        assert not pending(state)
        assert (state.turn, dict(state.runs), state.question, dict(state.asks)) == (None, {}, None, {})


def test_known_events_are_bounded_and_the_newest_stay() -> None:
    state = fold(ID, [])
    seen = tuple(EventId(f"{number:064x}") for number in range(3 * SEEN))
    state.apply(r.JournalRebuilt(seq=1, at=Millis(9), source="relay", known_events=seen))
    assert tuple(state.seen) == seen[-SEEN:]


def test_the_phase_and_gates_of_the_source_are_entered() -> None:
    state = fold(ID, [])
    gates = (Phase.CHORES, Phase.REFLECTION)
    state.apply(
        r.JournalRebuilt(seq=1, at=Millis(9), source="relay", phase=Phase.VERIFICATION, open_gates=gates, turns=4)
    )
    assert (state.phase, state.unmet_gates, state.turn_count) == (Phase.VERIFICATION, gates, 4)
