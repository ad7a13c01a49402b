"""Has a running daemon say which rooms it knows, join and leave them, and show itself there."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tenex.app import Application
from tenex.app.extension import Extension
from tenex.core.ids import PublicKey
from tenex.nostr.retry import read_answer
from tenex.nostr.rooms import Room

from .membership import Membership
from .presence import RoomPresence


def extend(app: Application) -> Extension:
    """Answer the requests for rooms."""
    membership = Membership(app)
    presence = RoomPresence(app)

    def as_dict(room: Room) -> dict[str, Any]:
        return {
            "relay": room.relay,
            "id": room.id,
            "name": room.name,
            "private": room.is_private,
            "threads": room.has_threads,
            "members": len(room.members),
            "ours": [app.name_of(key) for key in room.ours],
            "attested": [app.name_of(key) for key in room.ours if key in app.current.now.attestations],
            "read": app.rooms.is_read(room.relay, room.id),
            "why": app.rooms.why_not_read(room),
        }

    async def listed(_asked: Mapping[str, Any]) -> dict[str, Any]:
        """`rooms`: those that a key of the project is a member of."""
        return {"rooms": [as_dict(room) for room in app.rooms.listed()]}

    def not_let_in() -> list[dict[str, Any]]:
        """The keys that relays refuse at AUTH (`restricted:`, NIP-42), by relay and answer; and which are attested."""
        by_answer: defaultdict[tuple[str, str], list[PublicKey]] = defaultdict(list)
        for relay in app.pool.urls:
            for key, why in app.pool.refused_keys(relay).items():
                if read_answer(why).prefix == "restricted":
                    by_answer[relay, why].append(key)
        attested = app.current.now.attestations
        return [
            {
                "relay": relay,
                "why": why,
                "names": sorted(map(app.name_of, keys)),
                "unattested": sorted(app.name_of(key) for key in keys if key not in attested),
            }
            for (relay, why), keys in by_answer.items()
        ]

    return Extension(
        status={"rooms": not_let_in},
        services={"presence in rooms": presence.run},
        stopping=presence.leave,
        orders={
            "rooms": listed,
            "join_room": membership.join,
            "leave_room": membership.leave,
            "invite_to_room": membership.invite,
        },
    )
