"""Comments: kind 1111 (NIP-22) on anything but a note or a thread: an article, a picture, an issue, a page of the web.

A conversation begins with the comment that mentions us and has its id, because what is below one article or page may be
many talks of many people. What replies to a message of ours, or to that comment, belongs to it.

The root is an event (`E`), an addressable event (`A`) or something outside of Nostr (`I`). The first usable tag of each
counts, and is repeated in the answer.

Members of address and origin beyond those of `base`: scope, the root's tags as the answer repeats them:
[["A", address, relay], ["K", "30023"], ["P", author, relay]].
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .comments import COMMENT, comment_place
from .split import MAX_TAG_BYTES, in_parts

_ADDRESS: Final = re.compile(r"(\d{1,5}):([0-9a-f]{64}):.*", re.DOTALL)
_MAX_KIND: Final = 100
"""Characters of what a comment calls the kind of its root."""


class OtherComments(ThreadingScheme):
    """Kind 1111 below something else, answered by kind 1111 below the comment."""

    name = "other-comments"
    root_kind = COMMENT
    kinds = (COMMENT,)
    starts_by_project = False

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:  # noqa: ARG002
        """Place a comment; one on a note or thread belongs to the schemes `comments` and `threads`."""
        if event.kind != COMMENT or comment_place(event, here) is not None:
            return None
        scope = scope_of(event)
        if not scope:
            return None
        roots = [tag[1] for tag in scope if tag[0] == "E"]
        parents = [tag[1] for tag in base.tags_named(event, "e")]
        references = base.references_of(event, *parents, *roots)
        tags = {"scope": [list(tag) for tag in scope]}
        return base.Place(
            root=event.id,
            root_author=event.pubkey,
            root_relay=here,
            parent=references[0] if references else "",
            references=references,
            address=tags,
            origin=tags,
            about=next((tag[1] for tag in scope if tag[0] in "AI"), ""),
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer with a comment on the comment, or on the one that began the conversation."""
        origin = draft.reply_to
        address = draft.address
        is_asked_here = origin.get("form") == self.name
        scope = tuple(tuple(map(str, tag)) for tag in (origin if is_asked_here else address)["scope"])
        opener = (str(address["root"]), str(address["root_relay"]), str(address["root_author"]))
        parent = (str(origin["id"]), str(origin["relay"]), str(origin["author"])) if is_asked_here else opener
        asker = str(origin.get("author", "")) or opener[2]
        person = (base.short_tag("p", asker, str(origin.get("relay", ""))),) if asker != draft.speaker else ()
        tags = (*scope, base.short_tag("e", *parent), ("k", str(COMMENT)), *person, *base.group_tags(address))
        return in_parts(draft, COMMENT, (*tags, *draft.tags, *marks))


OTHER_COMMENTS: Final = OtherComments()


def scope_of(event: Event) -> tuple[Tag, ...]:
    """The tags by which a comment names its root, as they may be repeated; empty where it names none."""
    roots = tuple(_roots(event))
    if not roots:
        return ()
    kind = base.first_value(event, "K")[:_MAX_KIND] or _kind_of(roots[0])
    author = next((tag for tag in base.tags_named(event, "P") if base.is_hex64(tag[1])), ())
    return (
        *roots,
        *((("K", kind),) if kind else ()),
        *((base.short_tag("P", author[1], base.hint(base.element(author, 2))),) if author else ()),
    )


def _roots(event: Event) -> Iterator[Tag]:
    """The first usable tag of each name."""
    for name in ("A", "I", "E"):
        usable = (tag for tag in base.tags_named(event, name) if _is_usable(tag, event))
        root = next(usable, None)
        if root is None:
            continue
        behind = base.element(root, 2)
        if name == "I":
            yield base.short_tag("I", root[1], behind if len(behind.encode()) <= MAX_TAG_BYTES else "")
        else:
            yield base.short_tag(name, root[1], base.hint(behind), base.key_at(root, 3))


def _is_usable(tag: Tag, event: Event) -> bool:
    if tag[0] == "E":
        return base.is_hex64(tag[1]) and tag[1] != event.id
    if len(tag[1].encode(errors="replace")) > MAX_TAG_BYTES:  # it would be cut, and name something else
        return False
    return tag[0] == "I" or _ADDRESS.fullmatch(tag[1]) is not None


def _kind_of(root: Tag) -> str:
    """The kind of a root that a comment does not name."""
    if root[0] == "A":
        return root[1].partition(":")[0]
    return "web" if root[0] == "I" and root[1].startswith(("http://", "https://")) else ""
