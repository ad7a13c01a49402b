"""A conversation rendered line by line."""

from tenex.core.conversation import fold
from tenex.core.graph import END
from tenex.core.ids import EventId, Millis, RunId, TurnId
from tenex.core.messages import ModelStep
from tenex.core.records import ModelResponded
from tenex.operations.transcript import TranscriptRenderer
from tenex.workflows.phases.records import PlanApproved
from tenex.workflows.speakers import TransitionGraph
from tests.fakes.scenario import ALICE, ID, Scenario, policy, reply
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents
from tests.fakes.workflows import started
from tests.kits.missions import MissionScenario


def test_calls_of_sub_agents_are_shown_with_their_results() -> None:
    """The sub-agent's text is shown once, as the result of the call."""
    worker = model_by_agent(executor=[reply("", *calls_to("helper", message="which?")), "built"], helper=["green"])
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=with_subagents(policy(), executor=["helper"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    renderer = TranscriptRenderer()
    lines = [(line.head, line.text) for record in scenario.records() for line in renderer.render(record)]
    assert lines.index(("executor calls helper", "")) < lines.index(("executor · to_helper(message=which?)", "green"))
    assert [text for _, text in lines].count("green") == 1


def test_a_renderer_that_begins_in_the_middle_knows_where_the_conversation_is() -> None:
    """As one that has rendered it from its first record: its workflow, its node, and the arguments of open calls."""
    lately = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        model_by_agent(executor=[reply("", *calls_to("helper", message="which?")), "built"], helper=["green"]),
        config=with_subagents(policy(), executor=["helper"]),
    )
    lately.user_writes("hello")
    lately.settle()
    mission = MissionScenario().begin()
    mission.ask("build")
    mission.done("build")
    mission.returns("Second")
    workflow = started(TransitionGraph.sequence(["writer", "editor"]))
    workflow.settle()
    for scenario in (lately, mission, workflow):
        records = scenario.records()
        whole = TranscriptRenderer()
        lines = [list(whole.render(record)) for record in records]
        for count in range(1, len(records)):
            late = TranscriptRenderer()
            late.follow(fold(ID, records[:count]))
            assert [list(late.render(record)) for record in records[count:]] == lines[count:]


def test_a_turn_after_a_mission_is_in_its_phase() -> None:
    scenario = MissionScenario().begin()
    scenario.returns("Second")
    scenario.returns(END)
    scenario.user_writes("and now?")
    scenario.settle()
    renderer = TranscriptRenderer()
    heads = [line.head for record in scenario.records() for line in renderer.render(record)]
    assert "m · Second" in heads
    assert "turn-1 · chat" in heads


def test_who_approved_a_plan_is_shown() -> None:
    approved = PlanApproved(
        seq=1, at=Millis(1), turn_id=TurnId("turn-2"), author=ALICE, name="alice", message_id=EventId("e" * 64)
    )
    (line,) = TranscriptRenderer().render(approved)
    assert (line.head, line.text) == ("approved", "the plan of turn-2 by alice")


def test_thoughts_are_shown_only_on_request() -> None:
    """Each state under its own name; a model's reasoning without states under the agent's."""
    plan = "thinking:\nfirst\nlook\n\nscratchpad:\nx"
    planned = ModelStep(thinking=plan, vendor={"states": [["thinking", 10], ["scratchpad", 1]]})
    steps = [planned, ModelStep(thinking="just so"), ModelStep(text="done")]
    run = RunId("turn-1.executor")
    records = [ModelResponded(seq=n, at=Millis(n), run=run, step=step) for n, step in enumerate(steps, 1)]

    def lines(*, thoughts: bool) -> list[tuple[str, str]]:
        renderer = TranscriptRenderer(thoughts=thoughts)
        return [(line.head, line.text) for record in records for line in renderer.render(record)]

    heads, texts = zip(*lines(thoughts=True), strict=True)
    assert heads == ("executor · thinking", "executor · scratchpad", "executor · reasoning")
    assert texts == ("first\nlook", "x", "just so")
    assert lines(thoughts=False) == []
