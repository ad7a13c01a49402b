"""A mission begun by a mention: the conversation is its own, and users learn what it does and who must do what."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Policy, Replay
from tenex.core.decide.rollback import state_at
from tenex.core.errors import UsageError
from tenex.core.graph import END
from tenex.core.ids import PublicKey
from tenex.core.mission_config import Beginning
from tenex.core.signals import NodeFailed, Opened, RollBack
from tenex.workflows.missions.decide import ANNOUNCED
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import ID
from tests.fakes.workflows import TRIO, workflow, workflow_policy

from .test_missions import RULE, STATE, MissionScenario, config

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


def begun(rules: Policy | None = None) -> MissionScenario:
    scenario = MissionScenario(rules or mine())
    scenario.user_writes("@m count", addressed=("m",))
    return scenario


def tags(record: r.MessageSent) -> dict[str, str]:
    return {tag[0]: tag[1] for tag in record.tags}


def test_a_mention_begins_it_and_it_speaks_with_its_own_key() -> None:
    scenario = begun()
    assert (scenario.mission.by, scenario.mission.is_alone, scenario.run.data) == ("alice", True, {"x": 8})
    scenario.returns("Second")
    scenario.returns(END, {"ok": True})
    ended = 'The mission m has ended. Its result: {"ok": true}'
    assert scenario.sent_texts() == ["Now in first", "Now in second", ended]
    assert {record.speaker for record in scenario.records(r.MessageSent)} == {KEY}
    assert [tags(record) for record in scenario.records(r.MessageSent)] == [
        {"workflow": "m"},
        {"workflow": "m"},
        {"workflow": "m", "close-reason": "finished"},
    ]
    assert (scenario.status(), scenario.records(r.Ended)[-1].reason) == ("ended", "the mission m finished")
    assert not scenario.records(r.RouteRequested), "no model was asked"


@pytest.mark.parametrize(("last", "where"), [(0, "m at First."), (1, "m at Second, finished.")])
def test_who_goes_back_is_notified_where_the_mission_was(last: int, where: str) -> None:
    scenario = begun()
    ends = [scenario.conversation.next_seq - 1]
    scenario.returns("Second")
    scenario.returns(END)
    ends.append(scenario.conversation.next_seq - 1)
    scenario.user_writes("and now?")
    then = state_at(ID, scenario.records(), ends[last])
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="bob"))
    assert f"we are {where} Nothing that a turn did is undone." in scenario.sent_texts()[-1]


@pytest.mark.parametrize("between", ["", "crash", "/new", "/continue"])
def test_what_is_written_after_a_refusal_begins_it_and_no_router_is_asked(between: str) -> None:
    scenario = MissionScenario(mine())
    for _ in range(2):
        scenario.user_writes("@m", addressed=("m",))
        assert scenario.last_message() == "The mission m cannot begin: Say more. Correct it and write it here again."
    if between == "crash":
        scenario.crash()
    elif between:
        scenario.user_writes(between)
        assert scenario.last_message().startswith("The mission m has not begun.")
    scenario.user_writes("count")
    assert (scenario.mission.by, scenario.run.data, scenario.status()) == ("alice", {"x": 5}, "active")
    assert len(scenario.records(r.MissionRefused)) == 2
    assert not scenario.records(r.RouteRequested)
    scenario.returns(END)
    scenario.user_writes("once more")
    assert "To run it again, mention @m in a new note" in scenario.last_message()


def test_pause_lets_the_step_return_and_continue_goes_on() -> None:
    scenario = begun()
    scenario.ask("a")
    scenario.user_writes("/pause")
    assert "as soon as the step under way has returned" in scenario.last_message()
    scenario.user_writes("/continue")
    assert "is at work" in scenario.last_message()
    scenario.done("a")
    assert scenario.is_paused()
    assert scenario.last_message() == "The mission m is paused at First: alice asks for it. `/continue` lets it go on."
    sent = len(scenario.sent_texts())
    scenario.user_writes("/pause")
    assert scenario.sent_texts()[sent:] == ["The mission m is paused at First: alice asks for it."]
    scenario.user_writes("/continue")
    assert (scenario.is_paused(), scenario.last_message()) == (False, "The mission goes on.")
    sent = len(scenario.sent_texts())
    scenario.user_writes("/pause")
    assert scenario.is_paused(), "with nothing under way it pauses at once"
    assert len(scenario.sent_texts()) == sent + 1, "and no one is notified to wait for it"


def test_stop_pauses_and_new_ends_it_with_a_reason() -> None:
    scenario = begun()
    scenario.ask("a", Replay.READ)
    scenario.user_writes("/stop")
    assert scenario.last_message() == "Stopped: the mission m. `/continue` goes on, `/new` ends it."
    scenario.user_writes("/new")
    assert scenario.last_message() == "The mission m has ended: alice ended it."
    assert tags(scenario.records(r.MessageSent)[-1])["close-reason"] == "stopped"
    assert scenario.status() == "ended"


@pytest.mark.parametrize("text", ["again, please", "@m again", "/continue", "/retry", "/new"])
def test_who_writes_after_the_end_is_notified_how_to_run_it_again(text: str) -> None:
    scenario = begun()
    scenario.returns(END, 1)
    scenario.user_writes(text, addressed=("m",) if "@m" in text else ())
    assert scenario.last_message() == "The mission m has ended (finished). To run it again, mention @m in a new note."
    assert scenario.status() == "ended"
    scenario.user_writes("/status")
    assert scenario.last_message().startswith("The mission m has ended (finished).")
    assert (scenario.records(r.RouteRequested), len(scenario.records(r.MissionOpened))) == ([], 1)


def test_a_mission_and_a_workflow_of_speakers_do_not_begin_each_other() -> None:
    graph = TransitionGraph.sequence(list(TRIO))
    both = dataclasses.replace(workflow_policy(workflow(graph), config=mine()))
    scenario = MissionScenario(both)
    scenario.user_writes("@review @m", addressed=("review", "m"))
    assert scenario.conversation.workflow is not None
    assert scenario.conversation.mission is None
    other = MissionScenario(both)
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
    scenario = begun()
    scenario.returns("Second")  # which is not tried again, and has no node that follows its failure
    scenario.handle(NodeFailed(key=scenario.run.key, who=who, kind=kind, message="it broke"))
    assert scenario.last_message() == f"The mission m has failed: Second: it broke. {remedy}"
    last = tags(scenario.records(r.MessageSent)[-1])
    assert (last["close-reason"], last["error"]) == ("failed", "mission")


def test_a_mission_whose_node_is_gone_waits_for_the_operator() -> None:
    scenario = begun()
    scenario.rules = dataclasses.replace(scenario.rules, missions={})
    scenario.crash()
    scenario.handle(Opened())
    assert scenario.is_paused()
    assert "Once the operator has fixed that, `/continue` lets it go on." in scenario.last_message()
    scenario.user_writes("/continue")
    assert "no workflow m is configured any more" in scenario.last_message(), "and not that it goes on"
    scenario.rules = mine()
    scenario.user_writes("/continue")
    assert (scenario.is_paused(), scenario.run.node) == (False, "First")


def test_a_long_search_is_not_reported_node_by_node() -> None:
    scenario = begun()
    for _ in range(ANNOUNCED):
        scenario.returns("Second")
        scenario.returns("First")
    reported = [record.text for record in scenario.records(r.MessageSent) if record.purpose == "announcement"]
    assert len(reported) == ANNOUNCED
    assert "`/status` shows the current one" in reported[-1]
