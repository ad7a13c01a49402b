"""Workflows, missions and agents' own phases, made anew from the readable file: they stand where they stood."""

import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, fold
from tenex.core.decide.dispatch import decide
from tenex.core.effects import Timer
from tenex.core.graph import END
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records.rebuild import JournalRebuilt
from tenex.core.signals import Opened
from tenex.operations.recovered_workflows import guided
from tenex.store.format import CONVERSATION
from tenex.store.recovered_history import decisions_of
from tenex.store.view_json import render
from tenex.store.view_reader import past_of_view
from tenex.workflows.speakers import TransitionGraph
from tests.core.test_missions_begun import KEY, mine
from tests.core.test_missions_begun import begun as mission_begun
from tests.fakes.scenario import ID, Scenario
from tests.fakes.workflows import TRIO, ScriptedSpeakers, calls, session, started, workflow_policy
from tests.histories.record import ROOT, whole

NOW = Millis(9_000_000)
ROUND = TransitionGraph.round_robin(["person", *TRIO], max_turns=9)
LINES = {"editor": [calls(("set_context", {"key": "n", "value": 1})), "edited"]}


def view_of(state: Conversation) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(render(state))
    return view


def rebuilt(view: dict[str, Any], rules: Policy | None) -> tuple[list[r.Record], Conversation]:
    """A conversation made from a view, by way of the bytes on disk."""
    past = guided(past_of_view(view, ID, "conversation.json", None), view, rules)
    records, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions(decisions_of(past, NOW)))
    assert fault is None
    state = fold(ID, records)
    assert {type(effect) for effect in pending(state).values()} <= {Timer}
    assert rules is None or {type(one) for one in decide(state, Opened(), rules, NOW)} <= {r.ProcessRestarted}
    return records, state


def lost(records: list[r.Record]) -> str:
    (record,) = [record for record in records if isinstance(record, JournalRebuilt)]
    return "\n".join(record.missing)


def test_a_workflow_stands_where_it_stood_whenever_its_file_was_written_and_comes_to_its_end() -> None:
    one = started(ROUND, LINES, "person", *TRIO, context={"gone": 1, "stays": [1]})
    one.settle()
    one.user_writes("and now the other half")
    one.settle()
    records = [record for decision in one.journal for record in decision]
    opened = next(n for n, record in enumerate(records, start=1) if isinstance(record, r.RoundClosed))
    for cut in range(opened, len(records) + 1, 3):
        before = fold(ID, records[:cut])
        made, state = rebuilt(view_of(before), one.rules)
        told, shown = view_of(before)["workflow"], view_of(state)["workflow"]
        assert {**told, "waits": 0} == {**shown, "waits": 0}, cut
        assert (state.phase, state.workflow is not None) == (Phase.EXECUTE, True)
        assert [record for record in made if isinstance(record, r.PhaseTransition)] == []
        assert "by those configured now" in lost(made)
        again = Scenario(one.router, ScriptedSpeakers(LINES), config=one.rules)
        again.journal, again.conversation, again.now = [(record,) for record in made], state, NOW
        rounds = session(again).speakers.turn_count
        again.user_writes("go on", event_id="e" * 64)
        again.settle()
        assert session(again).speakers.turn_count > rounds, cut
        assert again.refold() == again.conversation


def test_a_workflow_that_has_ended_stays_so() -> None:
    one = started(TransitionGraph.sequence(TRIO))
    one.settle()
    view = view_of(one.conversation)
    _, state = rebuilt(view, one.rules)
    assert (state.status, view_of(state)["workflow"]) == ("ended", view["workflow"])


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        (None, "the configuration is faulty (`tenex config check`)"),
        (workflow_policy(), "no such is configured"),
        (
            started(TransitionGraph.sequence(TRIO[:2]), None, *TRIO[:2]).rules,
            "as they were: those configured now cannot",
        ),
    ],
    ids=["faulty", "gone", "others"],
)
def test_without_its_rules_it_goes_on_in_phases_and_says_how_to_regain_them(
    rules: Policy | None, sentence: str
) -> None:
    one = started(ROUND, LINES, "person", *TRIO)
    one.settle()
    made, state = rebuilt(view_of(one.conversation), rules)
    assert state.workflow is None
    assert sentence in lost(made)
    assert "rebuild again, with --force" in lost(made)


