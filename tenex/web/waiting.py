"""What waits for a person, in all conversations: decisions, what is held or limited, and whose turn it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.errors import TenexError
from tenex.core.ids import ConversationId
from tenex.core.projection import STUCK
from tenex.core.text.state_words import CONTINUES, STATES, waits_for
from tenex.operations.asks import ORDER, Ask
from tenex.operations.listing import UNREAD
from tenex.store.search import Filter

from .source import Source

WAITING: Final = "waiting"
MOST: Final = 50
"""Conversations of each state that are looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A conversation that does not go on by itself, or not soon."""

    conversation: ConversationId
    title: str
    status: str
    reasons: Sequence[str]
    remedy: str
    command: str
    """Has it go on now; "" where none does, or where no message was sent that it could reply to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What waits."""

    decisions: Sequence[Ask]
    """The oldest first."""
    stuck: Sequence[Stuck]
    """Held ones first, then limited ones, then those that wait for `/continue`."""
    turns: Sequence[Ask]
    """The newest first."""
    notices: Sequence[str]
    """What could not be read, as sentences."""
    is_cut: bool
    """Whether more conversations wait than were looked into."""

    @property
    def stuck_by_cause(self) -> Sequence[Sequence[Stuck]]:
        """Those with the same state and the same cause together: one refused key holds many."""
        groups: dict[tuple[str, ...], list[Stuck]] = {}
        for one in self.stuck:
            groups.setdefault((one.status, one.remedy, *one.reasons), []).append(one)
        return list(groups.values())

    @property
    def number(self) -> int:
        """How much of it somebody else waits for."""
        return len(self.decisions) + len(self.stuck)


async def what_waits(source: Source) -> Waits:
    """Look into the conversations that wait or are stuck; one that has not changed is not read again."""
    rows, notices = await source.rows(Filter(), -1)
    of_status = {
        status: [row for row in rows if row["status"] == status][:MOST] for status in (WAITING, UNREAD, *STUCK)
    }
    if unread := len(of_status[UNREAD]):
        notices.append(f"skipped {unread} unreadable conversations; `tenex conversations verify` names them")

    asks: list[Ask] = []
    for row in of_status[WAITING]:
        try:
            asks += (await source.asks(ConversationId(row["id"]))).asks
        except TenexError as fault:
            notices.append(f"{row['id'][:12]}: {fault}")
    asks.sort(key=lambda ask: ask.since)

    stuck = [
        await _stuck(source, ConversationId(row["id"]), row["title"], status)
        for status in STUCK
        for row in of_status[status]
    ]
    stuck += [_stopped(ask) for ask in asks if ask.waiting_for in CONTINUES]
    return Waits(
        decisions=[ask for ask in asks if ORDER[ask.kind] == 0],
        stuck=stuck,
        turns=[ask for ask in reversed(asks) if ORDER[ask.kind] and ask.waiting_for not in CONTINUES],
        notices=notices,
        is_cut=len(of_status[WAITING]) == MOST,
    )


async def _stuck(source: Source, name: ConversationId, title: str, status: str) -> Stuck:
    """A conversation that is held or limited."""
    text = STATES[status]
    command = text.command
    try:
        waits = await source.asks(name)
    except TenexError as fault:
        reasons: Sequence[str] = [str(fault)]
        command = ""
    else:
        reasons = waits.stuck
        command = command if waits.replied is not None else ""
    return Stuck(conversation=name, title=title, status=status, reasons=reasons, remedy=text.remedy, command=command)


def _stopped(ask: Ask) -> Stuck:
    """A conversation whose work was stopped before its end."""
    return Stuck(
        conversation=ask.conversation,
        title=ask.title,
        status="waiting",
        reasons=[ask.text],
        remedy=f"it waits {waits_for(ask.waiting_for)}",
        command="continue" if ask.replied is not None else "",
    )
