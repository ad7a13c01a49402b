"""A conversation told line by line."""

from tenex.core.ids import Millis, PublicKey, RunId, Slug
from tenex.core.messages import ModelStep
from tenex.core.records import ModelResponded, RunStarted
from tenex.operations.transcript import TranscriptRenderer
from tests.fakes.scenario import Scenario, reply, rules
from tests.fakes.subagents import calls_to, model_by_agent, with_subagents


def test_who_calls_whom_is_told_and_what_came_of_it() -> None:
    """Its words are not told twice: they stand in the result of the call."""
    worker = model_by_agent(executor=[reply("", *calls_to("helper", message="which?")), "built"], helper=["green"])
    scenario = Scenario(
        lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"},
        worker,
        config=with_subagents(rules(), executor=["helper"]),
    )
    scenario.user_writes("hello")
    scenario.settle()
    renderer = TranscriptRenderer()
    told = [
        (line.head, line.text)
        for decision in scenario.journal
        for record in decision
        for line in renderer.render(record)
    ]
    assert told.index(("executor calls helper", "")) < told.index(("executor · to_helper(message=which?)", "green"))
    assert [text for _, text in told].count("green") == 1


def test_thoughts_are_told_only_to_who_asks_for_them() -> None:
    """By states each stands under its own name; a model's own reasoning, without any, under the agent's."""
    plan = "thinking:\nfirst\nlook\n\nscratchpad:\nx"
    planned = ModelStep(thinking=plan, vendor={"states": [["thinking", 10], ["scratchpad", 1]]})
    steps = [planned, ModelStep(thinking="just so"), ModelStep(text="said")]
    begun = RunStarted(
        seq=1,
        at=Millis(1),
        run=RunId("turn-1.executor"),
        agent=Slug("executor"),
        agent_name="Executor",
        pubkey=PublicKey(""),
        warn_at=Millis(0),
        close_at=Millis(0),
    )
    records = [
        begun,
        *(ModelResponded(seq=n, at=Millis(n), run=begun.run, step=step) for n, step in enumerate(steps, 2)),
    ]

    def told(*, thoughts: bool) -> list[tuple[str, str]]:
        renderer = TranscriptRenderer(thoughts=thoughts)
        return [(line.head, line.text) for record in records for line in renderer.render(record)]

    assert told(thoughts=True) == [
        ("executor · thinking", "first\nlook"),
        ("executor · scratchpad", "x"),
        ("executor · reasoning", "just so"),
    ]
    assert told(thoughts=False) == []
