"""A conversation in a line, as lists show it."""

from dataclasses import dataclass
from typing import Final

from tenex.core.cycle.state import Status
from tenex.core.ids import ConversationId, Millis
from tenex.core.state import State

PARTNER: Final = "@"
"""Begins a place that is no phase (`State.place`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What a conversation is called, how far it is, and when something last happened in it."""

    id: ConversationId
    title: str
    status: Status
    """One that waits for an answer to a question of an agent is `waiting`, though its turn is open."""
    waiting_for: str
    """`user`, `answer` (to a question of an agent), `waiver` and so on; "" where nothing is waited for."""
    place: str
    """The phase; in a conversation without phases `@` and who or what it is with."""
    cycle: int
    started_at: Millis
    updated_at: Millis
    seq: int
    """Of the newest record."""
    imported: int
    """The seq up to which its records were not written here; 0 where all were."""

    @property
    def position(self) -> str:
        """The place and the cycle, as part of a sentence."""
        name = partner(self.place)
        where = f"with {name}" if name else f"in {self.place}"
        return f"{where}, cycle {self.cycle}"


def glance_of(state: State) -> Glance:
    """A conversation in a line."""
    is_parked = state.work.is_parked
    return Glance(
        id=state.id,
        title=state.identity.title,
        status=shown_status(state),
        waiting_for="answer" if is_parked else state.cycle.waiting_for,
        place=state.location_label,
        cycle=state.cycle.number,
        started_at=state.identity.started_at,
        updated_at=state.identity.updated_at,
        seq=state.next_seq - 1,
        imported=state.identity.imported,
    )


def shown_status(state: State) -> Status:
    """As `Glance.status`."""
    return "waiting" if state.work.is_parked else state.cycle.status


def partner(place: str) -> str:
    """Who or what a place names; "" where it is a phase."""
    return place.removeprefix(PARTNER) if place.startswith(PARTNER) else ""
