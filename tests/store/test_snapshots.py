"""A conversation goes on from a checkpoint, written and read, exactly as from all of its records."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from tenex.core.conversation import Conversation, fold
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.records import Record
from tenex.core.state.conversation import State
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tests.fakes.scenario import ALICE, ID, Scenario, diligent, seven_phases

from .kit import asked, encoded, objects_of, records_of, seven_phase_scenario
from .test_view import chatting


def through_the_file(state: State) -> StateSnapshot:
    """The checkpoint of a state, written and read."""
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(state)]])
    (record,), length, fault = CONVERSATION.decode_lines(data)
    assert isinstance(record, StateSnapshot)
    assert (length, fault) == (len(data), None)
    assert CONVERSATION.encode_decisions([[record]]) == data, "the same state has the same bytes"
    return record


def restarted(seed: int) -> Scenario:
    """Killed in the middle of every phase, and stopped by the person in the end."""
    scenario = Scenario(seven_phases, diligent)
    for number, text in enumerate(("/quick build it", "let us think", "plan it", "yes", "go on", "/stop", "/continue")):
        scenario.user_writes(text)
        for _ in range(3 + (seed + number) % 5):
            scenario.step()
        scenario.crash()
    scenario.settle(seed)
    return scenario


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "in order": lambda: seven_phase_scenario("once more, please"),
    "with restarts": lambda: restarted(1),
    "many turns in one cycle": lambda: chatting(12),
}


@pytest.mark.parametrize("make", SCENARIOS.values(), ids=SCENARIOS)
def test_from_a_snapshot_at_any_seq_the_rest_leads_to_the_same_state_and_work(
    make: Callable[[], Scenario],
) -> None:
    scenario = make()
    records = records_of(scenario)
    wanted = pending(scenario.conversation)
    generations = Conversation(id=ID)
    for seq in range(1, len(records) + 1):
        before = fold(ID, records[:seq])
        snapshot = through_the_file(before)
        assert (snapshot.seq, snapshot.at) == (seq, records[seq - 1].at)
        there = fold(ID, [snapshot])
        generations.apply(records[seq - 1])
        generations = fold(ID, [through_the_file(generations)])  # as after years: each from the one before
        assert there == before
        assert list(pending(there).items()) == list(pending(before).items()), "in the same order too"
        assert there.spare_systems("x") == before.spare_systems("x")
        for record in records[seq:]:
            there.apply(record)
        assert there == scenario.conversation
        assert pending(there) == wanted
    assert generations == scenario.conversation
    ((day, people),) = scenario.conversation.spending.items()
    assert (day, {person: usage.tokens for person, usage in people.items()}) == (
        0,
        {ALICE: scenario.conversation.usage.tokens},
    )


@given(state=objects_of(State, id=ID, next_seq=8))
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_every_state_there_could_be_comes_back_as_it_was(state: State) -> None:
    assert through_the_file(state).state == state


def bad(*records: Record) -> str:
    _, _, fault = CONVERSATION.decode_lines(encoded(*records))
    assert fault is not None
    assert fault.kind == "damage"
    return f"line {fault.line}: {fault.what}"


def test_a_checkpoint_anywhere_else_is_damage() -> None:
    state = fold(ID, [])
    state.next_seq = 4
    checkpoint = StateSnapshot.of(state)
    assert bad(asked(1), asked(2), asked(3), checkpoint).startswith("line 4: a snapshot must be alone")
    data = encoded(checkpoint, asked(4))
    assert CONVERSATION.decode_lines(data) == ([checkpoint, asked(4)], len(data), None)
    assert bad(checkpoint, asked(5)) == "line 2: its seq is 5 where 4 must follow"
    assert bad(StateSnapshot(seq=2, at=Millis(1), state=checkpoint.state)).endswith("of another record than its seq")
    joined = CONVERSATION.encode_decisions([[checkpoint, asked(4)]])
    fault = CONVERSATION.decode_lines(joined)[2]
    assert fault is not None
    assert fault.line == 1
