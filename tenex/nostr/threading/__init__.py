"""The forms of conversation: for every kind of event a person may write in, how it is read and how it is answered.

    base      what a form is, and what all forms read alike
    parts     one message as the events it takes
    notes     kind 1 with NIP-10 tags, which every client has
    threads   kind 11 (NIP-7D) with comments (NIP-22)

A new form is a module of its own and one entry in `SCHEMES`.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from tenex.core.errors import InternalError
from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event

from .base import ThreadingScheme
from .notes import NOTES
from .threads import THREADS

SCHEMES: Final[tuple[ThreadingScheme, ...]] = (NOTES, THREADS)
"""Asked in this order; no two take the same event."""


def read_event(
    event: Event, ours: Collection[PublicKey], slugs: Mapping[str, PublicKey], relay: str, project: str | None
) -> InboundMessage | None:
    """Read a person's event in the form it was written in; None where it is our own or no form takes it.

    Args:
        event: of the right shape and genuine; its tags may still hold anything.
        ours: every key of ours: the project's and the agents'.
        slugs: which `@name` means which of our keys.
        relay: where the event was heard, or "".
        project: the address of our project's event (`31933:<key>:<d>`), where there is one.
    """
    if event.pubkey in ours:
        return None
    readings = (form.read(event, ours, slugs, relay, project) for form in SCHEMES)
    incoming = next((reading for reading in readings if reading is not None), None)
    if incoming is not None:
        keys = dict.fromkeys(tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "p")
        incoming = replace(incoming, tagged=tuple(PublicKey(key) for key in keys if key in ours))
    if incoming is not None and any(tag[0] == "l" and tag[1] == "ai" for tag in event.tags if len(tag) > 1):
        return replace(incoming, by_machine=True)
    return incoming


def scheme_named(name: object) -> ThreadingScheme:
    """Find the form an address was written by.

    Raises:
        Bug: there is none of that name.
    """
    for form in SCHEMES:
        if form.name == name:
            return form
    known = ", ".join(form.name for form in SCHEMES)
    raise InternalError(f"an address names the form {name!r}; this version of tenex knows {known}")