def test_a_mission_is_paused_where_it_stood_and_goes_on_from_there() -> None:
    tale = mission_begun()
    tale.returns("Second", n=7)
    tale.ask("write")
    tale.done("write", result=1, n=8)
    view = view_of(tale.conversation)
    made, state = rebuilt(view, tale.rules)
    mission = state.mission
    assert mission is not None
    assert (mission.node, mission.state["n"], mission.is_paused, mission.pubkey) == ("Second", 8, True, KEY)
    assert (state.status, state.waiting_for) == ("waiting", "mission")
    assert "its steps, of which conversation.json names write" in lost(made)
    again = mission_begun()
    again.journal, again.conversation, again.now = [(record,) for record in made], state, NOW
    again.user_writes("/continue", event_id="e" * 64)
    assert again.run.node == "Second"
    again.returns(END, "done")
    assert (again.mission.outcome, again.conversation.status) == ("finished", "ended")
    assert again.refold() == again.conversation


def test_a_mission_that_is_over_is_regained_with_its_result() -> None:
    tale = mission_begun()
    tale.returns(END, {"ok": True})
    view = view_of(tale.conversation)
    _, state = rebuilt(view, tale.rules)
    assert (state.status, view_of(state)["mission"]) == ("ended", view["mission"])
    made, state = rebuilt(view, workflow_policy())
    assert state.mission is None
    assert "the rules of the mission m, and its position, since no such is configured" in lost(made)


def test_an_end_that_no_mission_has_is_none_and_a_node_that_is_not_told_is_not_entered() -> None:
    told = {"workflow": "m", "node": "Gone", "state": {}}
    made, state = rebuilt({"id": ID, "mission": {**told, "outcome": "exploded"}}, mine())
    assert state.mission is None
    assert "the position of the mission m, which those rules do not know" in lost(made)
    _, state = rebuilt({"id": ID, "mission": {**told, "node": None, "outcome": "failed"}}, mine())
    assert state.mission is not None
    assert (state.mission.node, state.mission.outcome) == ("", "failed")


def test_agents_stand_where_they_stood_in_their_own_phases() -> None:
    name, records = whole(ROOT / "own-phases")
    view = {**view_of(fold(name, records)), "id": ID}
    assert view["agents"]
    made, state = rebuilt(view, None)
    assert view_of(state)["agents"] == view["agents"]
    assert "phases of" not in lost(made)
    made, state = rebuilt({**view, "agents": {"executor": {"history": 5}, "turn-1.executor": {}}}, None)
    assert not state.agent_states
    assert "the own phase of an agent" in lost(made)


def test_where_a_fork_came_from_is_regained() -> None:
    told = {"id": "d" * 64, "seq": 5, "title": "Hello"}
    _, state = rebuilt({"id": ID, "forkedFrom": told}, mine())
    assert view_of(state)["forkedFrom"] == told
    for odd in ({"seq": "x"}, {**told, "seq": True}):
        made, state = rebuilt({"id": ID, "forkedFrom": odd}, mine())
        assert state.forked_from is None
        assert "where it was forked from" in lost(made)


@pytest.mark.parametrize("odd", [5, "x", None, [], {}, {"a": {}}, -1, 2**70, True])
@pytest.mark.parametrize("name", ["name", "next", "turnCount", "participants", "context", "lastSpeaker", "closeReason"])
def test_whatever_somebody_made_of_it_a_journal_comes_of_it(name: str, odd: Any) -> None:
    one = started(ROUND, LINES, "person", *TRIO)
    one.settle()
    view = view_of(one.conversation)
    view["workflow"][name] = odd
    rebuilt(view, one.rules)
    rebuilt({"id": ID, "mission": {"workflow": "m", "node": "First", "state": {}, name: odd}}, mine())
    rebuilt({"id": ID, "mission": {"workflow": odd, "node": odd, "state": odd, "outcome": odd, "steps": odd}}, mine())
