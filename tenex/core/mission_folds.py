"""What each fact of a mission does to the state of its conversation.

Never: a rule, or a look at the graph: records say where the mission went.
"""

from collections.abc import Callable
from typing import Any

from . import mission_records as m
from .missions import Mission
from .phases import Phase
from .state import State


def _opened(c: State, record: m.MissionOpened) -> None:
    c.mission = Mission(
        workflow=record.workflow, seq=record.seq, by=record.by, pubkey=record.pubkey, entry=record.state
    )  # fmt: skip
    if record.pubkey:
        c.phase = Phase.EXECUTE  # as in a workflow of speakers: none of the seven says anything here
    c.status, c.waiting_for, c.question, c.refused = "active", "", None, ""


def _refused(c: State, record: m.MissionRefused) -> None:
    c.refused = record.workflow


def _resumed(c: State, record: m.NodeResumed) -> None:
    if c.mission is not None:
        c.mission = c.mission.resumed(record)
        c.status, c.waiting_for = "active", ""


def _change(change: Callable[[Mission, Any], Mission]) -> Callable[[State, Any], None]:
    def fold_mission(c: State, record: Any) -> None:
        if c.mission is not None:
            c.mission = change(c.mission, record)

    return fold_mission


MISSION_FOLDS: dict[type[Any], Callable[[State, Any], None]] = {
    m.MissionOpened: _opened,
    m.MissionRefused: _refused,
    m.NodeEntered: _change(Mission.entered),
    m.StepPermitted: _change(Mission.permitted),
    m.StepReturned: _change(Mission.returned),
    m.NodeRetrying: _change(Mission.retrying),
    m.NodeResumed: _resumed,
    m.NodeLeft: _change(Mission.left),
    m.MissionPausing: _change(Mission.wants_pause),
    m.MissionPaused: _change(lambda mission, record: mission.stopped(record.reason, record.at)),
    m.MissionEnded: _change(Mission.ended),
}
