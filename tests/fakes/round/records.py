"""The record of a round."""

from dataclasses import dataclass

from tenex.core.ids import Slug
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOpened(Record):
    """Agents are to speak, in this order."""

    round: Slug
    agents: tuple[Slug, ...]
    times: int
