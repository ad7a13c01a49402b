"""Where a workflow is: what a fold of its facts gives, what goes back with it, and what its speakers are shown."""

import json

import pytest

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.decide.rollback import state_at
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import AgentText, Note, UserText
from tenex.core.signals import RollBack
from tenex.core.state.rollback import ConversationForked, RolledBack, of_fork
from tenex.core.state.workflow import session_view
from tenex.store.format import CONVERSATION
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import ID, Scenario
from tests.fakes.workflows import TRIO, calls, session, started

ROUND = TransitionGraph.round_robin(TRIO, max_turns=9)
LINES = {"editor": [calls(("set_context", {"key": "n", "value": 1})), "edited"]}


def test_going_back_takes_rounds_and_variables_back_and_counts_time_again() -> None:
    one = started(ROUND, LINES).settle()
    first = one.records(r.RoundClosed)[0]
    then = state_at(ID, one.records(), first.seq)
    to = then.next_seq - 1
    one.now = Millis(one.now + 50_000_000)
    one.handle(RollBack(to=to, then=then, by="olga"))
    state = session(one)
    assert (state.expected, state.speakers.turn_count, state.speakers.context_vars) == ("editor", 1, {})
    assert not state.is_closed
    back = one.records(RolledBack)[0]
    assert {watch.seq for watch in state.watches.values()} == {back.seq}, "a key never means two things"
    assert state.watches["ttl.close"].due == back.at + 7_200_000
    one.converse("/continue")
    assert one.records(r.WorkflowClosed)[-1].reason == "max_turns"


def spoke(one: Scenario) -> list[str]:
    """Whose rounds the conversation knows."""
    done = (completion for turn in one.conversation.turns for completion in turn.completions)
    return [completion.agent for completion in done if completion.outcome == "finished"]


def test_from_whatever_record_it_goes_back_to_it_comes_to_its_end_and_counts_every_round_once() -> None:
    graph = TransitionGraph.sequence(TRIO)
    whole = started(graph, LINES).settle()
    for to in range(1, whole.conversation.next_seq - 1):
        one = started(graph, LINES).settle()
        then = state_at(ID, one.records(), to)
        one.handle(RollBack(to=then.next_seq - 1, then=then, by="olga"))
        if not one.records(RolledBack):
            continue
        assert session(one).speakers.turn_count == len(spoke(one)), to
        one.converse("go on")
        assert session(one).is_closed, to
        assert (session(one).speakers.turn_count, spoke(one)) == (3, list(TRIO)), to


def test_a_fork_goes_on_by_the_rules_of_what_it_was_forked_from() -> None:
    one = started(ROUND, LINES).settle()
    then = state_at(ID, one.records(), one.records(r.RoundClosed)[1].seq)
    state = of_fork(then, Millis(one.now), id=ConversationId("d" * 64), address={"form": "notes"}, title="Again")
    fork = ConversationForked(
        seq=1, at=Millis(one.now), id=state.id, origin=ID, at_seq=then.next_seq - 1, title="Again", state=state
    )
    lines = CONVERSATION.encode_decisions([[fork]])
    assert CONVERSATION.decode_lines(lines)[0] == [fork]
    assert state.workflow is not None
    assert (state.workflow.expected, state.workflow.speakers.context_vars) == ("checker", {"n": 1})


def test_status_shows_its_state() -> None:
    one = started(ROUND, LINES).settle()
    view = session_view(session(one))
    assert view["name"] == "review"
    assert (view["next"], view["turnCount"], view["context"]) == (None, 9, {"n": 1})
    assert view["closeReason"] == "max_turns"
    json.dumps(view)


def shown(one: Scenario, number: int) -> tuple[list[str], str]:
    """What the agent of a run was shown: the words of messages, and the note on the workflow."""
    begun = one.records(r.RunStarted)[number]
    entries = fold(ID, one.records()[: begun.seq]).runs[begun.run].entries
    notes = [entry.text for entry in entries if isinstance(entry, Note) and entry.title == "Workflow"]
    return [entry.text for entry in entries if isinstance(entry, (UserText, AgentText))], notes[0]


@pytest.mark.parametrize(("view", "most"), [("full", 8), ("windowed", 6), ("summary", 1)])
def test_a_view_states_how_much_of_what_was_sent_a_speaker_is_shown(view: str, most: int) -> None:
    one = started(ROUND, {name: [f"{name} {n}" for n in range(3)] for name in TRIO}, view=view).settle()
    words, note = shown(one, 8)
    everything = [f"{name} {n}" for n in range(3) for name in TRIO][:8]
    assert words == ["Make it good", *everything[-most:]]
    assert note.startswith("Review, round 9 of at most 9. You speak as checker.")


def test_variables_are_in_the_prompt_of_the_next_speaker() -> None:
    one = started(ROUND, LINES, context={"tone": "dry"}).settle()
    assert json.loads(shown(one, 2)[1].partition("Its variables:")[2]) == {"tone": "dry", "n": 1}
