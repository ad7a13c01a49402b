"""Notes: conversations in kind 1 with the tags of NIP-10, the one form every client writes and shows.

How a thread is read: e tags with a marker say what they are. A client that marks none follows the old convention:
the first is the root, the last the reply. A note whose only word about its thread is a `reply` marker leaves the
root open: its parent then stands for the root, as the conversation's id too, until somebody who knows the thread
(the conversation that knows the parent) says better. `mention` markers and q tags are quotations, no thread.

Members of origin beyond those of `base`: root ("" where the note leaves it open; its own id where it is one itself),
root_author, root_relay, people (the thread's keys, without the author and us).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event

from . import base
from .base import Tag, ThreadingScheme
from .split import in_parts

NOTE: Final = 1


class Notes(ThreadingScheme):
    """Kind 1, answered by kind 1."""

    @property
    def name(self) -> str:
        """Is `notes`."""
        return "notes"

    def read(
        self,
        event: Event,
        ours: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        relay: str,
        project: str | None,  # noqa: ARG002
    ) -> InboundMessage | None:
        """Read a note; it starts a conversation where a p tag or its text names one of our keys.

        A note that only carries our project's `a` tag talks about it, not to it.
        """
        group, received_on = base.group_of(event), base.received_on(relay)
        if event.kind != NOTE or (group and not received_on):  # an answer must not leave the group's relay
            return None
        here = base.hint(relay)
        thread = _thread(event, here)
        root = thread.root if thread.root.id else thread.parent
        references = base.references_of(event, thread.parent.id, thread.root.id, *thread.others)
        address: dict[str, Any] = {
            "form": self.name,
            "root": root.id,
            "root_kind": NOTE,
            "root_author": root.author,
            "root_relay": root.relay or here,
            "relays": received_on,
        }
        if group:
            address["group"] = group
        origin: dict[str, Any] = {
            "form": self.name,
            "id": event.id,
            "kind": NOTE,
            "author": event.pubkey,
            "relay": here,
            "relays": received_on,
            "parents": list(references),
            "root": thread.root.id,
            "root_author": thread.root.author,
            "root_relay": thread.root.relay,
            "people": base.people_of(event, ours),
            **base.hints_of(event),
        }
        return InboundMessage(
            event_id=event.id,
            author=event.pubkey,
            text=event.content,
            created_at=event.created_at,
            conversation=ConversationId(root.id),
            starts=base.calls_us(event, ours),
            references=references,
            reply_to=EventId(thread.parent.id) if thread.parent.id else None,
            mentions=base.named_in(event.content, ours, slugs),
            title=base.title_of(event),
            address=address,
            origin=origin,
        )

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Answer in kind 1: a root marker, a reply marker unless the root itself is answered, the thread's people."""
        tags = (*_thread_tags(draft.address, draft.reply_to, draft.speaker), *base.group_tags(draft.address))
        return in_parts(draft, NOTE, (*tags, *draft.tags, *marks))


NOTES: Final = Notes()


@dataclass(frozen=True, slots=True)
class _Link:
    """An e tag: what it points to, where that may be found, by whom it is; "" for what is not known."""

    id: str = ""
    relay: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class _Thread:
    """Where a note stands."""

    root: _Link
    """The note itself, where it answers nothing."""
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
    roots, replies = marked["root"], marked["reply"]
    others = tuple(link.id for link in (*roots, *replies, *plain, *marked["mention"]))
    if not (roots or replies or plain):
        return _Thread(_Link(event.id, here, event.pubkey), _UNKNOWN, others)
    root = next(iter(roots or plain), _UNKNOWN)
    parent = (replies or roots[:1] or plain)[-1]
    return _Thread(root, parent, others)


def _thread_tags(address: Mapping[str, Any], origin: Mapping[str, Any], speaker: PublicKey) -> tuple[Tag, ...]:
    """Say where an answer stands and whom it is for (NIP-10)."""
    root = _Link(str(address["root"]), str(address["root_relay"]), str(address["root_author"]))
    if origin.get("form") != NOTES.name:  # no note to answer: speak to the root
        asker = (str(origin["author"]), str(origin["relay"])) if origin else (root.author, root.relay)
        return (_e_tag(root, "root"), *_p_tags([asker], speaker))
    trigger = _Link(str(origin["id"]), str(origin["relay"]), str(origin["author"]))
    if origin["root"] and origin["root"] != root.id:  # the person wrote in another thread: answer there
        root = _Link(str(origin["root"]), str(origin["root_relay"]) or trigger.relay, str(origin["root_author"]))
    elif origin["root"]:
        root = _Link(root.id, root.relay, root.author or str(origin["root_author"]))
    threading = (_e_tag(root, "root"),) if trigger.id == root.id else (_e_tag(root, "root"), _e_tag(trigger, "reply"))
    people = [(trigger.author, trigger.relay), *((str(key), "") for key in origin["people"])]
    return (*threading, *_p_tags(people, speaker))


def _e_tag(link: _Link, marker: str) -> Tag:
    return base.short_tag("e", link.id, link.relay, marker, link.author)


def _p_tags(people: list[tuple[str, str]], speaker: PublicKey) -> tuple[Tag, ...]:
    """Give a p tag for each key but the speaker's own, the first ones where there are too many."""
    others = ((key, relay) for key, relay in people if key and key != speaker)
    return tuple(base.short_tag("p", *person) for person in others)[: base.MAX_PEOPLE]
