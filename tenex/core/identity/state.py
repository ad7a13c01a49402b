"""Which conversation it is: its id, its title, where it lives, and which events it has received."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.values import replace

SEEN = 512
"""Event ids kept against a message that arrives twice; the index remembers the older ones."""

UNCOUNTED = 200
"""Notices that an answer does not count that are remembered: those of four days at least (`uncounted.MOST_A_DAY`)."""

TITLE_CHARACTERS = 80


def title_of(text: str) -> str:
    """What a conversation is called after its first words: their first line, cut."""
    title = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """Where a fork branched off: after record `seq` of another conversation, called `title`."""

    id: ConversationId
    seq: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedAnswer:
    """Who was informed that their answer to a question does not count."""

    question: EventId
    author: PublicKey
    at: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a conversation is, whatever happens in it; a rollback changes nothing of it but the title."""

    id: ConversationId
    next_seq: int = 1
    started_at: Millis = Millis(0)
    updated_at: Millis = Millis(0)
    title: str = ""
    starter: PublicKey = PublicKey("")
    address: Mapping[str, Any] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)
    """The newest event ids, oldest first."""
    by_machines: int = 0
    """Messages of agents elsewhere since a person wrote: two daemons could answer each other without end."""
    pictures_unseen: bool = False
    """Whether a user was informed that no model is shown pictures."""
    voices_unread: bool = False
    """Whether a user was informed that nothing transcribes voice notes."""
    uncounted: tuple[UncountedAnswer, ...] = ()
    """The newest, oldest first."""
    forked_from: ForkOrigin | None = None
    imported: int = 0
    """The seq up to which its records were not written here, but imported; 0 where all were."""

    def received(self, event_id: str) -> "Identity":
        """An event has come in; it is not taken a second time."""
        seen = self.seen.copy()  # another way to copy it takes nine times as long where ids have gone
        seen[event_id] = None
        if len(seen) > SEEN:
            seen.pop(next(iter(seen)))
        return replace(self, seen=seen)
