"""A kind of conversation that is one folder and one registration: what the kernel and all readers do with it."""

import dataclasses
import json
from collections.abc import Iterator

import pytest

from tenex.core import conversation as folding
from tenex.core import kind as port
from tenex.core import kind_format as formats
from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import fold
from tenex.core.ids import Slug
from tenex.core.kind import all_kinds, register
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.records import RECORDS
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import of_fork
from tenex.core.signals import RollBack
from tenex.core.snapshot import StateSnapshot
from tenex.operations.conversation_status import conversation_status
from tenex.operations.transcript import TranscriptRenderer
from tenex.store.format import CONVERSATION, Codec
from tenex.store.index_row import summarise
from tenex.store.view_json import render
from tenex.workflows.phases.kind import PhasesKind
from tests.fakes.round.config import NAME, Round, RoundRules
from tests.fakes.round.kind import RoundKind
from tests.fakes.round.records import RoundOpened
from tests.fakes.round.state import RoundPart, round_of
from tests.fakes.scenario import ID, Router, Scenario, model_by_phase, plain_model, policy, remove_agent, reply

DEBATE = Slug("debate")
SPEAKERS = (Slug("planner"), Slug("executor"))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(port, "_KINDS", list(port._KINDS))
    monkeypatch.setattr(folding, "_KIND_REDUCERS", dict(folding._KIND_REDUCERS))
    monkeypatch.setitem(formats._FORMATS, NAME, None)
    register(RoundKind())
    yield
    folding._plans.clear()


def policy_of_round() -> Policy:
    known = policy()
    return dataclasses.replace(
        known, kinds={**known.kinds, NAME: RoundRules(rounds={DEBATE: Round(agents=SPEAKERS, times=2)})}
    )


def begun() -> Scenario:
    scenario = Scenario(Router(), plain_model, config=policy_of_round())
    scenario.user_writes("Is it good?", addressed=(DEBATE,))
    return scenario


def held() -> Scenario:
    return begun().settle()


def part_of(scenario: Scenario) -> RoundPart:
    part = round_of(scenario.conversation)
    assert part is not None
    return part


def test_the_phases_still_own_what_no_other_kind_owns() -> None:
    assert isinstance(all_kinds()[-1], PhasesKind)


def test_agents_speak_in_their_order_as_often_as_configured_and_then_it_ends() -> None:
    scenario = held()
    assert [turn.agents for turn in scenario.records(r.TurnOpened)] == [(name,) for name in SPEAKERS * 2]
    assert scenario.conversation.cycle.status == "ended"
    assert not pending(scenario.conversation)
    assert (scenario.conversation.cycle.phase, scenario.conversation.has_phases) == (Phase.EXECUTE, False)


def test_the_next_message_begins_another_round() -> None:
    scenario = held().converse("And now?")
    assert len(scenario.records(r.TurnOpened)) == 2 * 2 * len(SPEAKERS)
    assert scenario.conversation.cycle.number == 2


def test_a_message_answers_the_question_of_a_speaker() -> None:
    asks = model_by_phase(execute=[reply("", ("ask", {"question": "Which colour?"})), reply("blue it is")])
    scenario = Scenario(Router(), asks, config=policy_of_round())
    scenario.user_writes("Is it good?", addressed=(DEBATE,))
    scenario.settle()
    assert scenario.conversation.work.is_parked
    scenario.user_writes("blue")
    scenario.settle()
    assert [record.text for record in scenario.records(r.QuestionAnswered)] == ["blue"]
    assert len(scenario.records(r.TurnOpened)) == 2, "and the next speaker has their turn"


def test_it_ends_where_the_next_speaker_is_not_there_any_more() -> None:
    scenario = begun()
    remove_agent(scenario, SPEAKERS[1])
    scenario.settle()
    assert scenario.records(r.Ended)[-1].reason == "executor is not here any more"


def test_a_mention_begins_it_also_where_conversations_are_with_one_agent() -> None:
    config = dataclasses.replace(policy_of_round(), only_agent=SPEAKERS[1])
    scenario = Scenario(Router(), plain_model, config=config)
    scenario.user_writes("Is it good?", addressed=(DEBATE,))
    assert scenario.conversation.location_label == "@debate"
    scenario.settle()
    assert [turn.agents for turn in scenario.records(r.TurnOpened)] == [(name,) for name in SPEAKERS * 2]
    assert scenario.conversation.cycle.status == "ended"


def test_every_reader_shows_it() -> None:
    scenario = begun()
    scenario.step()
    conversation = scenario.conversation
    view = json.loads(render(conversation))
    assert view[NAME] == {"agents": list(SPEAKERS), "spoken": 1, "next": SPEAKERS[1]}
    status = conversation_status(conversation, scenario.now)
    assert status[NAME]["next"] == SPEAKERS[1]
    assert status["where"] == f"round: {SPEAKERS[1]}"
    assert summarise(conversation, 0).place == "@debate"
    scenario.user_writes("/status")
    assert f"Next: {SPEAKERS[1]}" in scenario.sent_texts()[-1]
    transcript = TranscriptRenderer()
    lines = [(line.head, line.text) for record in scenario.records() for line in transcript.render(record)]
    assert ("debate", ", ".join(SPEAKERS)) in lines
    assert any(head.endswith("· debate") for head, _ in lines), "a turn is shown with the round it is in"


def test_it_is_the_same_from_its_journal_and_from_a_snapshot() -> None:
    scenario = held()
    data = CONVERSATION.encode_decisions([[record] for record in scenario.records()])
    assert b'"type":"round.RoundOpened"' in data
    records, _, fault = CONVERSATION.decode_lines(data)
    assert fault is None
    assert fold(ID, records) == scenario.conversation
    snapshot = StateSnapshot.of(scenario.conversation)
    written = CONVERSATION.encode_decisions([[snapshot]])
    assert CONVERSATION.decode_lines(written)[0] == [snapshot]
    assert fold(ID, [snapshot]) == scenario.conversation


def test_a_rollback_and_a_fork_go_on_with_the_speaker_who_was_next() -> None:
    scenario = held()
    second = scenario.records(r.TurnOpened)[1].seq
    then = state_at(ID, scenario.records(), second - 1)
    fork = of_fork(then, scenario.now, id=ID, address={}, title="again")
    forked = round_of(fork)
    assert forked is not None
    assert forked.next_speaker == SPEAKERS[1]
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator"))
    assert (part_of(scenario).spoken, scenario.conversation.cycle.status) == (1, "waiting")
    before = len(scenario.records(r.TurnOpened))
    scenario.converse("go on")
    assert [turn.agents for turn in scenario.records(r.TurnOpened)[before:]] == [
        (SPEAKERS[1],),
        (SPEAKERS[0],),
        (SPEAKERS[1],),
    ]


def test_going_back_to_the_middle_of_its_opening_is_to_go_back_to_where_it_is_open() -> None:
    scenario = held()
    opened = scenario.records(RoundOpened)[0].seq
    assert round_of(state_at(ID, scenario.records(), opened - 1)) is not None


def test_a_journal_of_a_kind_that_is_not_installed_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = held()
    lines = CONVERSATION.encode_decisions([[record] for record in scenario.records()])
    snapshot = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    with monkeypatch.context() as without:
        without.delitem(formats._FORMATS, NAME)
        for codec, data in ((Codec(RECORDS, has_kinds=True), lines), (CONVERSATION, snapshot)):
            _, _, fault = codec.decode_lines(data)
            assert fault is not None
            assert fault.kind == "foreign"
            assert "of the kind of conversation 'round', which is not installed here" in fault.place
