"""The status of a conversation, as an operator gets it."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from tenex.cli.shared.activity import toolbar
from tenex.cli.status import _parts
from tenex.core.conversation import fold
from tenex.core.ids import Millis, Slug
from tenex.core.signals import DayLimitReached
from tenex.operations.conversation_status import conversation_status, status_with_usage
from tenex.store.view_json import render
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers import records as w
from tests.fakes.scenario import ID, Scenario, diligent, longest_way, policy, reply
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents
from tests.fakes.workflows import session, started
from tests.kits.missions import MissionScenario


def test_a_waiting_caller_and_its_sub_agent_are_shown() -> None:
    """Until the sub-agent asks the user: then the whole conversation waits."""
    worker = model_by_agent(
        executor=[reply("", *calls_to("helper"))], helper=[reply("", ("ask", {"question": "Which?"}))]
    )
    scenario = Scenario(
        lambda _: {"agents": ["executor"], "reason": "x"}, worker, config=with_subagents(policy(), executor=["helper"])
    )
    scenario.user_writes("hello")
    while len(scenario.conversation.work.runs) < 2:
        scenario.step()
    status = conversation_status(scenario.conversation, scenario.now)
    caller, called = status["runs"]
    assert (status["kind"], caller["state"], caller["sub_agents"]) == ("active", "calling", ["helper"])
    assert (called["agent"], called["calledBy"], called["state"]) == ("helper", "executor", "model")
    assert scenario.conversation.work.turn is not None
    later = conversation_status(scenario.conversation, Millis(scenario.conversation.work.turn.timestamp + 65_000))
    assert (later["turn"]["seconds"], later["runs"][1]["seconds"]) == (65, 64), "each since its own beginning"
    scenario.settle()
    status = conversation_status(scenario.conversation, scenario.now)
    assert [run["state"] for run in status["runs"]] == ["calling", "parked"]
    assert (status["kind"], status["status"], status["waitingFor"]) == ("parked", "waiting", "answer")


def test_a_mission_that_waits_for_the_next_day_is_limited() -> None:
    """As a run is whose next call a limit of the day holds back; `/status` says the same."""
    scenario = MissionScenario().begin()
    until = Millis(scenario.now + 3_600_000)
    scenario.handle(DayLimitReached(key=scenario.run.key, limit="cost_per_day_usd", sentence="Enough.", until=until))
    status = conversation_status(scenario.conversation, scenario.now)
    assert (status["kind"], status["mission"]["state"], status["mission"]["why"]) == ("limited", "limited", "Enough.")
    assert "mission is limited: Enough." in list(_parts({**status, "runs": []}, datetime.now(UTC)))
    scenario.user_writes("/status")
    assert "The mission m is limited at First: Enough." in scenario.sent_texts()[-1]


def test_a_conversation_with_one_agent_is_shown_with_the_agent_in_place_of_a_phase() -> None:
    scenario = Scenario(longest_way, diligent, config=replace(policy(), only_agent=Slug("executor"))).converse("hello")
    status = status_with_usage(scenario.conversation, scenario.now)
    assert (status["place"], status["phase"]) == ("@executor", None)
    assert "phase" not in json.loads(render(scenario.conversation))
    assert toolbar(status).startswith("@executor · ")


def test_a_workflow_is_shown_with_its_next_speaker_until_it_ends() -> None:
    graph = TransitionGraph.sequence(["writer", "editor"])
    scenario = started(graph)
    shown = {"name": "Review", "speaker": "writer"}
    assert conversation_status(scenario.conversation, scenario.now)["workflow"] == shown
    while session(scenario).expected == "writer":
        scenario.step()
    assert conversation_status(scenario.conversation, scenario.now)["workflow"]["speaker"] == "editor"
    scenario.settle()
    ended = {"name": "Review", "closeReason": session(scenario).close_reason}
    assert conversation_status(scenario.conversation, scenario.now)["workflow"] == ended
    closed = scenario.records(w.RoundClosed)[-1]
    last = fold(ID, [one for decision in scenario.journal for one in decision if one.seq <= closed.seq])
    assert "workflow" not in conversation_status(last, scenario.now), "its end is the next record"
