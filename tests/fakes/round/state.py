"""What a round keeps of a conversation, and what each record does to it."""

from dataclasses import dataclass, replace
from typing import ClassVar

from tenex.core import records as r
from tenex.core.ids import Slug
from tenex.core.reducers import Reducers
from tenex.core.state import KindState, State

from .config import NAME
from .records import RoundOpened


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPart(KindState):
    """Who speaks, and how many have."""

    has_phases: ClassVar[bool] = False

    round: Slug
    agents: tuple[Slug, ...]
    times: int
    spoken: int = 0

    @property
    def location_label(self) -> str:
        return f"@{self.round}"

    @property
    def next_speaker(self) -> Slug | None:
        """Who is next; None once all have spoken as often as they should."""
        is_done = self.spoken >= self.times * len(self.agents)
        return None if is_done else self.agents[self.spoken % len(self.agents)]


def round_of(state: State) -> RoundPart | None:
    part = state.kinds.get(NAME)
    return part if isinstance(part, RoundPart) else None


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
