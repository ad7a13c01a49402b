"""Workflows through the flow: begun at the door by a p tag, held to their times, and carried through restarts."""

import asyncio

import pytest

from tenex.core.messages import ModelRequest
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.state import session_of
from tests.fakes.runtime import World
from tests.fakes.scenario import one_turn, reply
from tests.fakes.virtual import virtual_time
from tests.fakes.workflows import KEY, NAME, TRIO, unused_router, workflow, workflow_policy

LINE = TransitionGraph.sequence(TRIO)


def world() -> World:
    made = World(unused_router, lambda request: reply(f"{request.agent} is done"))
    made.policy = workflow_policy(workflow(LINE))
    return made


def closed(of: World) -> list[str]:
    """Why it ended, as often as it did."""
    return [record.reason for record in of.records(w.WorkflowClosed)]


async def hangs(request: ModelRequest, on_text: object = None) -> object:
    await asyncio.Event().wait()
    raise AssertionError


@virtual_time
async def test_a_p_tag_begins_it_in_a_new_thread_and_means_nothing_in_an_old_one() -> None:
    one = world()

    async with one.daemon() as daemon:
        assert daemon.write("look at this", tagged=(KEY,)) == "admitted"
        await daemon.until("ended")
        messages = len(one.published)
        daemon.write("thanks", tagged=(KEY,))
        await daemon.until("ended")
        assert len(one.published) == messages + 1, "one sentence explains how to start it again"
    assert closed(one) == ["sequence_complete"]


@virtual_time
async def test_in_another_conversation_a_mention_is_answered_and_a_tag_is_not() -> None:
    one = World(one_turn("planner"), lambda request: reply("hello"))
    one.policy = workflow_policy(workflow(LINE))

    async with one.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        daemon.write("and you", tagged=(KEY,))
        await daemon.until("waiting")
        assert f"@{NAME} is a workflow" not in " ".join(one.order)
        daemon.write(f"@{NAME} and you", mentions=(KEY,))
        await daemon.until("waiting")
        assert f"@{NAME} is a workflow; it begins in a thread of its own." in " ".join(one.order)
        assert session_of(daemon.state()) is None


@pytest.mark.parametrize("kill", [False, True])
@virtual_time
async def test_1_3_c_a_speaker_who_never_answers_is_closed_after_ten_minutes_also_over_a_restart(kill: bool) -> None:
    one = world()
    one.step = hangs  # type: ignore[assignment, method-assign]

    async with one.daemon(kill=kill) as daemon:
        daemon.write("go", tagged=(KEY,))
        await asyncio.sleep(200)
        assert any("has not answered within 2 min" in text for text in one.order)
    async with one.daemon() as daemon:
        await asyncio.sleep(300)
        assert not closed(one)
        await asyncio.sleep(200)
        await daemon.until("ended")
    assert closed(one) == ["turn_within"]
    assert sum("has not answered within 2 min" in text for text in one.order) == 1, "it is reported once"


@virtual_time
async def test_a_workflow_times_out_by_the_wall_clock_also_while_the_daemon_is_down() -> None:
    one = world()
    one.step = hangs  # type: ignore[assignment, method-assign]

    async with one.daemon(kill=True) as daemon:
        daemon.write("go", tagged=(KEY,))
        await asyncio.sleep(10)
    await asyncio.sleep(7_200)
    async with one.daemon() as daemon:
        await daemon.until("ended")
    assert closed(one) == ["ttl"]


@pytest.mark.parametrize("at", range(1, 14))
@virtual_time
async def test_a_full_disk_at_any_append_loses_and_repeats_no_round(at: int) -> None:
    one = world()
    one.fail_append = lambda count: 0 if count == at else None

    async with one.daemon() as daemon:
        daemon.write("go", tagged=(KEY,))
        await daemon.until("ended")
    assert [record.speaker for record in one.records(w.RoundClosed)] == list(TRIO)
    assert closed(one) == ["sequence_complete"]
    assert len(one.published) == 4
