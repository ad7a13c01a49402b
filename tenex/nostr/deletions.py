"""Deletions: what the author of a kind 5 takes back (NIP-09), or a room's moderation by a kind 9005 (NIP-29)."""

from typing import Final

from tenex.core.ids import EventId

from .events import Event
from .threading.base import is_hex64, tags_named

DELETION: Final = 5

ROOM_DELETION: Final = 9005
"""By the author of a message in a room, or by who moderates it."""

MOST: Final = 100
"""Events of one deletion that are looked at: clients write one."""


def deleted_events(event: Event) -> tuple[EventId, ...]:
    """The ids that a deletion names; () for an event of another kind."""
    if event.kind not in (DELETION, ROOM_DELETION):
        return ()
    ids = dict.fromkeys(EventId(tag[1]) for tag in tags_named(event, "e") if is_hex64(tag[1]))
    return tuple(ids)[:MOST]
