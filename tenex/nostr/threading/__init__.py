"""Threading schemes: for each kind of event users write, how it is read and how it is answered.

    base        the interface of a scheme, and the reading of tags they share
    split       one message as one or more events
    notes       kind 1 with NIP-10 tags, which every client has
    comments    kind 1111 (NIP-22) under a note
    threads     kind 11 (NIP-7D) with comments (NIP-22)
    other_comments  kind 1111 (NIP-22) under anything else: articles, pages of the web, issues
    chats       kind 9 (NIP-C7), in groups (NIP-29) too
    room_threads    kind 9 in groups whose clients show threads
    plain_text  Markdown as clients show it that know none
    direct      direct messages: kind 14 (NIP-17) and kind 4 (NIP-04), once their text can be read

A conversation under a note is answered in the form of the message that is answered: a note by a note, a comment by a
comment. One under a thread is always answered by comments. The two forms of direct messages may be mixed likewise.

A new scheme is a module of its own and one entry in `SCHEMES`; if relays have its events as they are read, one in
`PUBLIC` too: then its `kinds` are subscribed to. Those of `room_threads` read what `chats` reads elsewhere.
"""

from collections.abc import Collection, Mapping
from typing import Final

from tenex.core.errors import InternalError
from tenex.core.ids import PublicKey
from tenex.core.ports import OutgoingMessage
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event

from .base import ThreadingScheme
from .chats import CHATS
from .comments import COMMENTS
from .direct import DIRECT, LEGACY
from .notes import NOTES
from .other_comments import OTHER_COMMENTS
from .room_threads import ROOM_THREADS, ROOM_TOP
from .threads import THREADS

PUBLIC: Final[tuple[ThreadingScheme, ...]] = (NOTES, THREADS, COMMENTS, OTHER_COMMENTS, CHATS)
"""Tried in this order; no two read the same event."""
SCHEMES: Final[tuple[ThreadingScheme, ...]] = (*PUBLIC, ROOM_THREADS, ROOM_TOP, DIRECT, LEGACY)
KINDS: Final = tuple(sorted({kind for scheme in PUBLIC for kind in scheme.kinds}))
"""Of the events that are read as relays have them, and written."""


def read_event(
    event: Event,
    own_keys: Collection[PublicKey],
    slugs: Mapping[str, PublicKey],
    relay: str,
    project: str | None,
    in_room: ThreadingScheme | None = None,
) -> InboundMessage | None:
    """Read an event in the public scheme it was written in; None if it is by one of `own_keys` or no scheme reads it.

    Args:
        event: of the right shape and genuine; its tags may still hold anything.
        own_keys: the keys of the project and its agents.
        slugs: the key that each `@name` means.
        relay: where the event was received, or "".
        project: the address of the project's event (`31933:<key>:<d>`), if there is one.
        in_room: the scheme of the room it was written in, if that has threads; of the kinds that it reads.
    """
    if event.pubkey in own_keys:
        return None
    schemes = (in_room, *PUBLIC) if in_room is not None else PUBLIC
    readings = (scheme.read(event, own_keys, slugs, relay, project) for scheme in schemes)
    return next((reading for reading in readings if reading is not None), None)


def scheme_named(name: object) -> ThreadingScheme:
    """Find the scheme that an address names.

    Raises:
        InternalError: there is none of that name.
    """
    for scheme in SCHEMES:
        if scheme.name == name:
            return scheme
    known = ", ".join(scheme.name for scheme in SCHEMES)
    raise InternalError(f"an address names the threading scheme {name!r}; this version of tenex knows {known}")


def scheme_of(draft: OutgoingMessage) -> ThreadingScheme:
    """Choose the scheme a message is written in: the answered message's, if both have roots of one kind.

    Raises:
        InternalError: the address names an unknown threading scheme.
    """
    opened = scheme_named(draft.address.get("form"))
    asked = next((scheme for scheme in SCHEMES if scheme.name == draft.reply_to.get("form")), opened)
    return asked if asked.root_kind == opened.root_kind else opened
