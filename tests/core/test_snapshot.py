"""A checkpoint represents all records before it, and what it holds does not grow with them."""

from dataclasses import fields, replace

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import CallId, ConversationId, EventId, Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.state.conversation import BLOCK, READ_FILES, SEEN, SYSTEMS, History, State
from tenex.core.state.snapshot import StateSnapshot
from tests.fakes.scenario import ID, Scenario, diligent, seven_phases


def begun() -> Scenario:
    return Scenario(seven_phases, diligent).converse("build it")


def test_a_checkpoint_on_the_way_adds_nothing() -> None:
    scenario = begun()
    records = scenario.records()
    for seq in range(1, len(records) + 1):
        inserted = [*records[:seq], StateSnapshot.of(fold(ID, records[:seq])), *records[seq:]]
        assert fold(ID, inserted) == scenario.conversation


def test_a_checkpoint_of_anything_else_is_refused_and_changes_nothing() -> None:
    scenario = begun()
    good = StateSnapshot.of(scenario.conversation)
    beside = Conversation(id=ConversationId("d" * 64))
    with pytest.raises(ValueError, match="another conversation"):
        beside.apply(good)
    assert beside == Conversation(id=ConversationId("d" * 64))
    with pytest.raises(ValueError, match="another moment"):
        Conversation(id=ID).apply(replace(good, seq=good.seq + 1))
    with pytest.raises(ValueError, match="comes where"):
        fold(ID, [good, r.RetryDue(seq=good.seq + 1, at=Millis(1), run=None)]).apply(good)


def test_the_history_keeps_the_newest_from_one_block_to_two() -> None:
    scenario = begun().converse("let us think")
    history = scenario.conversation.history
    assert history is not None
    turn, move = history.turns[-1], history.transitions[-1]
    history = History()
    for number in range(5 * BLOCK):
        history = history.closed(replace(turn, seq=number)).moved(replace(move, seq=number))
        assert history.turns_before + len(history.turns) == number + 1
        assert history.transitions_before + len(history.transitions) == number + 1
        assert history.turns_before % BLOCK == history.transitions_before % BLOCK == 0
        assert min(BLOCK, number + 1) <= len(history.turns) < 2 * BLOCK
        assert history.turns[-1].seq == history.transitions[-1].seq == number


def running() -> tuple[Scenario, r.RunStarted, Conversation]:
    """A scenario, its first `RunStarted`, and the state just before that."""
    scenario = begun()
    records = scenario.records()
    started = next(record for record in records if isinstance(record, r.RunStarted))
    return scenario, started, fold(ID, records[: started.seq - 1])


def test_the_prompts_longest_unused_are_forgotten_and_recorded_again_when_they_are_needed() -> None:
    """What to forget is in the record, so a journal of before keeps its prompts until it goes on."""
    _, started, state = running()
    for number in range(SYSTEMS):
        state.apply(replace(started, seq=state.next_seq, digest=f"d{number}", system=f"prompt {number}"))
    assert state.spare_systems("d7") == ()
    state.apply(replace(started, seq=state.next_seq, digest="d0", system=None))
    assert state.runs[started.run].system == "prompt 0"
    assert state.spare_systems("new") == ("d1",)
    state.apply(replace(started, seq=state.next_seq, digest="new", system="newest", forgets=("d1",)))
    assert len(state.systems) == SYSTEMS
    assert "d1" not in state.systems
    assert list(state.systems)[-2:] == ["d0", "new"]
    state.apply(replace(started, seq=state.next_seq, digest="more", system="another"))
    assert len(state.systems) == SYSTEMS + 1
    assert state.spare_systems("newer") == ("d2", "d3")


def test_of_the_files_read_the_newest_are_remembered() -> None:
    _, started, state = running()
    state.apply(replace(started, seq=state.next_seq))
    done = r.ToolCallCompleted(
        seq=1, at=Millis(1), run=started.run, call=CallId("k"), tool="read_file", ok=True, content=""
    )
    for number in range(READ_FILES + 7):
        state.apply(replace(done, seq=state.next_seq, read={f"f{number}": "sha", "f0": f"sha {number}"}))
    assert len(state.read_files) == READ_FILES
    assert state.read_files["f0"] == f"sha {READ_FILES + 6}"
    assert "f1" not in state.read_files


def test_a_fork_holds_every_value_of_the_conversation_but_its_history_and_changes_none() -> None:
    conversation = begun().conversation
    fork = conversation.fork()
    for spec in fields(State):
        mine, its = getattr(conversation, spec.name), getattr(fork, spec.name)
        assert its is (None if spec.name == "history" else mine), spec.name
    seq = conversation.next_seq
    fork.apply(r.Ended(seq=seq, at=Millis(conversation.updated_at + 1), reason="done"))
    assert (fork.status, fork.next_seq) == ("ended", seq + 1)
    assert (conversation.status, conversation.next_seq) == ("waiting", seq)


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
