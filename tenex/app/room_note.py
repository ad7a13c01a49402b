"""What agents are shown of the room they work in: its name, whether it is private, and who is in it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.core.text.amounts import count
from tenex.core.text.foreign import INVISIBLE
from tenex.nostr.rooms import Room, Rooms

MOST_MEMBERS: Final = 20
"""Members of a room that are shown."""
ROLE_CHARACTERS: Final = 20


def describe(rooms: Rooms, address: Mapping[str, Any], name_of: Callable[[PublicKey], str]) -> str:
    """Describe the room of a conversation in two lines, which hold words of others; "" outside of rooms.

    Args:
        rooms: what is known of rooms.
        address: that of the conversation.
        name_of: the name of a member, on one line.
    """
    group = str(address.get("group", ""))
    known = (rooms.known(str(relay), group) for relay in address.get("relays", ())) if group else ()
    room = next((room for room in known if room is not None and room.ours), None)
    if room is None:
        return ""
    sort = "private" if room.is_private else "public"
    members = ", ".join(_member(room, key, name_of) for key in _shown(room))
    more = len(room.members) - MOST_MEMBERS
    rest = f", and {more} more" if more > 0 else ""
    return f"{room.name or room.id} ({sort}, {count(len(room.members), 'member')})\n{members}{rest}"


def _shown(room: Room) -> list[PublicKey]:
    """The first members: those in charge, then people, then our keys."""
    ours = frozenset(room.ours)
    return sorted(room.members, key=lambda key: (key not in room.moderators, key in ours, key))[:MOST_MEMBERS]


def _member(room: Room, key: PublicKey, name_of: Callable[[PublicKey], str]) -> str:
    role = " ".join(INVISIBLE.sub("", room.members[key]).split())[:ROLE_CHARACTERS]
    return f"{name_of(key)} ({role})" if role and role != "member" else name_of(key)
