"""Threads: a kind 11 with a title (NIP-7D) and comments of kind 1111 under it (NIP-22).

TENEX clients of 2025, Amethyst, Coracle, noStrudel, Flotilla and Chachi write them. Users' comments may be nested;
published ones are direct children of the root, because TENEX clients show only those.

Member of address and origin beyond those of `base`: scope, the root's tags as every published comment repeats them:
[["E", id, relay, author], ["K", "11"], ["P", author, relay]].
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .split import in_parts

THREAD: Final = 11
COMMENT: Final = 1111


class Threads(ThreadingScheme):
    """Kind 11 and the comments under it, answered by comments."""

    name = "threads"
    root_kind = THREAD
    starts_by_project = True

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a thread or a comment; a comment in an unknown thread belongs to the conversation of that thread."""
        scope = _scope(event, here)
        if scope is None:
            return None
        root = scope[0][1]
        parent = ""
        references: tuple[EventId, ...] = ()
        if event.kind == COMMENT:
            named = [tag[1] for tag in base.tags_named(event, "e") if base.is_hex64(tag[1]) and tag[1] != event.id]
            parent = named[0] if named else root
            references = base.references_of(event, parent, root, *named)
        tags = {"scope": [list(tag) for tag in scope]}
        return base.Place(
            root=root,
            root_author=base.element(scope[0], 3),
            root_relay=base.element(scope[0], 2),
            parent=parent,
            references=references,
            address=tags,
            origin=tags,
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer with a comment on the root, addressed to the asker."""
        scope = _fuller_scope(draft.address, draft.reply_to)
        parent = tuple((tag[0].lower(), *tag[1:]) for tag in scope if tag[0] != "P")
        tags = (*scope, *parent, *_recipient(scope, draft), *base.group_tags(draft.address))
        return in_parts(draft, COMMENT, (*tags, *draft.tags, *marks))


THREADS: Final = Threads()


def _scope(event: Event, here: str) -> tuple[Tag, ...] | None:
    """The root's tags; None if the root is not a kind 11."""
    if event.kind == THREAD:
        return scope_tags(event.id, here, event.pubkey, here)
    if event.kind != COMMENT or base.first_value(event, "K") != str(THREAD):
        return None
    root = next((tag for tag in base.tags_named(event, "E") if base.is_hex64(tag[1])), None)
    if root is None or root[1] == event.id:
        return None
    author_tag = next((tag for tag in base.tags_named(event, "P") if base.is_hex64(tag[1])), ())
    author = base.key_at(author_tag, 1) or base.key_at(root, 3)
    root_relay = base.hint(base.element(root, 2))
    author_relay = base.hint(base.element(author_tag, 2))
    return scope_tags(root[1], root_relay or here, author, author_relay or root_relay or here)


def scope_tags(root: str, relay: str, author: str, author_relay: str) -> tuple[Tag, ...]:
    """The tags by which a comment names its thread's root (NIP-22); empty strings for what is unknown."""
    tags = (base.short_tag("E", root, relay, author), ("K", str(THREAD)))
    return (*tags, base.short_tag("P", author, author_relay)) if author else tags


def _fuller_scope(address: Mapping[str, Any], origin: Mapping[str, Any]) -> tuple[Tag, ...]:
    """The root's tags as the opener wrote them, or as the asker did if only those name the author."""
    opened: list[list[str]] = address["scope"]
    asked: list[list[str]] = origin.get("scope", [])
    is_fuller = len(asked) > len(opened) and asked[0][1] == opened[0][1]
    return tuple(tuple(tag) for tag in (asked if is_fuller else opened))


def _recipient(scope: tuple[Tag, ...], draft: OutgoingMessage) -> tuple[Tag, ...]:
    """The p tag of the asker, else of the root's author; none if that is the speaker."""
    author, relay = str(draft.reply_to.get("author", "")), str(draft.reply_to.get("relay", ""))
    if not author:
        author, relay = next(((tag[1], base.element(tag, 2)) for tag in scope if tag[0] == "P"), ("", ""))
    return (base.short_tag("p", author, relay),) if author and author != draft.speaker else ()
