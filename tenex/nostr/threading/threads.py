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
from .comments import COMMENT, THREAD, comment_place, parent_tags, recipient, scope_tags
from .split import in_parts


class Threads(ThreadingScheme):
    """Kind 11 and the comments under it, answered by comments."""

    name = "threads"
    root_kind = THREAD
    kinds = (THREAD, COMMENT)
    starts_by_project = True
    is_plain = False  # TENEX clients, for which threads are answered, show Markdown

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a thread or a comment; a comment in an unknown thread belongs to the conversation of that thread."""
        parent = ""
        references: tuple[EventId, ...] = ()
        if event.kind == THREAD:
            scope = scope_tags(event.id, here, event.pubkey, here, THREAD)
        else:
            comment = comment_place(event, here)
            if comment is None or comment.kind != THREAD or not comment.scope:
                return None
            scope = comment.scope
            parent = comment.parent
            references = comment.references
        tags = {"scope": [list(tag) for tag in scope]}
        return base.Place(
            root=scope[0][1],
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
        tags = (*scope, *parent_tags(scope), *recipient(scope, draft), *base.group_tags(draft.address))
        return in_parts(draft, COMMENT, (*tags, *draft.tags, *marks))


THREADS: Final = Threads()


def _fuller_scope(address: Mapping[str, Any], origin: Mapping[str, Any]) -> tuple[Tag, ...]:
    """The root's tags as the opener wrote them, or as the asker did if only those name the author."""
    opened: list[list[str]] = address["scope"]
    asked: list[list[str]] = origin.get("scope", [])
    is_same_root = bool(asked) and asked[0][1] == opened[0][1] and asked[1] == opened[1]
    is_fuller = is_same_root and len(asked) > len(opened)
    return tuple(tuple(tag) for tag in (asked if is_fuller else opened))
