"""All that readers are shown of a conversation."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.delivery.state import RelayRefusal
from tenex.core.history.reducers import so_far
from tenex.core.history.state import REASON_CHARACTERS, CycleSummary, History
from tenex.core.identity.state import ForkOrigin
from tenex.core.ids import Slug
from tenex.core.inbox.message import Message
from tenex.core.memory.state import LEAST_RECENT
from tenex.core.messages import Usage, cut
from tenex.core.state import State
from tenex.core.work.turn import OrchestratorTurn

from .activity import Activity, activity_of
from .fates import Fate, Fates
from .glance import Glance, glance_of
from .kinds import PhasesShare, of_phases

_NO_HISTORY: Final = History()
_SEQ: Final = attrgetter("seq")


class PlacedMessage(NamedTuple):
    """A message and the turn in which it was written, or the first one after it, which works on it; "" for none.

    `fate` is what became of a user's message, as far as that is known.
    """

    message: Message
    turn: str
    fate: Fate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """All that readers are shown of a conversation."""

    glance: Glance
    activity: Activity
    phases: PhasesShare
    reason: str
    """Why it is not active; "" where it is, or where that is not known."""
    agent: Slug
    """The one that answers alone; "" for none."""
    agent_states: Mapping[str, AgentPhaseState]
    """Of agents with phases of their own."""
    forked_from: ForkOrigin | None
    address: Mapping[str, object]
    participants: tuple[Slug, ...]
    read_files: Mapping[str, str]
    changed_files: tuple[str, ...]
    """In the open cycle."""
    refusals: tuple[RelayRefusal, ...]
    turn_count: int
    working: int
    """ms in which an agent or the router worked."""
    usage: Usage
    open_cycle: CycleSummary | None
    """With what it has taken until now."""
    open_turn: OrchestratorTurn | None
    """With its work until now."""
    history: History
    messages: tuple[PlacedMessage, ...]
    """The newest."""


def project(state: State) -> Projection:
    """All that readers are shown of a conversation."""
    history = state.history or _NO_HISTORY
    open_cycle = history.open_cycle
    turn = state.work.turn
    now = activity_of(state)
    return Projection(
        glance=glance_of(state),
        activity=now,
        phases=of_phases(state),
        reason=_reason(state, now, history),
        agent=next((kind.only_agent for kind in state.kinds.values() if kind.only_agent), Slug("")),
        agent_states=state.memory.agent_states,
        forked_from=state.identity.forked_from,
        address=state.identity.address,
        participants=state.cycle.participants,
        read_files=state.cycle.read_files,
        changed_files=tuple(sorted(state.cycle.touched)),
        refusals=state.delivery.refusals,
        turn_count=state.totals.turn_count,
        working=state.totals.working,
        usage=state.totals.usage,
        open_cycle=so_far(state, open_cycle) if open_cycle is not None else None,
        open_turn=replace(turn, working=state.totals.working - turn.worked_before) if turn is not None else None,
        history=history,
        messages=tuple(_placed(state, history)),
    )


def _reason(state: State, now: Activity, history: History) -> str:
    if state.work.is_parked:
        asked = [
            f"{run.name} asks: {cut(' / '.join(run.questions), REASON_CHARACTERS)}" for run in now.runs if run.questions
        ]
        return "; ".join(asked)
    return history.reason if state.cycle.status in ("waiting", "ended") else ""


def _placed(state: State, history: History) -> Iterator[PlacedMessage]:
    turns: list[OrchestratorTurn] | None = None
    fates = Fates(state)
    for message in state.memory.recent[-LEAST_RECENT:]:
        if message.turn is not None:
            yield PlacedMessage(message, message.turn, fates.of(message))
            continue
        if turns is None:
            turns = [turn for turn in history.turns if not turn.source]
            turns.extend([state.work.turn] if state.work.turn is not None else [])
        place = bisect_right(turns, message.seq, key=_SEQ)
        is_known = place < len(turns) and (place > 0 or not history.turns_before)
        is_same_cycle = is_known and turns[place].cycle == message.cycle
        yield PlacedMessage(message, turns[place].turn_id if is_same_cycle else "", fates.of(message))
