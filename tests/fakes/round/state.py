"""What a round keeps of a conversation."""

from dataclasses import dataclass
from typing import ClassVar

from tenex.core.ids import Slug
from tenex.core.state import KindState, State

from .config import NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPart(KindState):
    """Who speaks, and how many have."""

    has_phases: ClassVar[bool] = False

    round: Slug
    agents: tuple[Slug, ...]
    times: int
    spoken: int = 0

    @property
    def has_begun(self) -> bool:
        return True

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
