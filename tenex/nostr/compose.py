"""Turns outgoing messages into events of their conversation's threading scheme, and publishes them signed.

The same message always becomes the same events, so a journal may hold them before anything has been published. Not so
what hides one: a wrap, like the text of a kind 4, is another each time. It is finished here, and the journal holds it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tenex.core.errors import ConfigurationError, InternalError
from tenex.core.ids import EventId, PublicKey
from tenex.core.people.trust import group_of, room_of
from tenex.core.port_values import TurnCost, Wrap
from tenex.core.ports import OutgoingMessage, PublishOutcome, Sealer, UnsignedEvent
from tenex.core.values import replace

from .direct import encrypted, finished, wrapped
from .events import Event, Sign, sign_here, unsigned_event
from .interactions import EXTENSION, PROMPT, closing, fits, prompt_tags
from .keys import Key, RemoteKey, SecretKey
from .pool import RelayPool
from .relay_info import RelayLimits
from .threading import base, scheme_named, scheme_of
from .threading.base import Tag
from .threading.chats import CHATS
from .threading.comments import THREAD, scope_tags
from .threading.direct import CHAT, ENCRYPTED, LEGACY, encryption_keys_of, inboxes_of, received_at
from .threading.files import FILE, described
from .threading.notes import NOTES
from .threading.plain_text import plain_text
from .threading.room_threads import ROOM_THREADS, ROOM_TOP, RoomThreads
from .threading.split import in_parts
from .threading.threads import THREADS
from .turn_costs import cost_report
from .urls import normalise_url

MOST_DESCRIBED: Final = 8 * 1024
"""Bytes of all descriptions of files in an event, which has to hold the text beside them: some twenty usual ones."""

MOST_SIGNED_REMOTELY: Final = 20 * 1024
"""Bytes of an event that a remote signer is asked for: encrypted, escaped and padded it takes up to three times as
much, and relays accept 64 KiB."""

LEAST_BYTES: Final = 16 * 1024
"""Of an event, however little a relay takes: tags need up to 10 KiB. Such a relay refuses what is larger."""

_AROUND: Final = 2 * 1024
"""Bytes of a frame beside the event, and the difference between its spacing and ours."""

_BY_A_MACHINE: Final[tuple[Tag, ...]] = (("L", "agent"), ("l", "ai", "agent"))
"""NIP-32 labels that mark every published message as written by an AI agent."""


class NostrSealer(Sealer):
    """Composes messages in the threading scheme their address names."""

    def __init__(
        self,
        relays: Sequence[str],
        *,
        project: str | None = None,
        keys: Mapping[PublicKey, Key] | None = None,
        limits: Callable[[str], RelayLimits] = lambda _: RelayLimits(),
    ) -> None:
        """Prepare.

        Args:
            relays: the configured ones.
            project: the address of the project's event, if there is one.
            keys: ours; may grow. A direct message by a key that is not among them, or that a remote signer holds, is
                not sent.
            limits: what a relay takes, as far as its document has been read.

        Raises:
            ConfigurationError: some of the relays are not relay URLs; names each.
        """
        faults: list[str] = []
        found: dict[str, None] = {}
        for relay in relays:
            try:
                found[normalise_url(relay)] = None
            except ValueError as fault:
                faults.append(f"relays: {fault}")
        if faults:
            raise ConfigurationError(faults)
        self._relays = tuple(found)
        self.change(project)
        self._keys = keys if keys is not None else {}
        self._limits = limits

    def change(self, project: str | None) -> None:
        """Name another project's event, or none, in what is composed from now on."""
        self._marks: tuple[Tag, ...] = ((("a", project),) if project else ()) + _BY_A_MACHINE

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        """Make the events of a draft, in order, a second apart; more than one where the text is too long for one.

        Raises:
            InternalError: the address names an unknown threading scheme, or the tags alone are too large.
        """
        scheme = scheme_of(draft)
        draft = self._sized(draft)
        if draft.is_markdown and scheme.is_plain:
            draft = replace(draft, text=plain_text(draft.text))
        if draft.files and not room_of(draft.address):
            draft = replace(draft, tags=(*draft.tags, *described(draft.files, MOST_DESCRIBED)))
        if draft.buttons is not None and isinstance(scheme, RoomThreads):
            return scheme.seal_prompt(draft, self._marks, PROMPT, prompt_tags(draft.buttons))
        events = scheme.seal(draft, self._marks)
        if not events or events[0].kind != ENCRYPTED:
            return events
        key = self._keys.get(events[0].pubkey)
        return tuple(encrypted(event, key) for event in events) if isinstance(key, SecretKey) else ()

    def wraps(self, draft: OutgoingMessage, events: Sequence[UnsignedEvent]) -> tuple[Wrap, ...]:
        """Wrap each event for each of its readers (NIP-17), signed; () unless they are private messages.

        Who has an encryption key of their own (NIP-4E) gets two: they may use clients of both sorts.
        """
        if not events or events[0].kind not in (CHAT, FILE):
            return ()
        key = self._keys.get(events[0].pubkey)
        if not isinstance(key, SecretKey):
            return ()
        wraps: list[Wrap] = []
        for event in events:
            for person in draft.address.get("people", ()):
                if person in self._keys:
                    continue
                for encryption_key in (None, *encryption_keys_of(draft, str(person))):
                    with suppress(ValueError):  # anybody may name a key that is none
                        wrap = wrapped(event, PublicKey(str(person)), key, encryption_key)
                        wraps.append(Wrap(event=wrap, relays=inboxes_of(draft, str(person))))
        return tuple(wraps)

    def has_buttons(self, draft: OutgoingMessage) -> bool:
        """Whether a draft goes to a room whose relay has buttons, and is small enough for them."""
        relays = self.relays(draft)
        has_room = bool(draft.address.get("group")) and isinstance(scheme_of(draft), RoomThreads)
        is_offered = bool(relays) and all(EXTENSION in self._limits(relay).extensions for relay in relays)
        return has_room and is_offered and fits(draft) and len(self.seal(draft)) == 1

    def closing(self, draft: OutgoingMessage, event: EventId) -> tuple[UnsignedEvent, ...]:
        """The event that ends the buttons of an earlier one."""
        return (closing(draft, event),)

    def cost_report(self, draft: OutgoingMessage, cost: TurnCost) -> tuple[UnsignedEvent, ...]:
        """The event that informs an owner of a cost; () where a remote signer holds the key, or it is gone."""
        key = self._keys.get(draft.speaker)
        if not isinstance(key, SecretKey):
            return ()
        return (cost_report(cost, group_of(draft.address), key, draft.created_at),)

    def redated(self, event: UnsignedEvent, created_at: int) -> UnsignedEvent:
        """Make the same event with another date, and so another id."""
        return unsigned_event(event.pubkey, created_at, event.kind, event.tags, event.content)

    def begin(self, draft: OutgoingMessage, title: str, people: Sequence[str]) -> tuple[UnsignedEvent, dict[str, Any]]:
        """Make the first event of a new conversation, whose id is the conversation's, and its address.

        It uses the scheme of the conversation that `draft` names, because its readers use a client that shows that
        scheme: a note (kind 1), a thread (kind 11, NIP-7D) or a message of a chat (kind 9). It quotes the root of that
        conversation (NIP-18). In direct messages it is the next message of the chat.

        Raises:
            InternalError: the address names an unknown threading scheme, or a key that is gone.
        """
        old = draft.address
        if room_of(old):
            return self._begin_in_room(draft)
        relay = base.hint(str(old.get("root_relay", "")))
        quote = base.short_tag("q", str(old["root"]), relay, str(old.get("root_author", "")))
        called: tuple[Tag, ...] = tuple(("p", key) for key in dict.fromkeys(people) if key and key != draft.speaker)
        tags = (quote, *called, *base.group_tags(old), *draft.tags, *self._marks)
        opened = scheme_named(old.get("form"))
        scheme = opened if opened in (THREADS, CHATS, ROOM_THREADS, ROOM_TOP) else NOTES
        kind = scheme.root_kind
        draft = self._sized(draft)
        (event, *_) = in_parts(draft, kind, (("title", title), *tags) if kind == THREAD else tags)
        address = {
            "form": scheme.name,
            "root": event.id,
            "root_kind": kind,
            "root_author": event.pubkey,
            "root_relay": relay,
            "relays": list(old.get("relays", ())),
        }
        if old.get("group"):
            address["group"] = old["group"]
        if old.get("markdown"):
            address["markdown"] = True
        if kind == THREAD:
            address["scope"] = [list(tag) for tag in scope_tags(event.id, relay, event.pubkey, relay, THREAD)]
        return event, address

    def _sized(self, draft: OutgoingMessage) -> OutgoingMessage:
        """The draft with the size of its events: what its key signs, and what all the relays it goes to take."""
        relays = () if room_of(draft.address) else self.relays(draft)  # what hides a message is larger than it
        limits = [self._limits(relay) for relay in relays]
        frames = [max(LEAST_BYTES, limit.max_message_length - _AROUND) for limit in limits]
        if isinstance(self._keys.get(draft.speaker), RemoteKey):
            frames.append(MOST_SIGNED_REMOTELY)
        characters = min((limit.max_content_length for limit in limits), default=0)
        return replace(draft, most_bytes=min(frames, default=0), most_characters=characters)

    def _begin_in_room(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, dict[str, Any]]:
        events = self.seal(draft)
        if not events:
            raise InternalError(f"the key {str(draft.address.get('key'))[:8]} is no longer in the key folder")
        return events[0], {**draft.address, "root": events[0].id, "root_author": events[0].pubkey}

    def relays(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """List where the conversation was opened, where the asker wrote, then the configured relays; each once.

        What belongs to a group (NIP-29) or a chat goes to its relay only. Of a private message (NIP-17) no relay gets
        anything but its wraps, which have relays of their own.
        """
        if room_of(draft.address):
            is_legacy = scheme_of(draft) is LEGACY
            return tuple(dict.fromkeys((*received_at(draft), *self._relays))) if is_legacy else ()
        opened_on = tuple(draft.address.get("relays", ()))
        if _stays_on_relay(draft.address):
            return opened_on or tuple(draft.reply_to.get("relays", ()))
        asked_on = tuple(draft.reply_to.get("relays", ()))
        return tuple(dict.fromkeys((*opened_on, *asked_on, *self._relays)))

    def others(self, draft: OutgoingMessage) -> tuple[str, ...]:
        """List the relays that the message itself hints at, without those of `relays`; none in a chat or a room."""
        if _stays_on_relay(draft.address) or room_of(draft.address):
            return ()
        known = self.relays(draft)
        return tuple(relay for relay in draft.reply_to.get("hints", ()) if relay not in known)


def _stays_on_relay(address: Mapping[str, Any]) -> bool:
    """Whether messages of a conversation go to no other relay than its own."""
    return bool(address.get("group")) or address.get("form") == CHATS.name


class Publisher:
    """Signs events when they are sent and publishes them through a relay pool."""

    def __init__(
        self,
        pool: RelayPool,
        keys: Mapping[PublicKey, Key],
        kinds: Collection[int],
        sign: Sign = sign_here,
        fallback: Callable[[UnsignedEvent, str], PublicKey | None] = lambda _event, _relay: None,
    ) -> None:
        """Sign events of these kinds only: a journal may come from elsewhere and hold others.

        `fallback` gives the key that may write in the room of an event which a relay has refused.
        """
        self._fallback = fallback
        self._pool = pool
        self._keys = keys
        self._kinds = kinds
        self._sign = sign

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        """Send by `RelayConnection.publish` until its final answer: the same event each time, also after a restart.

        It waits for a remote signer that holds the key.
        """
        try:
            whole = await self._signed(event)
            if isinstance(whole, str):
                outcome = PublishOutcome(accepted=False, detail=whole)
            else:
                outcome = await self._pool.publish(whole, relay)
        except ValueError as fault:  # not a relay URL, or an event no relay accepts
            outcome = PublishOutcome(accepted=False, detail=str(fault))
        return outcome if outcome.accepted else replace(outcome, fallback=self._fallback(event, relay))

    async def _signed(self, event: UnsignedEvent) -> Event | str:
        """The event with its signature, or why it has none."""
        if event.sig:
            return finished(event) or "it is no gift wrap, or its signature is not good"
        if event.kind not in self._kinds:
            return f"tenex does not sign events of kind {event.kind}"
        key = self._keys.get(event.pubkey)
        if key is None:
            return f"the key {event.pubkey[:8]} is no longer in the key folder"
        return await self._sign(event, key)
