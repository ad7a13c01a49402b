"""Rooms with threads: kind 9 in a group (NIP-29) of a relay whose clients show threads, such as Buzz's channels.

A reply names what it answers by an e tag with the marker `reply`, and below another reply the root of the thread with
the marker `root` too. A root alone leaves a message at the top of the room. A conversation is a thread: it has the id
of the thread's root, and every message in the thread belongs to it.

Answers go into the thread, to its root, as the clients' own do; their text is Markdown. With `answers` of the settings
they go to the top of the room instead where the message was written there, and quote it (a `q` tag).

Members of origin beyond those of `base`: root and is_reply (the message was written in a thread).
"""

from collections.abc import Collection
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .chats import CHAT
from .split import in_parts


class RoomThreads(ThreadingScheme):
    """Kind 9, answered by kind 9 in its thread."""

    name = "room threads"
    root_kind = CHAT
    kinds = (CHAT,)
    starts_by_project = False
    stays_on_relay = True
    is_plain = False

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a message in its thread."""
        if event.kind != CHAT:
            return None
        roots = _marked(event, "root")
        parents = _marked(event, "reply")
        is_reply = bool(parents)
        root = (roots or parents)[0] if is_reply else event.id
        return base.Place(
            root=root,
            root_author="" if is_reply else event.pubkey,
            root_relay=here,
            parent=parents[-1] if is_reply else "",
            references=base.references_of(event, *parents[-1:], *roots[:1]),
            address={},
            origin={"root": root, "is_reply": is_reply},
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer in the thread of the message that is answered, or of the one that began the conversation."""
        return in_parts(draft, CHAT, self._tags(draft, marks))

    def seal_prompt(
        self, draft: OutgoingMessage, marks: tuple[Tag, ...], kind: int, more: tuple[Tag, ...]
    ) -> tuple[UnsignedEvent, ...]:
        """Ask there by an event of a kind that has these tags too."""
        return in_parts(draft, kind, (*self._tags(draft, marks), *more))

    def _tags(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[Tag, ...]:
        return (*self._link(draft), *_asker(draft), *base.group_tags(draft.address), *draft.tags, *marks)

    def _link(self, draft: OutgoingMessage) -> tuple[Tag, ...]:
        return (("e", _root_of(draft), "", "reply"),)


class RoomTop(RoomThreads):
    """Kind 9, answered at the top of the room where it was written there, else in its thread."""

    name = "room top"

    def _link(self, draft: OutgoingMessage) -> tuple[Tag, ...]:
        origin = draft.reply_to
        if origin.get("is_reply"):
            return (("e", _root_of(draft), "", "reply"),)
        return (base.short_tag("q", str(origin.get("id") or draft.address["root"])),)


ROOM_THREADS: Final = RoomThreads()
ROOM_TOP: Final = RoomTop()


def _marked(event: Event, marker: str) -> list[str]:
    tags = base.tags_named(event, "e")
    return [tag[1] for tag in tags if base.element(tag, 3) == marker and base.is_hex64(tag[1]) and tag[1] != event.id]


def _root_of(draft: OutgoingMessage) -> str:
    """The thread that an answer goes to: that of the message that is answered."""
    return str(draft.reply_to.get("root") or draft.address["root"])


def _asker(draft: OutgoingMessage) -> tuple[Tag, ...]:
    asker = str(draft.reply_to.get("author", "")) or str(draft.address["root_author"])
    return (("p", asker),) if asker and asker != draft.speaker else ()
