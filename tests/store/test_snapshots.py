"""A conversation goes on from a checkpoint, written and read, exactly as from all of its records."""

import json
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
from tests.fakes.scenario import ALICE, ID, Scenario, diligent, plain_model, seven_phases

from .kit import asked, objects_of, records_of
from .test_view import chatting


def through_the_file(state: State) -> StateSnapshot:
    """The checkpoint of a state, written and read."""
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(state)]])
    (record,), length, fault = CONVERSATION.decode_lines(data)
    assert isinstance(record, StateSnapshot)
    assert (length, fault) == (len(data), None)
    assert CONVERSATION.encode_decisions([[record]]) == data, "the same state has the same bytes"
    return record


def test_what_the_day_has_cost_is_in_a_checkpoint() -> None:
    scenario = whole(None)
    ((day, people),) = scenario.conversation.spending.items()
    assert (day, {person: usage.tokens for person, usage in people.items()}) == (
        0,
        {ALICE: scenario.conversation.usage.tokens},
    )
    assert (
        through_the_file(scenario.conversation).state.spending
        == scenario.conversation.spending
        == scenario.refold().spending
    )


def whole(seed: int | None) -> Scenario:
    scenario = Scenario(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue", "once more, please"):
        scenario.user_writes(text)
        scenario.settle(seed)
    return scenario


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
    "in order": lambda: whole(None),
    "in another order": lambda: whole(4),
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
    for seq in range(1, len(records) + 1):
        before = fold(ID, records[:seq])
        there = fold(ID, [through_the_file(before)])
        assert there == before
        assert list(pending(there).items()) == list(pending(before).items()), "in the same order too"
        assert there.spare_systems("x") == before.spare_systems("x")
        for record in records[seq:]:
            there.apply(record)
        assert there == scenario.conversation
        assert pending(there) == wanted


def test_checkpoint_after_checkpoint_nothing_is_lost() -> None:
    """As after years: every state is read from the checkpoint of the one before."""
    scenario = whole(None)
    there = Conversation(id=ID)
    for record in records_of(scenario):
        there.apply(record)
        there = fold(ID, [through_the_file(there)])
    assert there == scenario.conversation


@given(state=objects_of(State, id=ID, next_seq=8))
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_every_state_there_could_be_comes_back_as_it_was(state: State) -> None:
    assert through_the_file(state).state == state


def test_a_checkpoint_bears_the_seq_and_the_time_of_the_last_record_it_sums_up() -> None:
    scenario = whole(None)
    line = json.loads(CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]]))
    last = records_of(scenario)[-1]
    assert (line["v"], line["seq"], line["remaining"], line["at"]) == (1, last.seq, 0, last.at)
    assert line["type"] == "StateSnapshot"
    assert line["data"]["state"]["cycle"] == scenario.conversation.cycle


def test_a_file_may_begin_with_a_checkpoint_and_goes_on_from_its_seq() -> None:
    scenario = Scenario(seven_phases, plain_model)
    scenario.user_writes("hello")
    records = records_of(scenario)
    checkpoint = StateSnapshot.of(fold(ID, records[:2]))
    data = CONVERSATION.encode_decisions([[checkpoint], *([record] for record in records[2:])])
    assert CONVERSATION.decode_lines(data) == ([checkpoint, *records[2:]], len(data), None)


def bad(*records: Record) -> str:
    _, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[record] for record in records]))
    assert fault is not None
    assert fault.kind == "damage"
    return f"line {fault.line}: {fault.what}"


def test_a_checkpoint_anywhere_else_is_damage() -> None:
    state = fold(ID, [])
    state.next_seq = 4
    checkpoint = StateSnapshot.of(state)
    assert bad(asked(1), asked(2), asked(3), checkpoint).startswith("line 4: a snapshot must be alone")
    assert bad(checkpoint, asked(5)) == "line 2: its seq is 5 where 4 must follow"
    assert bad(StateSnapshot(seq=2, at=Millis(1), state=checkpoint.state)).endswith("of another record than its seq")
    joined = CONVERSATION.encode_decisions([[checkpoint, asked(4)]])
    fault = CONVERSATION.decode_lines(joined)[2]
    assert fault is not None
    assert fault.line == 1
