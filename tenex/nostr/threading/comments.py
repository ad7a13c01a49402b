"""Comments: kind 1111 (NIP-22) under a note, as Amethyst writes replies since 2026, and the tags of all comments.

NIP-22 names the root in capitals (`E`, `K`, `P`) and the parent in lower case (`e`, `k`, `p`). Clients leave some of
them out, or write them twice: the first usable one counts, and where there is no `E` the parent of a comment on a note
or thread is its root. A comment whose root is not named joins a conversation that knows its parent, and starts none.
Comments on anything else (articles, URLs) are not read.

Members of origin beyond those of `base`: root ("" if unknown), scope, the root's tags as the answer repeats them:
[["E", id, relay, author], ["K", "1"], ["P", author, relay]], empty if the root is unknown.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .notes import NOTE
from .split import in_parts

THREAD: Final = 11
COMMENT: Final = 1111

_ROOT_KINDS: Final = {str(NOTE): NOTE, str(THREAD): THREAD}
_OTHER_ROOTS: Final = ("A", "I")
"""Tags of comments on what is not a note: an addressable event, or something outside of Nostr."""
_UNKNOWN: Final = -1
_SOMETHING_ELSE: Final = -2


@dataclass(frozen=True, slots=True)
class CommentPlace:
    """The place of a comment, by its tags."""

    kind: int
    """The kind of its root; `_UNKNOWN` if the tags do not tell."""
    scope: tuple[Tag, ...]
    """The root's tags; empty if the tags do not name it."""
    parent: str
    references: tuple[EventId, ...]
    """The parent first, then the root."""


class Comments(ThreadingScheme):
    """Kind 1111 under a note, answered by kind 1111 under the same root."""

    name = "comments"
    root_kind = NOTE
    kinds = (COMMENT,)
    starts_by_project = False

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a comment; one on a thread belongs to the scheme `threads`."""
        place = comment_place(event, here)
        if place is None or (place.kind == THREAD and place.scope):
            return None
        is_placed = place.kind == NOTE and bool(place.scope)
        root = place.scope[0] if place.scope else ("E", place.parent)
        return base.Place(
            root=root[1],
            root_author=base.element(root, 3),
            root_relay=base.element(root, 2) or here,
            parent=place.parent,
            references=place.references,
            address={},
            origin={
                "root": root[1] if is_placed else "",
                "scope": [list(tag) for tag in place.scope] if is_placed else [],
            },
            may_start=is_placed,
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer with a comment on the comment, or on the root if no comment is answered."""
        scope = _scope(draft)
        origin = draft.reply_to
        if origin.get("form") == self.name:
            link = (str(origin["id"]), str(origin["relay"]), str(origin["author"]))
            parent: tuple[Tag, ...] = (base.short_tag("e", *link), ("k", str(COMMENT)))
        else:
            parent = parent_tags(scope)
        tags = (*scope, *parent, *recipient(scope, draft), *base.group_tags(draft.address))
        return in_parts(draft, COMMENT, (*tags, *draft.tags, *marks))


COMMENTS: Final = Comments()


def comment_place(event: Event, here: str) -> CommentPlace | None:
    """Place a comment on a note or thread; None if it is another kind, on something else, or names no event."""
    if event.kind != COMMENT:
        return None
    roots = [tag for tag in base.tags_named(event, "E") if _is_other_event(tag, event)]
    parents = [tag for tag in base.tags_named(event, "e") if _is_other_event(tag, event)]
    references = base.references_of(event, *(tag[1] for tag in (*parents[:1], *roots, *parents)))
    if not references:
        return None
    kind = _root_kind(event)
    if kind is _SOMETHING_ELSE:
        return None
    parent = parents[0] if parents else roots[0]
    root = roots[0] if roots else None
    if root is None and base.first_value(event, "k") in ("", str(kind)):
        root = parent
    scope = _scope_read(event, root, parent, here, kind) if root is not None and kind is not _UNKNOWN else ()
    return CommentPlace(kind, scope, parent[1], references)


def scope_tags(root: str, relay: str, author: str, author_relay: str, kind: int) -> tuple[Tag, ...]:
    """The tags by which a comment names its root (NIP-22); empty strings for what is unknown."""
    tags = (base.short_tag("E", root, relay, author), ("K", str(kind)))
    return (*tags, base.short_tag("P", author, author_relay)) if author else tags


def parent_tags(scope: tuple[Tag, ...]) -> tuple[Tag, ...]:
    """The tags by which a comment on the root names its parent, without the author's."""
    return tuple((tag[0].lower(), *tag[1:]) for tag in scope if tag[0] != "P")


def recipient(scope: tuple[Tag, ...], draft: OutgoingMessage) -> tuple[Tag, ...]:
    """The p tag of the asker, else of the root's author; none if that is the speaker."""
    author = str(draft.reply_to.get("author", ""))
    relay = str(draft.reply_to.get("relay", ""))
    if not author:
        author, relay = next(((tag[1], base.element(tag, 2)) for tag in scope if tag[0] == "P"), ("", ""))
    return (base.short_tag("p", author, relay),) if author and author != draft.speaker else ()


def _root_kind(event: Event) -> int:
    """The kind of a comment's root; `_UNKNOWN` if it may be a note or thread, else `_SOMETHING_ELSE`."""
    named = [tag[1] for tag in base.tags_named(event, "K")]
    for name in named:
        if name in _ROOT_KINDS:
            return _ROOT_KINDS[name]
    if any(name in _OTHER_ROOTS for name, *_ in filter(None, event.tags)):
        return _SOMETHING_ELSE
    if named:  # some clients name the comment that is answered in place of the root
        return _UNKNOWN if set(named) == {str(COMMENT)} else _SOMETHING_ELSE
    parent = base.first_value(event, "k")
    return _UNKNOWN if parent in ("", str(COMMENT)) else _ROOT_KINDS.get(parent, _SOMETHING_ELSE)


def _is_other_event(tag: Tag, event: Event) -> bool:
    return base.is_hex64(tag[1]) and tag[1] != event.id


def _scope_read(event: Event, root: Tag, parent: Tag, here: str, kind: int) -> tuple[Tag, ...]:
    """The root's tags with the author and relays that the event names."""
    author_tag = next((tag for tag in base.tags_named(event, "P") if base.is_hex64(tag[1])), ())
    author = base.key_at(author_tag, 1) or base.key_at(root, 3)
    if not author and parent[1] == root[1]:
        author = base.key_at(parent, 3)
    root_relay = base.hint(base.element(root, 2))
    author_relay = base.hint(base.element(author_tag, 2))
    return scope_tags(root[1], root_relay or here, author, author_relay or root_relay or here, kind)


def _scope(draft: OutgoingMessage) -> tuple[Tag, ...]:
    """The root's tags as the asker wrote them; the conversation's where they name none, or no author of the same."""
    address = draft.address
    root, relay, author = (str(address[name]) for name in ("root", "root_relay", "root_author"))
    asked = tuple(tuple(str(one) for one in tag) for tag in draft.reply_to.get("scope", ()))
    is_asked_in_full = len(asked) > 2 or (len(asked) == 2 and (asked[0][1] != root or not author))
    if draft.reply_to.get("form") == COMMENTS.name and is_asked_in_full:
        return asked
    return scope_tags(root, relay, author, relay, NOTE)
