"""Reactions (NIP-25): a picture by which a person answers one event."""

from collections.abc import Collection
from typing import Final

from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.signals import InboundMessage

from .events import Event
from .threading.base import expiration_of, is_by_machine, is_by_program, is_hex64, received_on, tags_named

REACTION: Final = 7


def read_reaction(event: Event, own_keys: Collection[PublicKey], relay: str) -> InboundMessage | None:
    """Read a person's reaction to the event of its last e tag; None for any other event, and for our own keys."""
    if event.kind != REACTION or event.pubkey in own_keys:
        return None
    if is_by_machine(event) or is_by_program(event):
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
