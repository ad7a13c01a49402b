"""Direct messages: conversations that only their people can read (NIP-17 and NIP-04), as an address like any other.

What is read and written here is the message itself: a kind 14 or 15 without a signature (a "rumor"), or the text of a
kind 4. A kind 15 is an encrypted file, whose address is its content; it is read as a kind 14 that brings that file.
`tenex.nostr.direct` takes it out of what a relay has, and `tenex.nostr.compose` puts it in. No relay ever has it.

Clients show all that the same people wrote as one flat chat, without threads. So a conversation belongs to a room, the
set of these people, and its id is the id of its first message. A message goes on with the newest conversation of its
room, unless it replies to a message of another one there or begins the next (`runtime.inbox`).

One key answers for all agents: the one that was written to. A client would show another author as another chat. The
name of who speaks is in front of the text then.

Members of the address beyond those of `base`: room, key (ours), people (the others, sorted), inboxes (the relays where
each of them looks for private messages), encryption_keys (of those who have one beside their own). Members of origin:
inboxes, encryption_keys.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar, Final

from tenex.core.ids import PublicKey
from tenex.core.inbox.received_files import FileEncryption, NamedFile
from tenex.core.people.trust import room_of
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event
from tenex.nostr.urls import normalise_url

from . import base
from .base import Tag, ThreadingScheme
from .files import FILE, file_events
from .split import in_parts

ENCRYPTED: Final = 4
"""NIP-04: its author and its reader are in the open."""
CHAT: Final = 14
"""NIP-17, within a seal and a gift wrap."""

MOST_PEOPLE: Final = 10
"""In a room, our key among them: NIP-17 is not for more, since each gets a copy."""

LONGEST_ADDRESS: Final = 2_000
"""Characters of the address of a file."""

LARGEST_RUMOR: Final = 28_000
"""Bytes of JSON. Sealed and wrapped it grows to 55 KB: twice padded to the next 4 or 8 KiB and written as base64."""

LARGEST_TEXT: Final = 40_000
"""Bytes of a text that becomes a kind 4, by a third longer."""


class DirectChat(ThreadingScheme):
    """Kind 14, answered by kind 14."""

    name = "direct"
    root_kind = CHAT
    kinds: ClassVar[tuple[int, ...]] = (CHAT, FILE)
    starts_by_project = False

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a message in its room; None for another kind, or one that names none of our keys."""
        if event.kind not in self.kinds:
            return None
        ours = our_key(event, own_keys)
        if ours is None:
            return None
        people = room_people(event)
        answered = [tag[1] for tag in base.tags_named(event, "e") if base.element(tag, 3) != "mention"]
        references = base.references_of(event, *answered[-1:], *answered)
        return base.Place(
            root=event.id,
            root_author=event.pubkey,
            root_relay="",
            parent=references[0] if references else "",
            references=references,
            address={"room": room_name(people), "key": ours, "people": sorted(people - {ours})},
            origin={},
        )

    def read(
        self,
        event: Event,
        own_keys: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        relay: str,
        project: str | None,
    ) -> InboundMessage | None:
        """Read a message; it may begin a conversation, as it was sent to no one else."""
        file = _encrypted_file(event) if event.kind == FILE else None
        if file is not None:  # the text is what its sender says of it, or its name, since no message is without a text
            said = base.first_value(event, "caption", "alt") or f"[file: {file.name or file.media_type or 'no name'}]"
            event = event.model_copy(update={"content": said})
        message = super().read(event, own_keys, slugs, relay, project)
        if message is None:
            return None
        if file is not None:
            message = replace(message, files=(file,), files_left_out=0)
        address = {name: value for name, value in message.address.items() if name != "group"}
        return replace(message, starts=True, room=room_of(address), address=address)

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer in kind 14 by the key that was addressed, without a signature."""
        people = tuple(("p", str(key)) for key in draft.address.get("people", ()))
        thread = (*people, *_reply_tags(draft, self.name))
        spoken = _by_one_key(draft)
        files = [file for file in draft.files if file.key]
        texts: tuple[UnsignedEvent, ...] = ()
        if draft.text or not files:
            texts = in_parts(spoken, CHAT, (*thread, *draft.tags, *marks), LARGEST_RUMOR)
        return (*texts, *file_events(files, spoken, (*thread, *marks), draft.created_at + len(texts)))


class LegacyDirect(DirectChat):
    """Kind 4, answered by kind 4: what `seal` gives is in plain text, and encrypted before anything else is done."""

    name = "nip04"
    kinds = (ENCRYPTED,)

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:  # noqa: ARG002
        """Answer in kind 4 with the tags that every client adds; all others could be read by anyone."""
        people = tuple(("p", str(key)) for key in draft.address.get("people", ())[:1])
        lost = [f"[{file.name} was not sent: messages of this kind (NIP-04) carry no files.]" for file in draft.files]
        draft = replace(draft, text="\n\n".join(part for part in (draft.text, *lost) if part))
        return in_parts(_by_one_key(draft), ENCRYPTED, (*people, *_reply_tags(draft, self.name)), LARGEST_TEXT)


DIRECT: Final = DirectChat()
LEGACY: Final = LegacyDirect()


def _encrypted_file(event: Event) -> NamedFile:
    """The file that a kind 15 describes; it may describe none that can be loaded."""
    digest = base.first_value(event, "x")
    plain = base.first_value(event, "ox")
    return NamedFile(
        address=event.content.strip()[:LONGEST_ADDRESS],
        media_type=base.media_type_of(base.first_value(event, "file-type", "m")),
        name=base.name_of(*(base.first_value(event, name) for name in ("name", "filename", "alt"))),
        digest=digest if base.is_hex64(digest) else "",
        encryption=FileEncryption(
            algorithm=base.first_value(event, "encryption-algorithm"),
            key=base.first_value(event, "decryption-key"),
            nonce=base.first_value(event, "decryption-nonce"),
            digest=plain if base.is_hex64(plain) else "",
        ),
        is_declared=True,
    )


def our_key(event: Event, own_keys: Collection[PublicKey]) -> PublicKey | None:
    """The first of our keys that a direct message names."""
    return next((PublicKey(tag[1]) for tag in base.tags_named(event, "p") if tag[1] in own_keys), None)


def room_people(event: Event) -> frozenset[str]:
    """The author of a direct message and all whom it names (NIP-17)."""
    return frozenset({event.pubkey, *(tag[1] for tag in base.tags_named(event, "p") if base.is_hex64(tag[1]))})


def room_name(people: Collection[str]) -> str:
    """The name of a room, the same for the same people."""
    return sha256("\n".join(("room", *sorted(people))).encode()).hexdigest()


def inboxes_of(draft: OutgoingMessage, person: str) -> tuple[str, ...]:
    """Where a person looks for private messages, as it was known when they were last written; else where they wrote."""
    for known in (draft.reply_to, draft.address):
        relays = known.get("inboxes", {}).get(person)
        if relays:
            return tuple(relays)
    return received_at(draft)


def encryption_keys_of(draft: OutgoingMessage, person: str) -> tuple[PublicKey, ...]:
    """The key beside their own for which a person's clients want private messages, if there is one."""
    for known in (draft.reply_to, draft.address):
        key = known.get("encryption_keys", {}).get(person)
        if key:
            return (PublicKey(str(key)),)
    return ()


def received_at(draft: OutgoingMessage) -> tuple[str, ...]:
    """Where the conversation was opened, and where the answered message came in."""
    relays: list[Any] = [*draft.reply_to.get("relays", ()), *draft.address.get("relays", ())]
    return tuple(dict.fromkeys(normalise_url(str(relay)) for relay in relays))


def _reply_tags(draft: OutgoingMessage, form: str) -> tuple[Tag, ...]:
    """The tag of the message that is answered, if it has the same form."""
    origin = draft.reply_to
    return (("e", str(origin["id"])),) if origin.get("form") == form and origin.get("id") else ()


def _by_one_key(draft: OutgoingMessage) -> OutgoingMessage:
    """The message by the key that was addressed, with the name of who speaks if that has another.

    Its p tags name who reads it, which is no matter of notifications.
    """
    draft = replace(draft, notifies=None, silent=())
    key = PublicKey(str(draft.address.get("key") or draft.speaker))
    if key == draft.speaker or not draft.name or not draft.text:
        return replace(draft, speaker=key)
    gap = " " if draft.text[0].isalnum() else "\n"  # a list or a block of code begins on a line of its own
    return replace(draft, speaker=key, text=f"{draft.name}:{gap}{draft.text}")
