"""Snapshots, going back to every record and branching off there: at rest, and able to come to the end."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold, new_conversation
from tenex.core.cycle.state import READ_FILES, Cycle
from tenex.core.effects import Effect, Publish, Timer, ToolCall, Work
from tenex.core.history.state import BLOCK, History
from tenex.core.identity.state import SEEN, Identity
from tenex.core.ids import CallId, ConversationId, EventId, Millis
from tenex.core.memory.state import SYSTEMS
from tenex.core.messages import Usage
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import ConversationForked, RolledBack, of_fork, of_then, undone
from tenex.core.signals import ModelFailed, RollBack, Signal, ToolReturned
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import State
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import ID, Scenario, diligent, in_flight, longest_way, one_turn
from tests.kits.rollbacks import back

EXPIRY = {(Work.TIMER, "expire"), (Work.TIMER, "lost")}
OTHER = ConversationId("f" * 64)


USUAL = {
    "chat": "project-manager",
    "brainstorm": "project-manager",
    "plan": "planner",
    "execute": "executor",
    "verification": "executor",
    "chores": "executor",
}


def patient(question: dict[str, Any]) -> dict[str, Any]:
    """`longest_way`, for a conversation that may be in a phase where nothing has been finished yet."""
    phase, turns = question["phase"], question["turns"]
    here = [turn for turn in turns if turn["phase"] == phase]
    done = here[-1]["completions"] if here else []
    is_done = bool(done) and all(one["outcome"] == "finished" for one in done)
    if phase == "reflection" and question["still_to_reflect"]:
        return {"agents": question["still_to_reflect"], "reason": "some have not reflected"}
    if phase in USUAL and not is_done:
        return {"agents": [USUAL[phase]], "reason": "nothing is finished here"}
    return longest_way(question)


def whole() -> Scenario:
    """A conversation that has gone through all phases."""
    scenario = Scenario(patient, diligent)
    lead_to_end(scenario)
    return scenario


def lead_to_end(scenario: Scenario) -> None:
    """Alice writes what a user would, until the cycle has ended."""
    for text in ("I want something nice", "let us think", "plan it", "blue", "go on", "and on", "again", "once more"):
        scenario.converse(text)
        if scenario.conversation.cycle.status == "ended":
            return
    raise AssertionError("it never comes to its end")


def twin_of(scenario: Scenario) -> Scenario:
    """The same conversation in another life, its journal shared by value."""
    twin = Scenario(scenario.router, scenario.worker, config=scenario.policy)
    twin.journal, twin.now, twin.count = list(scenario.journal), scenario.now, scenario.count
    twin.conversation = twin.refold()
    twin.reconcile()
    return twin


WHOLE = whole()
LAST = WHOLE.conversation.next_seq - 1


@pytest.mark.parametrize("count", [1, 12, 13])
def test_the_notice_of_a_rollback_names_what_counts_no_more(count: int) -> None:
    scenario = Scenario(one_turn("project-manager", "chat"), diligent)
    for number in range(count + 1):
        scenario.converse(f"message {number}")
        if number == 0:
            start = scenario.conversation.next_seq - 1
    turns = [record.turn_id for record in scenario.records(r.TurnOpened) if record.seq > start]
    assert len(turns) == count
    sent = next(record for record in back(scenario, start) if isinstance(record, r.MessageSent))
    named = ", ".join(turns) if count <= 12 else f"{turns[0]} to {turns[-1]}, {count} turns"
    assert f"counts no more: {named}." in sent.text


def test_a_rollback_into_a_turn_says_how_to_run_it_again() -> None:
    for kind, command in ((r.RunStarted, "/retry"), (r.TurnClosed, "/continue")):
        scenario = twin_of(WHOLE)
        (notice,) = [one for one in back(scenario, scenario.records(kind)[0].seq) if isinstance(one, r.MessageSent)]
        assert command in notice.text


def spread(first: int, last: int, step: int) -> list[Any]:
    """Every record; all but one in so many wait for the long sweeps."""
    return [
        pytest.param(seq, marks=() if (seq - first) % step == 0 else pytest.mark.soak) for seq in range(first, last + 1)
    ]


@pytest.mark.parametrize("to", spread(1, LAST - 2, 3))
def test_after_going_back_nothing_is_pending_and_the_end_is_reached_again(to: int) -> None:
    scenario = twin_of(WHOLE)
    before, then = scenario.conversation.fork(), state_at(ID, scenario.records(), to)
    assert to < then.next_seq <= to + 3
    scenario.settle()
    wrote = back(scenario, to)
    assert isinstance(wrote[-1], r.MessageSent)
    state = scenario.conversation
    assert {(e.key.work, e.key.part) for e in scenario.running.values() if not isinstance(e, Publish)} <= EXPIRY
    assert state.cycle.status == ("ended" if then.cycle.status in ("new", "ended") else "waiting")
    assert (state.cycle.phase, state.cycle.number, phases_of(state).executed) == (
        then.cycle.phase,
        then.cycle.number,
        phases_of(then).executed,
    )
    assert (state.totals.usage, state.totals.turn_count, dict(state.identity.seen)) == (
        before.totals.usage,
        before.totals.turn_count,
        dict(before.identity.seen),
    )
    scenario.settle()
    lead_to_end(scenario)
    turns = [record.turn_id for record in scenario.records(r.TurnOpened)]
    assert len(turns) == len(set(turns)), "a turn's name is used once"
    assert max(scenario.ran.values()) == 1, "no call that was done is done again under its key"


@pytest.mark.parametrize("at", spread(1, LAST, 4))
def test_going_back_in_the_middle_of_work_stops_it_and_late_results_have_no_effect(at: int) -> None:
    """Whatever runs at the moment of going back ends; its result comes too late."""
    cut = [decision for decision in WHOLE.journal if decision[-1].seq <= at]
    if not cut or cut[-1][-1].seq < 4:
        return
    scenario = Scenario(patient, diligent)
    scenario.journal, scenario.count = list(cut), 10
    scenario.conversation = scenario.refold()
    scenario.reconcile()
    running = dict(scenario.running)
    had = scenario.conversation.work.turn
    wrote = back(scenario, max(1, cut[-1][-1].seq // 2))
    assert not in_flight(scenario)
    assert isinstance(wrote[-2], RolledBack)
    if had is not None:
        assert isinstance(wrote[0], r.Stopped)
        closed = next(record for record in wrote if isinstance(record, r.TurnClosed))
        assert closed.turn_id == had.turn_id
        assert had.turn_id in scenario.conversation.history.rollbacks[-1].undone  # type: ignore[union-attr]
        assert had.turn_id in scenario.sent_texts()[-1]
    for effect in running.values():
        if not isinstance(effect, Publish) and effect.key not in scenario.running:
            assert scenario.handle(late(scenario, effect)) == []
    lead_to_end(scenario)


def late(scenario: Scenario, effect: Effect) -> Signal:
    """The end of work that is not wanted any more."""
    if isinstance(effect, Timer):
        return scenario.perform(effect)
    if isinstance(effect, ToolCall):
        return ToolReturned(key=effect.key, result=ToolResult(ok=True, content="late"))
    return ModelFailed(key=effect.key, message="late", retryable=False)


@pytest.mark.parametrize("to", [-1, 0, LAST, LAST + 1, LAST + 100])
def test_an_order_that_means_nothing_gives_no_record(to: int) -> None:
    scenario = twin_of(WHOLE)
    now = StateSnapshot.of(scenario.conversation).state

    def order(at: int, **identity: Any) -> RollBack:
        return RollBack(to=at, then=replace(now, identity=replace(now.identity, **identity)), by="x")

    assert scenario.handle(order(to, next_seq=to + 1)) == []
    assert scenario.handle(order(5, next_seq=6, id=OTHER)) == []
    assert scenario.handle(order(5, next_seq=9)) == []


def moment(where: Callable[[r.Record], bool]) -> int:
    seq: int = next(record.seq for record in WHOLE.records() if where(record))
    return seq


BEFORE_VERIFICATION = moment(lambda x: isinstance(x, r.PhaseTransition) and x.to is Phase.VERIFICATION) - 1


def test_the_history_shows_what_was_undone_and_undoing_that_brings_it_back() -> None:
    scenario = twin_of(WHOLE)
    turns = [turn.turn_id for turn in scenario.conversation.history.turns]  # type: ignore[union-attr]
    at_end = scenario.conversation.next_seq - 1
    back(scenario, BEFORE_VERIFICATION, reason="again, with tests")
    known = scenario.conversation.history
    assert known is not None
    (first,) = known.rollbacks
    assert first.undone == tuple(turns[4:])
    assert (first.to, first.seq) == (BEFORE_VERIFICATION, at_end + 1)
    assert (first.by, first.reason) == ("the operator", "again, with tests")
    assert [turn.turn_id for turn in known.turns] == turns, "what happened stays a fact"
    assert "again, with tests" in scenario.sent_texts()[-1]
    back(scenario, at_end)
    assert scenario.conversation.history is not None
    assert scenario.conversation.history.rollbacks[-1].undone == ()
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.phase) == ("ended", Phase.REFLECTION)
    back(scenario, 2)
    assert scenario.conversation.history.rollbacks[-1].undone == tuple(turns)
    assert list(undone(scenario.conversation.history, 1, scenario.conversation.next_seq)) == []


def test_of_the_cycle_gone_back_to_the_files_are_known_again_and_its_money_stays_spent() -> None:
    cycle = Cycle(number=1, touched=frozenset({"a"}), usage=Usage(cost_usd=1.0))
    then = State(identity=Identity(id=ID), cycle=cycle)
    later = replace(then, cycle=replace(cycle, touched=frozenset({"a", "b"}), usage=Usage(cost_usd=3.0)))
    same = of_then(then, later, Millis(1), with_files=False)
    assert same.cycle.touched == {"a", "b"}
    assert same.cycle.usage == later.cycle.usage
    next_one = replace(later, cycle=replace(later.cycle, number=2, touched=frozenset({"c"})))
    other = of_then(then, next_one, Millis(1), with_files=False)
    assert other.cycle.touched == {"a", "c"}
    assert other.cycle.usage == then.cycle.usage
    assert of_then(then, later, Millis(1), with_files=True).cycle.touched == {"a"}


@pytest.mark.parametrize("at", spread(1, LAST, 4))
def test_a_fork_from_every_record_is_at_rest_and_comes_to_its_own_end(at: int) -> None:
    scenario = forked(at)
    then = state_at(ID, WHOLE.records(), at)
    state = scenario.conversation
    assert not pending(state)
    assert (state.id, state.next_seq, state.identity.title) == (OTHER, 2, "Fork of it")
    assert (state.cycle.phase, state.cycle.number) == (then.cycle.phase, then.cycle.number)
    assert (
        dict(state.identity.seen),
        dict(state.delivery.outbox),
        state.totals.usage.calls,
        dict(state.totals.metrics),
    ) == ({}, {}, 0, {})
    assert not state.totals.spending, "what the day has cost is counted in the conversation it was forked from"
    assert state.identity.forked_from is not None
    assert (state.identity.forked_from.id, state.identity.forked_from.seq) == (ID, then.next_seq - 1)
    lead_to_end(scenario)
    assert scenario.conversation.history is not None
    assert scenario.conversation.history.turns_before == 0
    assert all(key.startswith(OTHER) for key in scenario.ran), "no key of the other conversation is used"


class OtherPlay(Scenario):
    """A scenario of the fork."""

    def refold(self) -> Conversation:
        return fold(OTHER, self.records())


def forked(at: int) -> OtherPlay:
    then = state_at(ID, WHOLE.records(), at)
    scenario = OtherPlay(patient, diligent)
    scenario.now, scenario.count = Millis(WHOLE.now + 60_000), 50
    state = of_fork(then, scenario.now, id=OTHER, address={"form": "notes"}, title="Fork of it")
    record = ConversationForked(seq=1, at=scenario.now, id=OTHER, origin=ID, at_seq=at, title="Fork of it", state=state)
    scenario.journal = [(record,)]
    scenario.conversation = scenario.refold()
    return scenario


def test_a_fork_is_at_the_beginning_of_its_own_journal_only() -> None:
    first = forked(20).journal[0][0]
    with pytest.raises(ValueError, match="at the beginning"):
        fold(ID, [first])
    state = fold(OTHER, [first])
    with pytest.raises(ValueError, match="at the beginning"):
        state.apply(replace(first, seq=2))
    assert state == fold(OTHER, [first])


def test_what_was_sent_before_a_fork_does_not_hide_what_is_written_in_it() -> None:
    """Its records are numbered from 1 again: a message of before that had a higher number hid the new ones."""
    scenario = forked(LAST * 3 // 4)
    assert scenario.conversation.cycle.status == "waiting"
    known = [turn.turn_id for turn in scenario.conversation.cycle.turns]
    assert known
    old = [message.text for message in scenario.conversation.memory.recent]
    scenario.user_writes("one thing more")
    assert [message.text for message in scenario.conversation.unanswered] == ["one thing more"]
    assert [message.text for message in scenario.conversation.newer_than_last_turn()] == ["one thing more"]
    scenario.settle()
    recent = scenario.conversation.memory.recent
    assert [message.text for message in recent[: len(old) + 1]] == [*old, "one thing more"]
    assert [message.seq for message in recent] == sorted({message.seq for message in recent})
    then = state_at(OTHER, scenario.records(), 2)
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator"))
    assert scenario.conversation.history is not None
    turned = [turn.turn_id for turn in scenario.conversation.history.turns]
    assert list(scenario.conversation.history.rollbacks[-1].undone) == turned[len(known) :], (
        "nothing of before the fork"
    )


def begun() -> Scenario:
    return Scenario(longest_way, diligent).converse("build it")


def test_a_snapshot_of_anything_else_is_refused_and_changes_nothing() -> None:
    scenario = begun()
    good = StateSnapshot.of(scenario.conversation)
    beside = new_conversation(ConversationId("d" * 64))
    with pytest.raises(ValueError, match="another conversation"):
        beside.apply(good)
    assert beside == new_conversation(ConversationId("d" * 64))
    with pytest.raises(ValueError, match="another moment"):
        new_conversation(ID).apply(replace(good, seq=good.seq + 1))
    with pytest.raises(ValueError, match="comes where"):
        fold(ID, [good, r.RetryDue(seq=good.seq + 1, at=Millis(1), run=None)]).apply(good)
    again = scenario.refold()
    again.apply(good)
    assert again == scenario.conversation, "one that is passed on the way adds nothing"


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


def before_run() -> tuple[r.RunStarted, Conversation]:
    """The first `RunStarted` of a scenario, and the state just before it."""
    records = begun().records()
    started = next(record for record in records if isinstance(record, r.RunStarted))
    return started, fold(ID, records[: started.seq - 1])


def test_the_prompts_longest_unused_are_forgotten_and_recorded_again_when_they_are_needed() -> None:
    """What to forget is in the record, so a journal of before keeps its prompts until it goes on."""
    started, state = before_run()
    for number in range(SYSTEMS):
        state.apply(replace(started, seq=state.next_seq, digest=f"d{number}", system=f"prompt {number}"))
    assert state.memory.spare_systems("d7") == ()
    state.apply(replace(started, seq=state.next_seq, digest="d0", system=None))
    assert state.work.runs[started.run].system == "prompt 0"
    assert state.memory.spare_systems("new") == ("d1",)
    state.apply(replace(started, seq=state.next_seq, digest="new", system="newest", forgets=("d1",)))
    assert len(state.memory.systems) == SYSTEMS
    assert "d1" not in state.memory.systems
    assert list(state.memory.systems)[-2:] == ["d0", "new"]
    state.apply(replace(started, seq=state.next_seq, digest="more", system="another"))
    assert len(state.memory.systems) == SYSTEMS + 1
    assert state.memory.spare_systems("newer") == ("d2", "d3")


def test_of_the_files_read_the_newest_are_remembered() -> None:
    started, state = before_run()
    state.apply(replace(started, seq=state.next_seq))
    done = r.ToolCallCompleted(
        seq=1, at=Millis(1), run=started.run, call=CallId("k"), tool="read_file", ok=True, content=""
    )
    for number in range(READ_FILES + 7):
        state.apply(replace(done, seq=state.next_seq, read={f"f{number}": "sha", "f0": f"sha {number}"}))
    assert len(state.cycle.read_files) == READ_FILES
    assert state.cycle.read_files["f0"] == f"sha {READ_FILES + 6}"
    assert "f1" not in state.cycle.read_files


def test_open_work_is_over_when_the_journal_is_rebuilt() -> None:
    """After every record of a scenario with questions, calls and deliveries in flight."""
    scenario = Scenario(longest_way, diligent).converse("I want something nice").converse("go on").converse("go on")
    assert scenario.conversation.work.asks  # an agent waits for an answer at the end
    for cut in range(1, len(scenario.records()) + 1):
        state = fold(ID, scenario.records()[:cut])
        state.apply(r.JournalRebuilt(seq=state.next_seq, at=Millis(9), source="relay"))
        assert not pending(state)
        assert (state.work.turn, dict(state.work.runs), state.router.question, dict(state.work.asks)) == (
            None,
            {},
            None,
            {},
        )


def test_of_a_rebuilt_journal_phase_and_gates_are_entered_and_the_newest_events_are_known() -> None:
    state, gates = fold(ID, []), (Phase.CHORES, Phase.REFLECTION)
    seen = tuple(EventId(f"{number:064x}") for number in range(3 * SEEN))
    rebuilt = r.JournalRebuilt(seq=1, at=Millis(9), source="relay", phase=Phase.VERIFICATION, open_gates=gates, turns=4)
    state.apply(replace(rebuilt, known_events=seen))
    assert (state.cycle.phase, state.unmet_gates, state.totals.turn_count) == (Phase.VERIFICATION, gates, 4)
    assert tuple(state.identity.seen) == seen[-SEEN:]
