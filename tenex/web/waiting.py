"""What waits for a person, in all conversations: decisions, what is held or limited, and whose turn it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.errors import TenexError
from tenex.core.ids import ConversationId
from tenex.core.projection import STUCK
from tenex.operations.asks import ORDER, Ask
from tenex.store.search import Filter

from .source import Source

MOST: Final = 50
"""Conversations of each state that are looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What waits."""

    decisions: Sequence[Ask]
    """The oldest first."""
    stuck: Sequence[Mapping[str, Any]]
    """Rows of conversations that are held or limited, each with its `reasons`."""
    turns: Sequence[Ask]
    """The newest first."""
    notices: Sequence[str]
    """What could not be read, as sentences."""
    is_cut: bool
    """Whether more conversations wait than were looked into."""

    @property
    def number(self) -> int:
        """How much of it somebody else waits for."""
        return len(self.decisions) + len(self.stuck)


async def what_waits(source: Source) -> Waits:
    """Look into the conversations that wait or are stuck; one that has not changed is not read again."""
    rows, notices = await source.rows(Filter(status="waiting"), MOST)
    asks: list[Ask] = []
    for row in rows:
        try:
            asks += (await source.asks(ConversationId(row["id"]))).asks
        except TenexError as fault:
            notices.append(f"{row['id'][:12]}: {fault}")
    asks.sort(key=lambda ask: ask.since)

    stuck: list[Mapping[str, Any]] = []
    for status in STUCK:
        for row in (await source.rows(Filter(status=status), MOST))[0]:
            try:
                reasons = (await source.asks(ConversationId(row["id"]))).stuck
            except TenexError as fault:
                reasons = [str(fault)]
            stuck.append({**row, "reasons": reasons})
    return Waits(
        decisions=[ask for ask in asks if ORDER[ask.kind] == 0],
        stuck=stuck,
        turns=[ask for ask in reversed(asks) if ORDER[ask.kind]],
        notices=notices,
        is_cut=len(rows) == MOST,
    )
