"""A mission begun by a mention: the conversation is its own, and users learn what it does and who must do what."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.commands import HELP
from tenex.core.config import Policy, Replay, Role
from tenex.core.decide.rollback import state_at
from tenex.core.errors import UsageError
from tenex.core.graph import END, Edge
from tenex.core.graph import TransitionGraph as Graph
from tenex.core.ids import PublicKey
from tenex.core.mission_config import Beginning
from tenex.core.signals import NodeFailed, Opened, RollBack
from tenex.workflows.missions.messages import TOLD
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import ID
from tests.fakes.workflows import TRIO, workflow, workflow_policy

from .test_missions import RULE, STATE, Tale, config

KEY = PublicKey("e" * 64)


def beginning(text: str) -> Beginning:
    """A message that states no more than `@m` is of no use."""
    if text == "@m":
        raise UsageError("Say more.")
    return Beginning(node="First", data={"x": len(text)}, state=STATE)


MINE = dataclasses.replace(RULE, pubkey=KEY, begin=beginning)


def mine(**limits: Any) -> Policy:
    """The usual roster, with one mission that users can begin."""
    return dataclasses.replace(config(**limits), missions={"m": MINE})


def begun(rules: Policy | None = None) -> Tale:
    """A mission that alice has begun."""
    tale = Tale(rules or mine())
    tale.user_writes("@m count", addressed=("m",))
    return tale


def tags(record: r.MessageSent) -> dict[str, str]:
    """What a message bears."""
    return {tag[0]: tag[1] for tag in record.tags}


def test_a_mention_begins_it_and_it_speaks_with_its_own_key() -> None:
    tale = begun()
    assert (tale.mission.by, tale.mission.is_alone, tale.run.data) == ("alice", True, {"x": 8})
    tale.returns("Second")
    tale.returns(END, {"ok": True})
    assert tale.sent_texts() == ["Now in first", "Now in second", 'The mission m has ended. Its result: {"ok": true}']
    assert {record.speaker for record in tale.records(r.MessageSent)} == {KEY}
    assert [tags(record) for record in tale.records(r.MessageSent)] == [
        {"workflow": "m"},
        {"workflow": "m"},
        {"workflow": "m", "close-reason": "finished"},
    ]
    assert (tale.status(), tale.records(r.Ended)[-1].reason) == ("ended", "the mission m finished")
    assert not tale.records(r.RouteRequested), "no model was asked"


def test_who_follows_it_reads_what_the_graph_states_of_the_edges() -> None:
    edges = (Edge("First", "Mend", label="by a detour"), Edge("First", "Second", label="all is there"))
    graph = Graph(nodes=("First", "Second", "Mend"), initial="First", edges=edges)
    tale = begun(dataclasses.replace(config(), missions={"m": dataclasses.replace(MINE, graph=graph)}))
    tale.returns("Second")
    assert tale.sent_texts() == ["Now in first", "Now in second: all is there"]


@pytest.mark.parametrize(("last", "where"), [(0, "m at First."), (1, "m at Second, finished.")])
def test_who_goes_back_is_notified_where_the_mission_was(last: int, where: str) -> None:
    tale = begun()
    ends = [tale.conversation.next_seq - 1]
    tale.returns("Second")
    tale.returns(END)
    ends.append(tale.conversation.next_seq - 1)
    tale.user_writes("and now?")
    then = state_at(ID, tale.records(), ends[last])
    tale.handle(RollBack(to=then.next_seq - 1, then=then, by="bob"))
    assert f"we are {where} Nothing that a turn did is undone." in tale.sent_texts()[-1]


def test_the_same_message_twice_begins_it_once() -> None:
    tale = Tale(mine())
    for _ in range(2):
        tale.user_writes("@m count", addressed=("m",), event_id="1" * 64)
    tale.crash()
    assert len(tale.records(r.MissionOpened)) == 1
    assert tale.user_writes("@m count", addressed=("m",), event_id="1" * 64) == []


def test_a_message_of_no_use_is_answered_and_nothing_runs() -> None:
    tale = Tale(mine())
    tale.user_writes("@m", addressed=("m",))
    assert tale.sent_texts() == ["The mission m cannot begin: Say more. Correct it and write it here again."]
    assert (tale.conversation.mission, tale.status()) == (None, "ended")
    assert not tale.running or all(key.work == "publish" for key in tale.running)


@pytest.mark.parametrize("between", ["", "crash", "/new", "/continue"])
def test_what_is_written_after_a_refusal_begins_it_and_no_router_is_asked(between: str) -> None:
    tale = Tale(mine())
    tale.user_writes("@m", addressed=("m",))
    tale.user_writes("@m", addressed=("m",))
    if between == "crash":
        tale.crash()
    elif between:
        tale.user_writes(between)
        assert tale.last_words().startswith("The mission m has not begun.")
    tale.user_writes("count")
    assert (tale.mission.by, tale.run.data, tale.status()) == ("alice", {"x": 5}, "active")
    assert len(tale.records(r.MissionRefused)) == 2
    assert not tale.records(r.RouteRequested)
    tale.returns(END)
    tale.user_writes("once more")
    assert "To run it again, mention @m in a new note" in tale.last_words()


def test_where_the_refusing_mission_is_gone_the_router_has_the_word() -> None:
    tale = Tale(mine())
    tale.user_writes("@m", addressed=("m",))
    tale.rules = dataclasses.replace(tale.rules, missions={})
    tale.user_writes("count")
    assert tale.records(r.RouteRequested)


def test_who_writes_in_the_middle_is_answered_and_disturbs_nothing() -> None:
    tale = begun()
    run = tale.run
    tale.user_writes("how far are you?")
    assert tale.run == run
    assert "is at work in First" in tale.last_words()
    tale.user_writes("/status")
    assert tale.last_words().startswith("The mission m is at work in First.")
    tale.user_writes("/quick")
    assert "no quality gates" in tale.last_words()


def test_pause_lets_the_step_return_and_continue_goes_on() -> None:
    tale = begun()
    tale.ask("a")
    tale.user_writes("/pause")
    assert "as soon as the step under way has returned" in tale.last_words()
    tale.user_writes("/continue")
    assert "is at work" in tale.last_words()
    tale.done("a")
    assert tale.is_paused()
    assert tale.last_words() == "The mission m is paused at First: alice asks for it. `/continue` lets it go on."
    sent = len(tale.sent_texts())
    tale.user_writes("/pause")
    assert tale.sent_texts()[sent:] == ["The mission m is paused at First: alice asks for it."]
    tale.user_writes("/continue")
    assert (tale.is_paused(), tale.last_words()) == (False, "The mission goes on.")
    sent = len(tale.sent_texts())
    tale.user_writes("/pause")
    assert tale.is_paused(), "with nothing under way it pauses at once"
    assert len(tale.sent_texts()) == sent + 1, "and no one is notified to wait for it"


def test_stop_pauses_and_new_ends_it_with_a_reason() -> None:
    tale = begun()
    tale.ask("a", Replay.READ)
    tale.user_writes("/stop")
    assert tale.last_words() == "Stopped: the mission m. `/continue` goes on, `/new` ends it."
    tale.user_writes("/new")
    assert tale.last_words() == "The mission m has ended: alice ended it."
    assert tags(tale.records(r.MessageSent)[-1])["close-reason"] == "stopped"
    assert tale.status() == "ended"


def test_only_an_owner_or_who_began_it_may_pause() -> None:
    tale = begun()
    tale.user_writes("/pause", role=Role.MEMBER, author=PublicKey("b" * 64))
    assert not tale.is_paused()
    assert "is for an owner" in tale.last_words()


def test_pause_without_a_mission_reports_it() -> None:
    tale = Tale(mine())
    tale.user_writes("/pause")
    assert "Only a mission" in tale.last_words()
    assert "/pause" in HELP


@pytest.mark.parametrize("text", ["again, please", "@m again", "/continue", "/retry", "/new"])
def test_who_writes_after_the_end_is_notified_how_to_run_it_again(text: str) -> None:
    tale = begun()
    tale.returns(END, 1)
    tale.user_writes(text, addressed=("m",) if "@m" in text else ())
    assert tale.last_words() == "The mission m has ended (finished). To run it again, mention @m in a new note."
    assert tale.status() == "ended"
    tale.user_writes("/status")
    assert tale.last_words().startswith("The mission m has ended (finished).")
    assert (tale.records(r.RouteRequested), len(tale.records(r.MissionOpened))) == ([], 1)


def test_a_mention_elsewhere_is_answered_with_a_sentence() -> None:
    tale = Tale(mine())
    tale.user_writes("Good morning")
    tale.user_writes("@m count", addressed=("m",))
    assert any("@m is a workflow; it begins in a thread of its own" in text for text in tale.sent_texts())
    assert tale.conversation.mission is None


def test_a_mission_and_a_workflow_of_speakers_do_not_begin_each_other() -> None:
    graph = TransitionGraph.sequence(list(TRIO))
    both = dataclasses.replace(workflow_policy(workflow(graph), config=mine()))
    tale = Tale(both)
    tale.user_writes("@review @m", addressed=("review", "m"))
    assert tale.conversation.workflow is not None
    assert tale.conversation.mission is None
    other = Tale(both)
    other.user_writes("@m @review", addressed=("m", "review"))
    assert (other.mission.workflow, other.conversation.workflow) == ("m", None)


@pytest.mark.parametrize(
    ("who", "kind", "remedy"),
    [
        ("author", "ValueError", "The author of its code has to fix that; then mention @m in a new note."),
        ("world", "ConnectionError", "That may pass by itself; to try again, mention @m in a new note."),
        ("author", "OutcomeUnknown", "Somebody has to look at what that step did; then mention @m in a new note."),
    ],
)
def test_a_failure_states_who_has_to_do_what(who: Any, kind: str, remedy: str) -> None:
    tale = begun()
    tale.returns("Second")  # which is not tried again, and has no node that follows its failure
    tale.handle(NodeFailed(key=tale.run.key, who=who, kind=kind, message="it broke"))
    assert tale.last_words() == f"The mission m has failed: Second: it broke. {remedy}"
    last = tags(tale.records(r.MessageSent)[-1])
    assert (last["close-reason"], last["error"]) == ("failed", "mission")


def test_a_mission_whose_node_is_gone_waits_for_the_operator() -> None:
    tale = begun()
    tale.rules = dataclasses.replace(tale.rules, missions={})
    tale.crash()
    tale.handle(Opened())
    assert tale.is_paused()
    assert "Once the operator has fixed that, `/continue` lets it go on." in tale.last_words()
    tale.user_writes("/continue")
    assert "no workflow m is configured any more" in tale.last_words(), "and not that it goes on"
    tale.rules = mine()
    tale.user_writes("/continue")
    assert (tale.is_paused(), tale.run.node) == (False, "First")


def test_a_long_search_is_not_reported_node_by_node() -> None:
    tale = begun()
    for _ in range(TOLD):
        tale.returns("Second")
        tale.returns("First")
    reported = [record.text for record in tale.records(r.MessageSent) if record.purpose == "announcement"]
    assert len(reported) == TOLD
    assert "`/status` says where it is" in reported[-1]
