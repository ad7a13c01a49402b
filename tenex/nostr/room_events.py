"""What our keys publish to a relay of rooms (NIP-29, and what Buzz's has beside it), as unsigned events.

9000 9021 9022   a key is added to a room, asks to join it, leaves it
20002            a key writes in a thread; clients show it for eight seconds
"""

from collections.abc import Iterable
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent

from .events import unsigned_event
from .threading.base import Tag

PUT_USER: Final = 9000
JOIN: Final = 9021
LEAVE: Final = 9022
MEMBERSHIP_KINDS: Final = (PUT_USER, JOIN, LEAVE)

TYPING: Final = 20002

BOT: Final = "bot"
"""The role of a program in Buzz's rooms."""


def put_user(by: PublicKey, room: str, key: PublicKey, role: str, at: int) -> UnsignedEvent:
    """Add a key to a room; without a role it gets the relay's usual one. `at` is in seconds."""
    roles = (("role", role),) if role else ()
    return unsigned_event(by, at, PUT_USER, [("h", room), ("p", key), *roles], "")


def join_request(by: PublicKey, room: str, at: int) -> UnsignedEvent:
    """Ask to be added to a room. `at` is in seconds."""
    return unsigned_event(by, at, JOIN, [("h", room)], "")


def leave_request(by: PublicKey, room: str, at: int) -> UnsignedEvent:
    """Leave a room. `at` is in seconds."""
    return unsigned_event(by, at, LEAVE, [("h", room)], "")


def typing_in_room(by: PublicKey, place: Iterable[Tag], at: int) -> UnsignedEvent:
    """Show that a key writes at a place of a room: its `h`, and the `e` of a reply. `at` is in seconds."""
    return unsigned_event(by, at, TYPING, [*place], "")
