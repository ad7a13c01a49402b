"""A journal made of what is known without one: the same story, nothing in flight, and the person's word next."""

import dataclasses
import json
from itertools import pairwise
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.dispatch import decide
from tenex.core.ids import EventId, Millis, PublicKey, Slug, TurnId
from tenex.core.messages import Usage
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.records import Record
from tenex.core.records.rebuild import RecoveredPosition
from tenex.core.signals import Opened
from tenex.core.state.run import Completion, OrchestratorTurn
from tenex.store.format import CONVERSATION
from tenex.store.recovered_history import CUT_OFF, UNKNOWN, RecoveredHistory, decisions_of
from tenex.store.stats import Stats
from tenex.store.view_json import render
from tenex.store.view_reader import past_of_view
from tests.fakes.scenario import ID, Scenario

from .test_stats import lived

NOW = Millis(9_000_000)
MOVES = ("seq", "updatedAt", "status", "waitingFor", "openTurn", "running", "undelivered")
"""What a rebuild changes: nothing is open any more, and it happens later."""


def flat(decisions: list[list[Record]]) -> list[Record]:
    return [record for decision in decisions for record in decision]


def view_of(state: Conversation) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(render(state))
    return view


def rebuilt(view: dict[str, Any]) -> tuple[list[Record], Conversation]:
    """A conversation made from a view, by way of the bytes on disk."""
    made = decisions_of(past_of_view(view, ID, "conversation.json", None), NOW)
    records, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions(made))
    assert fault is None
    return records, fold(ID, records)


def rounded(value: Any) -> Any:
    """Costs to a millionth of a cent: they are added up in another order."""
    if isinstance(value, float):
        return round(value, 8)
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(4))
def test_a_view_taken_at_any_moment_gives_a_conversation_with_that_view(seed: int) -> None:
    """Whole conversations with failures and restarts, cut anywhere: what can be read is there again."""
    records = [record for decision in lived(seed).journal for record in decision]
    for cut in range(2, len(records) + 1, 5):
        before = view_of(fold(ID, records[:cut]))
        made, state = rebuilt(before)
        after = view_of(state)
        if before["openTurn"]:
            assert after["orchestratorTurns"].pop()["turnId"] == before["openTurn"]["turnId"]
        for view in (before, after):  # the visit to the current phase lasts until the newest record
            del view["phaseMetrics"][view["phase"]]["durationMs"]
        assert {name for name in before if rounded(before[name]) != rounded(after[name])} <= set(MOVES), cut
        assert not pending(state)
        assert state.status == ("ended" if before["status"] == "ended" else "waiting")
        assert decide(state, Opened(), lived(seed).rules, NOW) == []
        assert rounded(Stats.of(ID, made).usage.cost_usd) == rounded(before["usage"]["costUsd"])


@pytest.mark.parametrize("seed", range(4))
def test_it_goes_on_by_the_rules_when_the_person_writes(seed: int) -> None:
    """From any moment: the rest of the scenario ends as it does without a rebuild, by legal transitions only."""
    scenario = lived(seed)
    records = [record for decision in scenario.journal for record in decision]
    for cut in range(20, len(records), 23):
        made, _ = rebuilt(view_of(fold(ID, records[:cut])))
        again = Scenario(scenario.router, scenario.worker)
        again.journal = [(record,) for record in made]
        again.conversation, again.now = fold(ID, made), NOW
        assert not again.running
        again.user_writes("please go on", event_id="e" * 64)
        assert again.conversation.status == "active"
        again.settle(seed)
        state = fold(ID, [])
        for record in (record for decision in again.journal for record in decision):
            if isinstance(record, r.PhaseTransition):
                assert record.from_ is state.phase
                assert PHASE_TRANSITIONS.permits(record.from_, record.to)
            state.apply(record)
        assert state == again.conversation


def test_a_message_that_was_heard_before_is_not_heard_again() -> None:
    scenario = lived(0)
    past = past_of_view(view_of(scenario.conversation), ID, "conversation.json", None)
    old = EventId("0d" * 32)
    made = flat(decisions_of(dataclasses.replace(past, seen=[old]), NOW))
    again = Scenario(scenario.router, scenario.worker)
    again.conversation = fold(ID, made)
    assert again.user_writes("an old question", event_id=old) == []
    assert again.user_writes("a new question", event_id="0e" * 32)


def test_everything_but_the_end_is_a_decision_of_its_own_and_the_end_is_one() -> None:
    """A file that breaks off in its last line must not lose more than that it waits."""
    made = decisions_of(past_of_view(view_of(lived(0).conversation), ID, "conversation.json", None), NOW)
    assert {len(decision) for decision in made[:-1]} == {1}
    assert [type(record) for record in made[-1] if not isinstance(record, r.Waived)] in (
        [r.JournalRebuilt, r.Waiting],
        [r.JournalRebuilt, r.Ended],
    )


# ---- where facts do not fit ---------------------------------------------------------------------------------------


def turn(number: int, phase: Phase, *done: str, at: int, agents: tuple[str, ...] = ("executor",)) -> OrchestratorTurn:
    completions = tuple(
        Completion(agent=Slug(slug), outcome="finished", text="done", summary="", verdict="", error="", at=Millis(at))
        for slug in done
    )
    return OrchestratorTurn(
        turn_id=TurnId(f"turn-{number}"),
        seq=0,
        timestamp=Millis(at),
        phase=phase,
        reason="because",
        agents=tuple(map(Slug, agents)),
        completions=completions,
    )


