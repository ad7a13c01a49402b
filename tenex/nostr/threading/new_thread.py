"""A thread that we begin ourselves: its first event, and the address under which it goes on.

The event takes the form of a conversation that is already held, because the people who will read it use a client that
shows that form: a note (kind 1), or a thread (kind 11, NIP-7D). It quotes that conversation's root (NIP-18) and calls
the one who began it.
"""

from typing import Any

from tenex.core.ports import OutgoingMessage, UnsignedEvent

from . import base, scheme_named
from .base import Tag
from .notes import NOTE, NOTES
from .split import in_parts
from .threads import THREAD, scope_tags


def begin(draft: OutgoingMessage, title: str, people: tuple[str, ...]) -> tuple[UnsignedEvent, dict[str, Any]]:
    """Make the root of a new conversation.

    Args:
        draft: what it says, where the conversation is held that it follows on, and by whom it is said.
        title: what it is called, where its form has a place for that.
        people: keys it is for.

    Returns:
        The event, whose id is the new conversation's, and that conversation's address.

    Raises:
        Bug: the address names no form of ours.
    """
    old = draft.address
    relay = base.hint(str(old.get("root_relay", "")))
    quote = base.short_tag("q", str(old["root"]), relay, str(old.get("root_author", "")))
    called: tuple[Tag, ...] = tuple(("p", key) for key in dict.fromkeys(people) if key and key != draft.speaker)
    tags = (quote, *called, *base.group_tags(old), *draft.tags)
    form = scheme_named(old.get("form"))
    kind = NOTE if form is NOTES else THREAD
    (event, *_) = in_parts(draft, kind, tags if kind == NOTE else (("title", title), *tags))
    address = {
        "form": form.name,
        "root": event.id,
        "root_kind": kind,
        "root_author": event.pubkey,
        "root_relay": relay,
        "relays": list(old.get("relays", ())),
    }
    if old.get("group"):
        address["group"] = old["group"]
    if kind == THREAD:
        address["scope"] = [list(tag) for tag in scope_tags(event.id, relay, event.pubkey, relay)]
    return event, address
