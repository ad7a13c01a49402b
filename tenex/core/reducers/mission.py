"""What each fact of a mission does to the state of its conversation."""

from collections.abc import Callable
from typing import Any

from tenex.core.phases import Phase
from tenex.core.records import mission as m
from tenex.core.state.conversation import State
from tenex.core.state.mission import Mission


def _opened(c: State, record: m.MissionOpened) -> None:
    c.mission = Mission(
        workflow=record.workflow, seq=record.seq, by=record.by, pubkey=record.pubkey, entry=record.state
    )
    if record.pubkey:
        c.phase = Phase.EXECUTE  # as in a workflow of speakers: none of the seven applies here
    c.status, c.waiting_for, c.question, c.refused = "active", "", None, ""


def _refused(c: State, record: m.MissionRefused) -> None:
    c.refused = record.workflow


def _resumed(c: State, record: m.NodeRetryDue) -> None:
    if c.mission is not None:
        c.mission = c.mission.resumed(record)
        c.status, c.waiting_for = "active", ""


def _change(change: Callable[[Mission, Any], Mission]) -> Callable[[State, Any], None]:
    def reduce_mission(c: State, record: Any) -> None:
        if c.mission is not None:
            c.mission = change(c.mission, record)

    return reduce_mission


MISSION_REDUCERS: dict[type[Any], Callable[[State, Any], None]] = {
    m.MissionOpened: _opened,
    m.MissionRefused: _refused,
    m.NodeEntered: _change(Mission.entered),
    m.StepStarted: _change(Mission.permitted),
    m.StepCompleted: _change(Mission.returned),
    m.NodeRetryScheduled: _change(Mission.retrying),
    m.NodeRetryDue: _resumed,
    m.NodeCompleted: _change(Mission.left),
    m.MissionPauseRequested: _change(Mission.wants_pause),
    m.MissionPaused: _change(lambda mission, record: mission.stopped(record.reason, record.at)),
    m.MissionEnded: _change(Mission.ended),
}