def moved(from_: Phase, to: Phase, at: int) -> r.PhaseTransition:
    return r.PhaseTransition(
        seq=0,
        at=Millis(at),
        from_=from_,
        to=to,
        message="m",
        agent_pubkey=PublicKey(""),
        agent_name="",
        reason="told",
        summary="",
        announce_at=Millis(at),
    )


def past(**given: Any) -> RecoveredHistory:
    return RecoveredHistory(id=ID, source="relay", title="t", started_at=Millis(1), **given)


def ways(made: list[Record]) -> list[tuple[str, str, str]]:
    return [(t.from_.value, t.to.value, t.reason) for t in made if isinstance(t, r.PhaseTransition)]


def test_a_way_that_is_lost_is_filled_in_by_the_table() -> None:
    made = flat(decisions_of(past(turns=[turn(1, Phase.CHORES, "executor", at=5)]), NOW))
    assert ways(made) == [
        ("chat", "execute", UNKNOWN),
        ("execute", "verification", UNKNOWN),
        ("verification", "chores", UNKNOWN),
    ]


def test_a_transition_the_table_does_not_have_is_gone_step_by_step() -> None:
    made = flat(
        decisions_of(past(transitions=[moved(Phase.PLAN, Phase.CHORES, 5), moved(Phase.CHORES, Phase.CHORES, 6)]), NOW)
    )
    assert ways(made) == [
        ("chat", "plan", UNKNOWN),
        ("plan", "execute", UNKNOWN),
        ("execute", "verification", UNKNOWN),
        ("verification", "chores", "told"),
    ]


def test_chat_without_a_transition_is_a_new_cycle() -> None:
    made = flat(decisions_of(past(turns=[turn(1, Phase.PLAN, "executor", at=5), turn(2, Phase.CHAT, at=9)]), NOW))
    assert [record.cycle for record in made if isinstance(record, r.CycleStarted)] == [1, 2]
    assert ways(made) == [("chat", "plan", UNKNOWN)]


def test_chat_after_reflection_is_a_new_cycle_too() -> None:
    steps = [Phase.CHAT, Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION, Phase.CHAT]
    transitions = [moved(*pair, at) for at, pair in enumerate(pairwise(steps), start=5)]
    made = flat(decisions_of(past(transitions=transitions), NOW))
    assert [record.cycle for record in made if isinstance(record, r.CycleStarted)] == [1, 2]


def test_an_agent_without_a_completion_was_cut_off_and_one_nobody_asked_is_left_out() -> None:
    told = turn(1, Phase.CHAT, "helper", "stranger", at=5, agents=("executor", "helper"))
    made = flat(decisions_of(past(turns=[told]), NOW))
    ended = [(record.run, record.outcome, record.error) for record in made if isinstance(record, r.RunEnded)]
    assert ended == [("turn-1.helper", "finished", ""), ("turn-1.executor", "stopped", CUT_OFF)]


def test_what_was_written_while_an_agent_worked_stands_before_its_end() -> None:
    told = turn(1, Phase.CHAT, "executor", at=20)
    wrote = r.MessageRecorded(
        seq=0,
        at=Millis(10),
        event_id=EventId("e"),
        author=PublicKey("a" * 64),
        name="alice",
        role=Role.OWNER,
        text="and tea",
        created_at=0,
    )
    made = flat(decisions_of(past(turns=[dataclasses.replace(told, timestamp=Millis(5))], messages=[wrote]), NOW))
    of_turn = (r.TurnOpened, r.MessageRecorded, r.RunEnded, r.TurnClosed)
    assert [(type(record), record.at) for record in made if isinstance(record, of_turn)] == [
        (kind, at) for kind, at in zip(of_turn, (5, 10, 20, 20), strict=True)
    ]


def test_the_next_turn_has_a_number_nobody_had() -> None:
    state = fold(ID, flat(decisions_of(past(turns=[turn(41, Phase.CHAT, "executor", at=5)]), NOW)))
    assert state.turn_count == 41
    odd = dataclasses.replace(turn(1, Phase.CHAT, at=5), turn_id=TurnId("0b1c-uuid"))
    assert fold(ID, flat(decisions_of(past(turns=[odd]), NOW))).turn_count == 1


def test_a_clock_that_went_backwards_keeps_each_list_in_its_order() -> None:
    turns = [turn(1, Phase.CHAT, "executor", at=900), turn(2, Phase.CHAT, "executor", at=100)]
    state = fold(ID, flat(decisions_of(past(turns=turns), NOW)))
    assert state.history is not None
    assert [one.turn_id for one in state.history.turns] == ["turn-1", "turn-2"]


def test_gates_and_costs_stand_as_the_source_says() -> None:
    position = RecoveredPosition(
        phase=Phase.VERIFICATION,
        phase_started_at=Millis(7),
        cycle=3,
        open_gates=(Phase.CHORES, Phase.REFLECTION),
        participants=(Slug("planner"),),
        touched=("a.py",),
        read_files={"b.py": "hash"},
    )
    spent = {Phase.EXECUTE: Usage(input_tokens=5, output_tokens=1, calls=2), Phase.CHAT: Usage(calls=0)}
    state = fold(ID, flat(decisions_of(past(position=position, spent=spent), NOW)))
    assert (state.cycle, state.phase, state.open_gates) == (3, Phase.VERIFICATION, (Phase.CHORES, Phase.REFLECTION))
    assert state.participants == (Slug("planner"),)
    assert state.touched == frozenset({"a.py"})
    assert dict(state.read_files) == {"b.py": "hash"}
    assert state.usage == Usage(input_tokens=5, output_tokens=1, calls=2)
    assert state.cycle_usage.calls == 0
    assert state.metrics[Phase.EXECUTE].usage.calls == 2
