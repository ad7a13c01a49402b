"""Chats: kind 9 (NIP-C7), in a group (NIP-29) or outside of groups.

A message answers another by quoting it (a `q` tag, and its name in the text); some programs write e tags as notes have
them. A chat has no threads, so a conversation begins with the message that mentions us and has its id; what quotes one
of its messages belongs to it. Chats belong to their relay: answers go nowhere else, and a group is one of its relay.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event
from tenex.nostr.keys import nevent

from . import base
from .base import Tag, ThreadingScheme
from .split import in_parts

CHAT: Final = 9

_QUOTED: Final = re.compile(r"\s*nostr:(?:note|nevent|naddr)1[a-z0-9]{6,1000}\s+", re.IGNORECASE)


class Chats(ThreadingScheme):
    """Kind 9, answered by kind 9 that quotes it."""

    name = "chats"
    root_kind = CHAT
    kinds = (CHAT,)
    starts_by_project = False
    answers_by_quoting = True
    stays_on_relay = True

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a message of a chat."""
        if event.kind != CHAT:
            return None
        named = list(base.tags_named(event, "e"))
        replies = [tag[1] for tag in named if base.element(tag, 3) == "reply"]
        references = base.references_of(event, *replies, *base.quotes_of(event), *(tag[1] for tag in named))
        return base.Place(
            root=event.id,
            root_author=event.pubkey,
            root_relay=here,
            parent=references[0] if references else "",
            references=references,
            address={},
            origin={},
        )

    def words(self, event: Event) -> str:
        """The text without the name of what it answers, which clients put before it."""
        quoted = _QUOTED.match(event.content)
        return event.content[quoted.end() :] if quoted is not None else event.content

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer in kind 9: quote what is answered, or the message that began the conversation."""
        origin = draft.reply_to
        address = draft.address
        is_asked_here = origin.get("form") == self.name
        opener = (str(address["root"]), str(address["root_relay"]), str(address["root_author"]))
        answered = (str(origin["id"]), str(origin["relay"]), str(origin["author"])) if is_asked_here else opener
        asker = str(origin.get("author", "")) or opener[2]
        tags = (
            base.short_tag("q", *answered),
            *((base.short_tag("p", asker, str(origin.get("relay", ""))),) if asker != draft.speaker else ()),
            *base.group_tags(address),
        )
        name = nevent(EventId(answered[0]), answered[1], PublicKey(answered[2]), CHAT)
        quoting = replace(draft, text=f"nostr:{name}\n{draft.text}")
        return in_parts(quoting, CHAT, (*tags, *draft.tags, *marks))


CHATS: Final = Chats()
