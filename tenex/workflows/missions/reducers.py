"""What each record does to a mission, and what those of missions do to the rest of the conversation."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.cycle import reducers as cycle
from tenex.core.cycle.reducers import CYCLE, goes_on
from tenex.core.cycle.state import Cycle
from tenex.core.history.facts import add_facts, paid
from tenex.core.phases import Phase
from tenex.core.reducers import Reducers
from tenex.core.router.reducers import ROUTER, not_asked
from tenex.core.state import State
from tenex.core.totals import reducers as totals
from tenex.core.totals.costs import counts_usage
from tenex.core.totals.reducers import TOTALS
from tenex.core.values import replace

from . import records as m
from .config import NAME
from .state import Mission, MissionPart

MISSIONS: Final = Reducers[MissionPart | None](NAME)


@MISSIONS.on(m.MissionOpened)
def _opened(_part: MissionPart | None, record: m.MissionOpened, _: State) -> MissionPart:
    return MissionPart(
        mission=Mission(
            workflow=record.workflow, seq=record.seq, by=record.by, pubkey=record.pubkey, entry=record.state
        )
    )


@MISSIONS.on(m.MissionRefused)
def _refused(part: MissionPart | None, record: m.MissionRefused, _: State) -> MissionPart:
    return replace(part or MissionPart(), refused=record.workflow)


@MISSIONS.on(r.CycleStarted)
def _cycle_started(part: MissionPart | None, _record: r.CycleStarted, _: State) -> MissionPart | None:
    return None if part is None or part.mission is None else replace(part, refused="")


Change = Callable[[Mission, Any], Mission]


def _of_mission(change: Change) -> Callable[[MissionPart | None, Any, State], MissionPart | None]:
    """The reducer that changes the mission, where there is one."""

    def reduce_mission(part: MissionPart | None, record: Any, _: State) -> MissionPart | None:
        if part is None or part.mission is None:
            return part
        return replace(part, mission=change(part.mission, record))

    return reduce_mission


MISSIONS.add(m.NodeEntered, _of_mission(Mission.entered))
MISSIONS.add(m.StepStarted, _of_mission(Mission.permitted))
MISSIONS.add(m.StepCompleted, _of_mission(Mission.returned))
MISSIONS.add(m.NodeRetryScheduled, _of_mission(Mission.retrying))
MISSIONS.add(m.NodeRetryDue, _of_mission(Mission.resumed))
MISSIONS.add(m.NodeCompleted, _of_mission(Mission.left))
MISSIONS.add(m.MissionPauseRequested, _of_mission(Mission.wants_pause))
MISSIONS.add(m.MissionPaused, _of_mission(lambda mission, record: mission.stopped(record.reason, record.at)))
MISSIONS.add(m.MissionEnded, _of_mission(Mission.ended))
MISSIONS.add(r.ProcessRestarted, _of_mission(lambda mission, record: mission.spared(record.away)))
MISSIONS.add(r.ClockAdjusted, _of_mission(lambda mission, record: mission.moved(record.by)))


# ---- the rest of the conversation ------------------------------------------------------------------------------------


@CYCLE.on(m.MissionOpened)
def _goes_on_with_mission(before: Cycle, record: m.MissionOpened, state: State) -> Cycle:
    after = goes_on(before, record, state)
    return replace(after, phase=Phase.EXECUTE) if record.pubkey else after  # no phase limits a mission of its own


@CYCLE.on(m.NodeRetryDue)
def _goes_on_with_node(before: Cycle, record: m.NodeRetryDue, state: State) -> Cycle:
    return before if state.kinds.get(NAME) is None else goes_on(before, record, state)


ROUTER.add(m.MissionOpened, not_asked)
counts_usage(m.MissionUsageRecorded)
add_facts(m.MissionUsageRecorded, lambda record: (paid("model", "answered", record),))
CYCLE.add(m.MissionUsageRecorded, cycle.spent)
TOTALS.add(m.MissionUsageRecorded, totals.spent)
