"""What agents are shown of a room is bounded, and of one line each."""

from typing import Any

from tenex.app.room_note import describe
from tenex.core.ids import PublicKey
from tenex.nostr.rooms import Room

PLACE = {"relays": ["wss://relay.example"], "group": "kitchen"}


class OneRoom:
    """Rooms of which one is known."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def known(self, relay: str, room_id: str) -> Room | None:
        return self._room if (relay, room_id) == (self._room.relay, self._room.id) else None


def test_twenty_members_are_shown_those_in_charge_and_people_first() -> None:
    keys = [PublicKey(f"{number:064x}") for number in range(30)]
    ours, admin = keys[:3], keys[29]
    members = dict.fromkeys(keys, "member") | {ours[0]: "bot", admin: "owner\nof all"}
    room = Room(
        relay="wss://relay.example",
        id="kitchen",
        is_private=True,
        members=members,
        moderators=frozenset({admin}),
        ours=tuple(ours),
    )
    rooms: Any = OneRoom(room)
    text = describe(rooms, PLACE, lambda key: f"#{int(key, 16)}")
    shown = ", ".join(f"#{number}" for number in range(3, 22))
    assert text == f"kitchen (private, 30 members)\n#29 (owner of all), {shown}, and 10 more"
    assert describe(rooms, {**PLACE, "group": "garden"}, str) == ""
    assert describe(rooms, {"relays": PLACE["relays"]}, str) == ""
