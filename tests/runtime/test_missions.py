"""Missions in the daemon's own flow: commands, restarts, frosts, a drain, and a person who writes meanwhile."""

import asyncio
import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

from structlog.testing import capture_logs

from tenex.core.dispatch import decide, unwanted_cost
from tenex.core.effects import Key
from tenex.core.effects import Work as Kind
from tenex.core.ids import ConversationId, Slug
from tenex.core.messages import Usage
from tenex.core.pending import pending
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tenex.workflows.missions import records as m
from tenex.workflows.missions.config import with_missions
from tenex.workflows.missions.definitions import MissionWorkflow
from tenex.workflows.missions.records import MissionUsageRecorded
from tenex.workflows.missions.runner import NodeRunner
from tenex.workflows.missions.signals import NodeFailed, NodeInterrupted, NodeReturned, StepFinished
from tenex.workflows.missions.state import mission_of
from tests.fakes.scenario import ID
from tests.fakes.virtual import run, virtual_time
from tests.kits.counting_missions import GRAPH, KEY, Count, Stage, Work

BEGUN_BY_TAG = MissionWorkflow(graph=GRAPH, begin=lambda _: (Work(), Count())).rule(Slug("count"), KEY)


@virtual_time
async def test_stop_cuts_off_a_step_and_continue_goes_on_after_what_returned() -> None:
    stage = Stage()

    async with stage.world.daemon() as daemon:
        stage.begin(daemon)
        await stage.until(daemon, 2)
        daemon.write("how far are you?")
        await asyncio.sleep(3)
        daemon.write("/stop")
        await daemon.until("waiting")
        assert stage.cut == [2]
        assert stage.mission(daemon).steps["tick#3"].kind == "OutcomeUnknown"
        daemon.write("/continue")
        await daemon.until("ended")
        # what the cut-off step did is unknown, and this node does not check it: it fails
        mission = stage.mission(daemon)
        assert (mission.outcome, mission.kind) == ("failed", "OutcomeUnknown")
        assert "check before repeating" in stage.world.order[-1]
        assert stage.done == [0, 1]


@virtual_time
async def test_a_drain_lets_the_step_under_way_return_and_begins_no_other() -> None:
    stage = Stage()

    async with stage.world.daemon() as daemon:
        stage.begin(daemon)
        await stage.until(daemon, 1)
        await asyncio.sleep(2)
        before = asyncio.get_running_loop().time()
    assert 2 < asyncio.get_running_loop().time() - before < 6, "it waits for this step and for no other"
    assert (stage.done, stage.cut) == ([0, 1], [])
    assert not stage.mission(daemon).open_steps
    assert pending(daemon.state()), "the node is still wanted"
    async with stage.world.daemon() as daemon:
        await daemon.until("ended")
    assert stage.done == [0, 1, 2, 3, 4, 5]


@virtual_time
async def test_a_process_without_the_workflow_holds_the_mission_until_one_has_it() -> None:
    stage = Stage()
    runner = stage.world.missions

    stage.world.missions = None
    async with stage.world.daemon() as daemon:
        stage.begin(daemon)
        await daemon.until("waiting")
        assert "cannot run the workflow count" in stage.mission(daemon).paused
    stage.world.missions = runner
    async with stage.world.daemon() as daemon:
        daemon.write("/continue")
        await daemon.until("ended")
    assert stage.done == [0, 1, 2, 3, 4, 5]
    assert next(rec for rec in stage.world.observed if isinstance(rec, m.MissionEnded)).outcome == "finished"


@virtual_time
async def test_dependencies_that_cannot_be_made_pause_it_and_a_network_that_is_away_is_tried_again() -> None:
    stage = Stage()
    faults: list[Exception] = [ConnectionError("down"), FileNotFoundError("no key file")]

    def deps() -> Any:
        if faults:
            raise faults.pop(0)
        return stage.tick

    stage.world.missions = NodeRunner({"count": (GRAPH, deps)})

    async with stage.world.daemon() as daemon:
        stage.begin(daemon)
        await daemon.until("waiting")
        assert "the dependencies of count cannot be made: no key file" in stage.world.order[-1]
        daemon.write("/continue")
        await daemon.until("ended")
    assert stage.done == [0, 1, 2, 3, 4, 5]
    assert len([rec for rec in stage.world.observed if isinstance(rec, m.NodeRetryScheduled)]) == 1


