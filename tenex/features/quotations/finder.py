"""Finds the words that messages reply to or quote: in the conversations here, else among the notes of the relays."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.port_values import Quotation
from tenex.core.ports import Clock
from tenex.core.signals import InboundMessage
from tenex.core.text.names import placeholder
from tenex.log import get_logger
from tenex.nostr.events import Event
from tenex.nostr.filters import DIRECT_KINDS
from tenex.nostr.keys import find_events
from tenex.nostr.pool import RelayPool
from tenex.nostr.thread_history import before, filters_of
from tenex.nostr.threading import KINDS
from tenex.nostr.threading.base import element, expiration_of, group_of, tags_named
from tenex.store.index import Index
from tenex.store.past_messages import QUOTED, PastMessages

log = get_logger(__name__)

ARTICLE: Final = 30023
"""Long texts (NIP-23), which users quote too."""
POLL: Final = 1068
"""A question with its answers in tags (NIP-88), on which users comment."""

TIMEOUT: Final = 2.0
"""Seconds for the relays: the message waits for them, and what comes after it in the conversation."""


class QuotationFinder:
    """`Quotations` over the index and the relays of the settings; for a thread, also those that the message names."""

    def __init__(
        self,
        past: PastMessages,
        index: Index,
        pool: RelayPool,
        own_keys: Container[PublicKey],
        names: Mapping[PublicKey, str],
        clock: Clock,
    ) -> None:
        self._past = past
        self._index = index
        self._pool = pool
        self._own_keys = own_keys
        self._names = names
        self._clock = clock

    async def find(
        self, events: Sequence[EventId], message: InboundMessage, here: ConversationId
    ) -> tuple[Quotation, ...]:
        """What may be shown of these events, which a message of the conversation `here` names. Never raises.

        What belongs to a conversation is shown where `reading_rights` permits it, and never read from relays. Relays
        are asked for what a direct message names only as `named_in_public` has it.
        """
        if not events:
            return ()
        try:
            found = await self._past.quoted(events, here, message.author)
        except StoreError as error:
            log.warning("quotations.not_found", conversation=here, reason=str(error))
            found = ()
        there = {quotation.event_id for quotation in found}
        owners = {event: self._index.conversation_of(event) for event in events if event not in there}
        hidden = [Quotation(event_id=event) for event, owner in owners.items() if owner not in (None, here)]
        foreign = [event for event, owner in owners.items() if owner is None]
        if message.room:
            public = named_in_public(message)
            foreign = [event for event in foreign if event in public]
        return (*found, *hidden, *(await self._fetched(foreign) if foreign else ()))

    async def thread(
        self, message: InboundMessage, here: ConversationId, *, asks_hinted: bool
    ) -> tuple[Quotation, ...]:
        """What others wrote before a message in its thread, the oldest first. Never raises.

        What belongs to a conversation here is left out, except to this one: `find` knows who may read it.
        """
        wanted = filters_of(message)
        if not wanted or message.address.get("group") or message.room:
            return ()
        others = message.origin.get("hints", ()) if asks_hinted else ()
        stored = await self._pool.fetch(wanted, TIMEOUT, others=others)
        foreign = [event for event in stored if self._index.conversation_of(event.id) in (None, here)]
        notes = (self._public(event) for event in before(message, foreign))
        return tuple(note for note in notes if note.text)

    async def _fetched(self, events: Sequence[EventId]) -> tuple[Quotation, ...]:
        wanted = {"ids": list(events), "kinds": [*KINDS, ARTICLE, POLL]}
        stored = await self._pool.fetch([wanted], TIMEOUT)
        return tuple(self._public(event) for event in stored if event.id in events)

    def _public(self, event: Event) -> Quotation:
        """A note of others; nothing of what was written in a group or has expired, or is ours and not known here."""
        expires_at = expiration_of(event)
        has_expired = expires_at is not None and expires_at * 1000 <= self._clock.now()
        if has_expired or group_of(event) or event.pubkey in self._own_keys:
            return Quotation(event_id=event.id)
        name = self._names.get(event.pubkey) or placeholder(event.pubkey)
        return Quotation(event_id=event.id, name=name, text=_words(event)[:QUOTED])


def _words(event: Event) -> str:
    """The text of a note; of a poll the answers too."""
    options = [element(tag, 2) for tag in tags_named(event, "option")] if event.kind == POLL else []
    return "\n".join([event.content, *(f"[ ] {label}" for label in options if label)])


def named_in_public(message: InboundMessage) -> frozenset[EventId]:
    """The events of a direct message that relays may be asked for: what its text names as a note that others can read.

    A look-up tells a relay what two people talk about. What the message answers, and what its tags alone name, is most
    often another message of theirs, whose id no relay has. Who writes `nostr:note1...` shares a public note.
    """
    named = map(EventId, find_events(message.text, without_kinds=DIRECT_KINDS))
    return frozenset(named) - {*message.references, message.event_id}
