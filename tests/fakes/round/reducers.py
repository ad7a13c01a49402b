"""What each record does to a round."""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.reducers import Reducers
from tenex.core.state import State

from .config import NAME
from .records import RoundOpened
from .state import RoundPart

ROUND = Reducers[RoundPart | None](NAME)


@ROUND.on(RoundOpened)
def _opened(_part: RoundPart | None, record: RoundOpened, _: State) -> RoundPart:
    return RoundPart(round=record.round, agents=record.agents, times=record.times)


@ROUND.on(r.CycleStarted)
def _cycle_started(part: RoundPart | None, _record: r.CycleStarted, _: State) -> RoundPart | None:
    return part and replace(part, spoken=0)


@ROUND.on(r.TurnClosed)
def _turn_closed(part: RoundPart | None, _record: r.TurnClosed, _: State) -> RoundPart | None:
    return part and replace(part, spoken=part.spoken + 1)