def deaf_graph(effects: list[str]) -> Graph[Count, Any, Any]:
    """A node that ignores its cancellation at the timeout; the mission takes its error edge meanwhile."""

    @dataclass
    class Deaf(BaseNode[Count, Any, Any], timeout=10, on_error="Repair"):
        async def run(self, ctx: GraphRunContext[Count, Any]) -> "Repair":
            for _ in range(2):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(20)
            with contextlib.suppress(asyncio.CancelledError):
                await ctx.step("late", lambda: effects.append("late"))
            return Repair()

    @dataclass
    class Repair(BaseNode[Count, Any, Any]):
        async def run(self, ctx: GraphRunContext[Count, Any]) -> End[Any]:
            await ctx.step("repair", asyncio.sleep, 60)
            return End("fixed")

    return Graph(nodes=(Deaf, Repair), state_type=Count, name="deaf")


def test_a_node_that_swallows_its_cancellation_does_not_disturb_the_daemon() -> None:
    stage, effects = Stage(), []  # type: ignore[var-annotated]
    graph = deaf_graph(effects)
    stage.world.policy = with_missions(stage.world.policy, {"deaf": graph.rule()})
    stage.world.missions = NodeRunner({"deaf": (graph, lambda: None)})

    async def main() -> None:
        async with stage.world.daemon() as daemon:
            start = graph.first()
            daemon.runtime.coordinator.deliver(ConversationId(ID), graph.asked(start, Count(), "alice"))
            await daemon.until("ended")
            assert (stage.mission(daemon).result, effects) == ("fixed", [])

    with capture_logs() as lines:
        run(main)
    assert not [line for line in lines if line["event"] in ("conversation.failed", "signal.dropped")]


def test_a_mission_begun_by_a_mention_loses_and_repeats_nothing_whatever_append_fails() -> None:
    for at in range(1, 18):
        for kept in (0, 1):
            stage = Stage(seconds=0.3)
            stage.world.policy = with_missions(stage.world.policy, {"count": BEGUN_BY_TAG})
            stage.world.fail_append = lambda number, at=at, kept=kept: kept if number == at else None

            run(stage.play_mention)
            assert stage.done == [0, 1, 2, 3, 4, 5], (at, kept)
            messages = [*dict.fromkeys(stage.world.order)]
            assert messages == ["Now in work", "Now in rest", "The mission count has ended. Its result: 6"], (at, kept)
            assert len(stage.world.published) == 3, "nothing was published twice"


@virtual_time
async def test_a_tag_begins_it_also_where_a_crash_left_nothing_but_the_folder() -> None:
    stage = Stage()
    stage.world.policy = with_missions(stage.world.policy, {"count": BEGUN_BY_TAG})
    stage.world.exists = lambda conversation: True  # type: ignore[method-assign]

    async with stage.world.daemon() as daemon:
        daemon.write("count for me", event_id=ID, tagged=(KEY,))
        assert mission_of(await daemon.until("ended")) is not None


@virtual_time
async def test_a_late_result_of_a_node_is_dropped_and_its_cost_is_recorded() -> None:
    stage, spent = Stage(), {"large": Usage(input_tokens=7)}

    async with stage.world.daemon() as daemon:
        stage.begin(daemon)
        await stage.until(daemon, 1)
        state = daemon.state()
        wants = stage.mission(daemon).wants
        assert wants is not None
        key, late = Key(Kind.NODE, wants), Key(Kind.NODE, wants - 1)
        signals: tuple[NodeReturned | NodeFailed | StepFinished, ...] = (
            NodeReturned(key=late, to="END", state={}, spent=spent),
            NodeFailed(key=late, who="author", kind="X", message="x", spent=spent),
            StepFinished(node=late, step="tick#1", ok=True, state={}, spent=spent),
        )
        for signal in signals:
            assert unwanted_cost(state, signal) == NodeInterrupted(spent=spent)
            assert unwanted_cost(state, dataclasses.replace(signal, spent={})) is None
        assert unwanted_cost(state, NodeReturned(key=key, to="END", state={}, spent=spent)) is None
        (paid,) = decide(state, NodeInterrupted(spent=spent), stage.world.policy, stage.world.clock.now()).records
        assert isinstance(paid, MissionUsageRecorded)
        assert (paid.model, paid.usage) == ("large", spent["large"])
        daemon.write("/stop")
        await daemon.until("waiting")
