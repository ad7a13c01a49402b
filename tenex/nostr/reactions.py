"""Reactions (NIP-25): a picture by which a person answers one event."""

from collections.abc import Collection
from typing import Final

from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.signals import InboundMessage

from .events import Event
from .threading.base import BY_PROGRAM, expiration_of, is_hex64, received_on, tags_named

REACTION: Final = 7


def read_reaction(event: Event, own_keys: Collection[PublicKey], relay: str) -> InboundMessage | None:
    """Read a person's reaction to the event of its last e tag; None for any other event, and for our own keys."""
    if event.kind != REACTION or event.pubkey in own_keys or _is_by_machine(event):
        return None
    targets = [tag[1] for tag in tags_named(event, "e") if is_hex64(tag[1])]
    if not targets:
        return None
    target = targets[-1]
    return InboundMessage(
        event_id=event.id,
        author=event.pubkey,
        text=event.content,
        created_at=event.created_at,
        conversation=ConversationId(target),
        starts=False,
        references=(EventId(target),),
        reply_to=EventId(target),
        is_reaction=True,
        expires_at=expiration_of(event),
        origin={"relays": received_on(relay)},
    )


def _is_by_machine(event: Event) -> bool:
    """Whether its labels say that no person gave it: an agent's of another daemon, or a program's of ours."""
    return any(tag[1] == "ai" or tag[:3] == BY_PROGRAM for tag in tags_named(event, "l"))
