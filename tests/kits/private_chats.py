"""Messages of direct conversations, and the answers that are sealed to them."""

import json
from dataclasses import replace
from typing import Any

from tenex.core.ports import OutgoingMessage
from tenex.core.signals import InboundMessage
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import Event
from tenex.nostr.threading.direct import CHAT, DIRECT, LEGACY
from tests.nostr.kit import OURS, PERSON, PLANNER, PROJECT, RELAY, note

KEYS = {key.public: key for key in (PROJECT, PLANNER)}
INBOX, ELSEWHERE, CONFIGURED = "wss://inbox.example", "wss://elsewhere.example", "wss://configured.example"
SEALER = NostrSealer([CONFIGURED], keys=KEYS)


def message(*tags: list[str], text: str = "Hello", kind: int = CHAT, by: Any = PERSON, to: Any = PROJECT) -> Event:
    return note(text, by=by, at=1000, kind=kind, tags=[["p", to.public], *tags])


def read(event: Event, inboxes: dict[str, list[str]] | None = None) -> InboundMessage:
    """Read it as the daemon does, and as a journal gives it back."""
    scheme = DIRECT if event.kind == CHAT else LEGACY
    incoming = scheme.read(event, OURS, {"planner": PLANNER.public}, RELAY, None)
    assert incoming is not None
    more = {"inboxes": inboxes or {}}
    address, origin = json.loads(json.dumps([{**incoming.address, **more}, {**incoming.origin, **more}]))
    return replace(incoming, address=address, origin=origin)


def draft(opener: InboundMessage, answered: InboundMessage | None = None, text: str = "Answer") -> OutgoingMessage:
    return OutgoingMessage(
        speaker=PROJECT.public,
        text=text,
        tags=(("phase", "chat"),),
        created_at=2000,
        address=opener.address,
        reply_to=answered.origin if answered else {},
        name="Demo",
    )
