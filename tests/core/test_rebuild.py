"""What `JournalRebuilt` does to a state in the middle of work: nothing is in flight after it and nothing grows."""

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.ids import EventId, Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records.rebuild import RecoveredPosition
from tenex.core.state.conversation import READ_FILES, SEEN
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases


def test_whatever_was_open_is_over() -> None:
    """After every record of a scenario with questions, calls and deliveries under way."""
    scenario = Scenario(seven_phases, diligent)
    scenario.user_writes("I want something nice")
    scenario.settle()
    for _ in range(2):
        scenario.user_writes("go on")
        scenario.settle()
    records = [record for decision in scenario.journal for record in decision]
    assert scenario.conversation.asks  # somebody waits for an answer at the end
    for cut in range(1, len(records) + 1):
        state = fold(ID, records[:cut])
        state.apply(r.JournalRebuilt(seq=state.next_seq, at=Millis(9), source="relay"))
        assert not pending(state)
        assert (state.turn, dict(state.runs), state.question, dict(state.asks)) == (None, {}, None, {})


def test_what_was_seen_and_read_is_bounded_as_ever_and_the_newest_stay() -> None:
    state = fold(ID, [])
    seen = tuple(EventId(f"{number:064x}") for number in range(3 * SEEN))
    read = {f"{number}.py": "" for number in range(2 * READ_FILES)}
    position = RecoveredPosition(phase=Phase.PLAN, phase_started_at=Millis(1), read_files=read)
    state.apply(r.JournalRebuilt(seq=1, at=Millis(9), source="relay", known_events=seen, position=position))
    assert tuple(state.seen) == seen[-SEEN:]
    assert list(state.read_files) == list(read)[-READ_FILES:]
    assert (state.cycle, state.gates_met, state.participants) == (0, frozenset(), ())
