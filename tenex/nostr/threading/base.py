"""What a form of conversation is, and the reading that all of them share.

A form writes two JSON objects, which subscription in the journal and come back to it when something is to be said. Both
hold strings, numbers and lists only. Members that all forms write:

    address   form, root, root_kind, root_author, root_relay, relays (where it was heard), group (NIP-29, if any)
    origin    form, id, kind, author, relay (as a hint), relays (where it was heard), parents (Incoming.references),
              hints (relays its tags name, if any)

Tags come from strangers: each function here passes over what has the wrong shape and never raises.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event
from tenex.nostr.keys import find_mentions
from tenex.nostr.urls import normalise_url

Tag = tuple[str, ...]

MAX_PEOPLE: Final = 20
"""As many p tags as an answer carries: clients copy them from reply to reply, and a busy thread would call hundreds."""

MAX_REFERENCES: Final = 20
"""As many ids as are looked up for one message: honest clients write two or three."""

MAX_HINT_BYTES: Final = 200
"""Longer relay urls than this are not passed on."""

MAX_HINTS: Final = 3
"""Relays of one message that are tried where the usual ones refuse the answer."""

MAX_TITLE: Final = 200
"""Characters; the conversation shortens it further."""

_HINTING: Final = frozenset("eEaApPq")
"""Tags whose third element is a relay (NIP-01, NIP-10, NIP-18, NIP-22)."""

_HEX64: Final = re.compile(r"[0-9a-f]{64}")


class ThreadingScheme(Protocol):
    """One way to converse: which events belong to it, and what its answers look like."""

    @property
    def name(self) -> str:
        """The form's name, which its addresses and origins carry as `form`."""
        ...

    def read(
        self, event: Event, ours: Collection[PublicKey], slugs: Mapping[str, PublicKey], relay: str, project: str | None
    ) -> InboundMessage | None:
        """Read an event of somebody else's; None if it is none of this form. Never raises for odd tags."""
        ...

    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Give a draft its kind and tags, followed by the draft's own and by `marks`; as many events as it takes."""
        ...


def tags_named(event: Event, name: str) -> Iterator[Tag]:
    """Yield the tags of one name that hold a value."""
    return (tag for tag in event.tags if len(tag) > 1 and tag[0] == name and tag[1])


def first_value(event: Event, *names: str) -> str:
    """Give the value of the first tag of these names, the earlier name first; "" where there is none."""
    return next((tag[1] for name in names for tag in tags_named(event, name)), "")


def is_hex64(text: str) -> bool:
    """Tell whether a text can be an id or a key."""
    return _HEX64.fullmatch(text) is not None


def element(tag: Tag, index: int) -> str:
    """Give one element of a tag, "" where the tag is shorter."""
    return tag[index] if len(tag) > index else ""


def key_at(tag: Tag, *indices: int) -> str:
    """Give the first of these elements that is a key, else ""."""
    return next((tag[index] for index in indices if len(tag) > index and is_hex64(tag[index])), "")


def hint(url: str) -> str:
    """Spell a relay's url as it may be published: canonical and short; "" where it is no relay's.

    The query is left out, because it may hold an access token.
    """
    if not url or len(url.encode(errors="replace")) > MAX_HINT_BYTES:
        return ""
    try:
        return normalise_url(url.split("?", 1)[0])
    except ValueError:
        return ""


def received_on(relay: str) -> list[str]:
    """Give where an event was heard, canonical, as the `relays` of an address; empty where that is not known."""
    try:
        return [normalise_url(relay)] if relay else []
    except ValueError:
        return []


def hints_of(event: Event) -> dict[str, list[str]]:
    """Give the first relays that its tags name as the member `hints` of an origin; nothing where they name none."""
    found: dict[str, None] = {}
    for tag in event.tags:
        if len(tag) > 2 and tag[0] in _HINTING and (relay := hint(tag[2])):
            found[relay] = None
    return {"hints": list(found)[:MAX_HINTS]} if found else {}


def people_of(event: Event, ours: Collection[PublicKey]) -> list[str]:
    """Give the first keys the p tags name: each once, without the author and without ours."""
    found: dict[str, None] = {}
    for tag in tags_named(event, "p"):
        if is_hex64(tag[1]) and tag[1] not in ours and tag[1] != event.pubkey:
            found[tag[1]] = None
            if len(found) == MAX_PEOPLE:
                break
    return list(found)


def named_in(text: str, ours: Collection[PublicKey], slugs: Mapping[str, PublicKey]) -> tuple[PublicKey, ...]:
    """Find the keys of ours that a text itself names: `nostr:npub...`, `nostr:nprofile...`, then `@slug`."""
    found = dict.fromkeys(find_mentions(text, ours))
    if slugs and "@" in text:
        by_slug = {slug.lower(): key for slug, key in slugs.items()}
        for match in _slug_pattern(tuple(sorted(by_slug))).finditer(text):
            found[by_slug[match.group(1).lower()]] = None
    return tuple(found)


def calls_us(event: Event, ours: Collection[PublicKey]) -> bool:
    """Tell whether a p tag or a key written in the text is one of ours; a bare `@slug` may mean anybody's agent."""
    if any(tag[1] in ours for tag in tags_named(event, "p")):
        return True
    return bool(find_mentions(event.content, ours))


def tags_project(event: Event, project: str | None) -> bool:
    """Tell whether an `a` tag names our project."""
    return project is not None and any(tag[1] == project for tag in tags_named(event, "a"))


def title_of(event: Event) -> str:
    """Give the title (NIP-7D) or subject (NIP-14) an event was given, shortened."""
    return first_value(event, "title", "subject").strip()[:MAX_TITLE]


def references_of(event: Event, *ids: str) -> tuple[EventId, ...]:
    """Keep what is an id of another event, each once, as many as are looked up."""
    found = dict.fromkeys(EventId(one) for one in ids if is_hex64(one) and one != event.id)
    return tuple(found)[:MAX_REFERENCES]


def group_of(event: Event) -> str:
    """Give the group (NIP-29) an event was sent to; "" outside groups."""
    return first_value(event, "h")[:MAX_TITLE]


def group_tags(address: Mapping[str, Any]) -> tuple[Tag, ...]:
    """Give the tag that keeps an answer inside the group its conversation subscriptions in."""
    group = address.get("group")
    return (("h", str(group)),) if group else ()


def short_tag(*elements: str) -> Tag:
    """Make a tag without the empty elements at its end."""
    last = max((index for index, one in enumerate(elements) if one), default=-1)
    return elements[: last + 1]


@lru_cache(maxsize=8)  # the roster changes a few times in a daemon's life
def _slug_pattern(slugs: tuple[str, ...]) -> re.Pattern[str]:
    # Boundaries are ASCII on purpose: scripts written without spaces put a mention between letters. What stands
    # before must not make it an address (mail, url), and a longer slug wins over a shorter one it begins with.
    names = "|".join(re.escape(slug) for slug in sorted(slugs, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9_.@/+-])@({names})(?![A-Za-z0-9_]|-[A-Za-z0-9])", re.IGNORECASE)
