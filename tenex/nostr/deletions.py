"""Deletions: what an author takes back by a kind 5 (NIP-09), or in a room by a 9005, as may its moderators (NIP-29).

What a moderator deletes of others is messages: an answer by a reaction stays.
"""

from typing import Final

from tenex.core.ids import EventId

from .events import Event
from .threading.base import is_hex64, tags_named

DELETION: Final = 5
ROOM_DELETION: Final = 9005
DELETIONS: Final = frozenset({DELETION, ROOM_DELETION})

MOST: Final = 100
"""Events of one deletion that are looked at: clients write one."""


def deleted_events(event: Event) -> tuple[EventId, ...]:
    """The ids that a deletion names; () for an event of another kind."""
    if event.kind not in DELETIONS:
        return ()
    ids = dict.fromkeys(EventId(tag[1]) for tag in tags_named(event, "e") if is_hex64(tag[1]))
    return tuple(ids)[:MOST]
