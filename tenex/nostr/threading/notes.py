"""Notes: conversations in kind 1 with the tags of NIP-10, the scheme that every client writes and shows.

Marked e tags are read by their marker. Without markers the old convention applies: the first e tag is the root, the
last one the reply. If a note has only a `reply` marker its root is unknown: the parent is used as the root, and as the
conversation's id, until a conversation that contains the parent supplies it. `mention` markers and q tags are
quotations.

Members of origin beyond those of `base`: root ("" if unknown; the note's own id if it is a root), root_author,
root_relay, people (the keys in the thread, without the author and the project's).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .split import in_parts

NOTE: Final = 1


class Notes(ThreadingScheme):
    """Kind 1, answered by kind 1."""

    name = "notes"
    root_kind = NOTE
    kinds = (NOTE,)
    starts_by_project = False  # a note with the project's tag is about the project, not addressed to it

    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> base.Place | None:
        """Place a note in its thread."""
        if event.kind != NOTE:
            return None
        thread = _thread(event, here)
        root = thread.root if thread.root.id else thread.parent
        return base.Place(
            root=root.id,
            root_author=root.author,
            root_relay=root.relay or here,
            parent=thread.parent.id,
            references=base.references_of(event, thread.parent.id, thread.root.id, *thread.others),
            address={},
            origin={
                "root": thread.root.id,
                "root_author": thread.root.author,
                "root_relay": thread.root.relay,
                "people": base.people_of(event, own_keys),
            },
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer in kind 1: a root marker, a reply marker unless the root itself is answered, p tags of the thread."""
        tags = (*_thread_tags(draft.address, draft.reply_to, draft.speaker), *base.group_tags(draft.address))
        return in_parts(draft, NOTE, (*tags, *draft.tags, *marks))


NOTES: Final = Notes()


@dataclass(frozen=True, slots=True)
class _Link:
    """An e tag: the event it points to, its relay and author; "" for what is unknown."""

    id: str = ""
    relay: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class _Thread:
    """The position of a note in its thread."""

    root: _Link
    """The note itself if it answers nothing."""
    parent: _Link
    others: tuple[str, ...]


_UNKNOWN: Final = _Link()


def _thread(event: Event, here: str) -> _Thread:
    marked: dict[str, list[_Link]] = {"root": [], "reply": [], "mention": []}
    plain: list[_Link] = []
    for tag in base.tags_named(event, "e"):
        if base.is_hex64(tag[1]) and tag[1] != event.id:
            # some clients put the author where the marker belongs (NIP-01's own order)
            link = _Link(tag[1], base.hint(base.element(tag, 2)), base.key_at(tag, 4, 3))
            marked.get(base.element(tag, 3), plain).append(link)
    roots = marked["root"]
    replies = marked["reply"]
    quoted = base.quotes_of(event)
    plain = [link for link in plain if link.id not in quoted]  # as clients quoted before there were q tags
    others = tuple(link.id for link in (*roots, *replies, *plain))
    if not (roots or replies or plain):
        return _Thread(_Link(event.id, here, event.pubkey), _UNKNOWN, others)
    root = next(iter(roots or plain), _UNKNOWN)
    parent = (replies or roots[:1] or plain)[-1]
    return _Thread(root, parent, others)


def _thread_tags(address: Mapping[str, Any], origin: Mapping[str, Any], speaker: PublicKey) -> tuple[Tag, ...]:
    """The e and p tags of an answer (NIP-10)."""
    root = _Link(str(address["root"]), str(address["root_relay"]), str(address["root_author"]))
    if origin.get("form") != NOTES.name:  # no note to answer: address the root
        asker = (str(origin["author"]), str(origin["relay"])) if origin else (root.author, root.relay)
        return (_e_tag(root, "root"), *_p_tags([asker], speaker))
    trigger = _Link(str(origin["id"]), str(origin["relay"]), str(origin["author"]))
    if origin["root"] and origin["root"] != root.id:  # the user wrote in another thread: answer there
        root = _Link(str(origin["root"]), str(origin["root_relay"]) or trigger.relay, str(origin["root_author"]))
    elif origin["root"]:
        root = _Link(root.id, root.relay, root.author or str(origin["root_author"]))
    threading = (_e_tag(root, "root"),) if trigger.id == root.id else (_e_tag(root, "root"), _e_tag(trigger, "reply"))
    people = [(trigger.author, trigger.relay), *((str(key), "") for key in origin["people"])]
    return (*threading, *_p_tags(people, speaker))


def _e_tag(link: _Link, marker: str) -> Tag:
    return base.short_tag("e", link.id, link.relay, marker, link.author)


def _p_tags(people: list[tuple[str, str]], speaker: PublicKey) -> tuple[Tag, ...]:
    """A p tag for each key but the speaker's own, the first `MAX_PEOPLE`."""
    others = ((key, relay) for key, relay in people if key and key != speaker)
    return tuple(base.short_tag("p", *person) for person in others)[: base.MAX_PEOPLE]
