"""Rooms with threads: kind 9 in a group (NIP-29) of a relay whose clients show threads, such as Buzz's channels.

Kinds 40002 (rich text) and 40008 (a diff) are read as text like a kind 9. A kind 40003 is the whole new text of the
message of its e tag, by the same author. `!cancel`, which Buzz's clients send to agents, is `/stop`.

A reply names what it answers by an e tag with the marker `reply`, and below another reply the root of the thread with
the marker `root` too. A root alone leaves a message at the top of the room. A conversation is a thread: it has the id
of the thread's root, and every message in the thread belongs to it.

Answers go into the thread, to its root, as the clients' own do; their text is Markdown. With `answers` of the settings
they go to the top of the room instead where the message was written there, and quote it (a `q` tag).

Members beyond those of `base`: of the address markdown (clients draw it), of the origin root and is_reply (the message
was written in a thread).
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.values import replace
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .chats import CHAT
from .split import in_parts

RICH_TEXT: Final = 40002
EDIT: Final = 40003
DIFF: Final = 40008
READ_IN_ROOMS: Final = frozenset({RICH_TEXT, EDIT, DIFF})
"""Kinds that are read in rooms with threads alone."""

_COMMANDS: Final = {"cancel": "stop"}
"""What a command of Buzz's clients is here; the others are unknown, and start nothing."""
_COMMAND: Final = re.compile(
    r"\s*(?:(?:@|nostr:npub1)\S+(?:\s+[^\s@!]\S*){0,2}\s+)*!(cancel|rotate|shutdown)\s*"  # a name has several words
)


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
        if event.kind == EDIT:
            return _place_of_edit(event, here)
        if event.kind not in (CHAT, RICH_TEXT, DIFF):
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
            address={"markdown": True},
            origin={"root": root, "is_reply": is_reply},
        )

    def words(self, event: Event) -> str:
        """What its author says; a command of Buzz's clients as the one of ours that it means, or as none."""
        command = _COMMAND.fullmatch(event.content)
        return f"/{_COMMANDS.get(command[1], command[1])}" if command is not None else event.content

    def read(
        self,
        event: Event,
        own_keys: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        relay: str,
        project: str | None,
    ) -> InboundMessage | None:
        """Read a message, or new words for one."""
        message = super().read(event, own_keys, slugs, relay, project)
        if message is None or event.kind != EDIT:
            return message
        return replace(message, edits=message.references[0])

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

    def place_of(self, draft: OutgoingMessage) -> tuple[Tag, ...]:
        """The tags that say where an answer is going to stand: its room, and the thread if it goes into one."""
        link = tuple(tag for tag in self._link(draft) if tag[0] == "e")
        return (*base.group_tags(draft.address), *link)

    def _link(self, draft: OutgoingMessage) -> tuple[Tag, ...]:
        return (("e", _root_of(draft), "", "reply"),)


class RoomTop(RoomThreads):
    """Kind 9, answered at the top of the room where it was written there, else in its thread."""

    name = "room top"

    def _link(self, draft: OutgoingMessage) -> tuple[Tag, ...]:
        origin = draft.reply_to
        is_reply = origin.get("is_reply", origin.get("id") != draft.address["root"])  # of an edit its place is not told
        if is_reply:
            return (("e", _root_of(draft), "", "reply"),)
        return (base.short_tag("q", str(origin.get("id") or draft.address["root"])),)


ROOM_THREADS: Final = RoomThreads()
ROOM_TOP: Final = RoomTop()


def _place_of_edit(event: Event, here: str) -> base.Place | None:
    """An edit has the place of what it edits: only the conversation of that knows it."""
    edited = base.references_of(event, *(tag[1] for tag in base.tags_named(event, "e")))[:1]
    if not edited:
        return None
    return base.Place(
        root=edited[0],
        root_author=event.pubkey,
        root_relay=here,
        parent="",
        references=edited,
        address={"markdown": True},
        origin={"id": edited[0], "kind": CHAT},
        may_start=False,
    )


def _marked(event: Event, marker: str) -> list[str]:
    tags = base.tags_named(event, "e")
    return [tag[1] for tag in tags if base.element(tag, 3) == marker and base.is_hex64(tag[1]) and tag[1] != event.id]


def _root_of(draft: OutgoingMessage) -> str:
    """The thread that an answer goes to: that of the message that is answered."""
    return str(draft.reply_to.get("root") or draft.address["root"])


def _asker(draft: OutgoingMessage) -> tuple[Tag, ...]:
    asker = str(draft.reply_to.get("author", "")) or str(draft.address["root_author"])
    return (("p", asker),) if asker and asker != draft.speaker else ()
