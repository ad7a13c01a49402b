"""What was written in a thread before a message: how relays are asked for it, and which of it is shown.

A thread of thousands is read as far as one page of each relay. Of that, the root is shown, the messages that lead from
the root to the one that calls us in, and the newest others before it, at most `SHOWN` together.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tenex.core.signals import InboundMessage

from .events import Event
from .filters import Filter
from .threading import base
from .threading.comments import COMMENT
from .threading.notes import NOTE

PAGE: Final = 200
"""Events of a thread that a relay is asked for; many send no more than 500."""
SHOWN: Final = 10
"""Messages that models are shown: each is cut, so together they are as long as a page."""


def filters_of(message: InboundMessage) -> list[Filter]:
    """What to ask for the thread of a message: its root, and what names the root; empty where it has none."""
    address = message.address
    scope = [tag for tag in address.get("scope", ()) if tag[0] in ("E", "A", "I")]
    if scope:
        names = [{"kinds": [COMMENT], f"#{name}": [value], "limit": PAGE} for name, value, *_ in scope]
        roots = [_root(tag) for tag in scope]
        return [*names, *(wanted for wanted in roots if wanted is not None)]
    root = str(address.get("root", ""))
    if root in ("", message.event_id):
        return []
    named = {"kinds": [NOTE], "#e": [root], "limit": PAGE}
    comments = {"kinds": [COMMENT], "#E": [root], "limit": PAGE}
    return [named, comments, {"ids": [root]}]


def _root(tag: list[str]) -> Filter | None:
    if tag[0] == "E":
        return {"ids": [tag[1]]}
    if tag[0] == "A":
        kind, author, name = tag[1].split(":", 2)
        return {"kinds": [int(kind)], "authors": [author], "#d": [name], "limit": 1}
    return None


def before(message: InboundMessage, stored: Iterable[Event]) -> list[Event]:
    """The events that are shown, the oldest first."""
    events: dict[str, Event] = {event.id: event for event in stored if event.id != message.event_id}
    roots = [event for event in events.values() if _is_root(message, event)]
    chain = list(_chain(message, events))
    limit = message.created_at + 1
    newest = sorted(
        (event for event in events.values() if event.created_at < limit),
        key=lambda event: (-event.created_at, event.id),
    )
    kept = list({event.id: event for event in (*roots[:1], *chain[: SHOWN // 2], *newest)}.values())[:SHOWN]
    return sorted(kept, key=lambda event: (not _is_root(message, event), event.created_at, event.id))


def _is_root(message: InboundMessage, event: Event) -> bool:
    roots: Mapping[str, Any] = {tag[0]: tag[1] for tag in message.address.get("scope", ())}
    if event.id in (roots.get("E"), message.address.get("root")):
        return True
    return "A" in roots and f"{event.kind}:{event.pubkey}:{base.first_value(event, 'd')}" == roots["A"]


def _chain(message: InboundMessage, events: Mapping[str, Event]) -> Iterable[Event]:
    """The messages that a message answers, one behind the other, from the newest on."""
    seen: set[str] = set()
    parent = str(message.reply_to or "")
    while parent in events and parent not in seen:
        seen.add(parent)
        event = events[parent]
        yield event
        tags = list(base.tags_named(event, "e"))
        replies = [tag[1] for tag in tags if base.element(tag, 3) == "reply"]
        parent = (replies or [tag[1] for tag in tags[-1:]] or [""])[-1]
