"""Events of kinds that are not read but mention us, such as pictures: a plain answer where their author looks.

The answer is a comment (kind 1111, NIP-22) on the event; to a public message (kind 24, NIP-A4), which has no comments,
it is a public message. Everything here is from anybody; odd tags are skipped.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import UnsignedEvent

from .events import Event, unsigned_event
from .keys import find_mentions
from .threading import base
from .threading.base import Tag
from .threading.comments import COMMENT, parent_tags, scope_tags
from .threading.other_comments import scope_of
from .threading.split import MAX_TAG_BYTES

PUBLIC_MESSAGE: Final = 24
VOICE_COMMENT: Final = 1244
ARTICLE: Final = 30023

UNREAD_KINDS: Final = {
    20: "a picture",
    21: "a video",
    22: "a video",
    PUBLIC_MESSAGE: "a public message of kind 24",
    1068: "a poll",
    1222: "a voice message",
    VOICE_COMMENT: "a voice message",
    1617: "a patch",
    1618: "a pull request",
    1621: "an issue",
    ARTICLE: "an article",
    34235: "a video",
    34236: "a video",
}
"""The kinds, and what they are called in the answer."""

_ADDRESSABLE: Final = range(30_000, 40_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadEvent:
    """An event that mentions one of our keys and is not read."""

    event: Event
    to: PublicKey
    """The key that it mentions first."""


def read_unread(event: Event, own_keys: Collection[PublicKey]) -> UnreadEvent | None:
    """An event of `UNREAD_KINDS` by a person who addresses one of these keys; None for any other.

    A machine's is none, so that two programs do not answer each other, nor is one that only quotes a message of ours.
    """
    if event.kind not in UNREAD_KINDS or event.pubkey in own_keys:
        return None
    if base.is_by_machine(event) or base.is_by_program(event):
        return None
    named = find_mentions(event.content, own_keys)
    tagged = [PublicKey(tag[1]) for tag in base.tags_named(event, "p") if tag[1] in own_keys]
    called = [*named, *(() if base.quotes_of(event) else tagged)]
    return UnreadEvent(event=event, to=called[0]) if called else None


def answer_to(unread: UnreadEvent, text: str, relay: str, now: int) -> UnsignedEvent:
    """The answer in the form in which clients show one to that kind; `relay` is where the event was received."""
    event = unread.event
    here = base.hint(relay)
    person = base.short_tag("p", event.pubkey, here)
    group = base.group_of(event)
    tags: tuple[Tag, ...] = (*((("h", group),) if group else ()), ("L", "agent"), ("l", "ai", "agent"))
    if event.kind == PUBLIC_MESSAGE:
        return unsigned_event(unread.to, now, PUBLIC_MESSAGE, (person, *tags), text)
    link: tuple[Tag, ...] = (base.short_tag("e", event.id, here, event.pubkey), ("k", str(event.kind)))
    scope = scope_of(event) if event.kind == VOICE_COMMENT else ()
    if not scope:
        scope = _own_scope(event, here)
        link = parent_tags(scope) if scope[0][0] == "E" else (*parent_tags(scope), link[0])
    return unsigned_event(unread.to, now, COMMENT, (*scope, *link, person, *tags), text)


def _own_scope(event: Event, here: str) -> tuple[Tag, ...]:
    """The tags of a comment whose root is the event itself."""
    address = f"{event.kind}:{event.pubkey}:{base.first_value(event, 'd')}"
    if event.kind not in _ADDRESSABLE or len(address.encode(errors="replace")) > MAX_TAG_BYTES:
        return scope_tags(EventId(event.id), here, event.pubkey, here, event.kind)
    return (base.short_tag("A", address, here), ("K", str(event.kind)), base.short_tag("P", event.pubkey, here))
