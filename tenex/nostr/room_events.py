"""What our keys publish to a relay of rooms (NIP-29, and what Buzz's has beside it), as unsigned events.

9000 9021 9022   a key is added to a room, asks to join it, leaves it
20001            a key is there, or leaves; the relay keeps it for three minutes
20002            a key writes in a thread; clients show it for eight seconds
10100            whom an agent answers, and where: clients offer others only the agents that have said it
"""

import json
from collections.abc import Collection, Iterable
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent

from .events import unsigned_event
from .threading.base import Tag

PUT_USER: Final = 9000
JOIN: Final = 9021
LEAVE: Final = 9022
MEMBERSHIP_KINDS: Final = (PUT_USER, JOIN, LEAVE)

PRESENCE: Final = 20001
TYPING: Final = 20002
AGENT_PROFILE: Final = 10100

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


def presence(by: PublicKey, at: int, *, is_there: bool) -> UnsignedEvent:
    """Show that a key is there, or that it leaves. `at` is in seconds."""
    return unsigned_event(by, at, PRESENCE, [], "online" if is_there else "offline")


def agent_profile(
    by: PublicKey, name: str, answers_only: Collection[PublicKey] | None, rooms: Iterable[str], at: int
) -> UnsignedEvent:
    """Say whom an agent answers, and in which rooms. `answers_only` is None where it answers everyone in them.

    Others may add it to rooms: a room that is not read is a matter of the settings. `at` is in seconds.
    """
    content: dict[str, Any] = {
        "name": name,
        "respond_to": "anyone" if answers_only is None else "allowlist",
        "respond_to_allowlist": sorted(answers_only or ()),
        "channel_ids": sorted(rooms),
        "channel_add_policy": "anyone",
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return unsigned_event(by, at, AGENT_PROFILE, [], text)
