"""The first event of a conversation that the daemon starts, and the address of that conversation.

It uses the scheme of an existing conversation, because its readers use a client that shows that scheme: a note (kind
1) or a thread (kind 11, NIP-7D). It quotes the root of that conversation (NIP-18).
"""

from typing import Any

from tenex.core.ports import OutgoingMessage, UnsignedEvent

from . import base, scheme_named
from .base import Tag
from .split import in_parts
from .threads import THREAD, scope_tags


def begin(draft: OutgoingMessage, title: str, people: tuple[str, ...]) -> tuple[UnsignedEvent, dict[str, Any]]:
    """Make the root of a new conversation.

    Args:
        draft: its text and author, and the address of the conversation it comes from.
        title: its title, if the scheme has one.
        people: the keys it is addressed to.

    Returns:
        The event, whose id is the new conversation's, and that conversation's address.

    Raises:
        InternalError: the address names an unknown threading scheme.
    """
    old = draft.address
    relay = base.hint(str(old.get("root_relay", "")))
    quote = base.short_tag("q", str(old["root"]), relay, str(old.get("root_author", "")))
    called: tuple[Tag, ...] = tuple(("p", key) for key in dict.fromkeys(people) if key and key != draft.speaker)
    tags = (quote, *called, *base.group_tags(old), *draft.tags)
    scheme = scheme_named(old.get("form"))
    kind = scheme.root_kind
    (event, *_) = in_parts(draft, kind, (("title", title), *tags) if kind == THREAD else tags)
    address = {
        "form": scheme.name,
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
