"""The interface of a threading scheme, and the reading of tags that schemes share.

A scheme writes two JSON objects, which are journaled and passed back to it when a message is composed. Both hold only
strings, numbers and lists. Members that all schemes write:

    address   form (the scheme), root, root_kind, root_author, root_relay, relays (where it was received),
              group (NIP-29, if any)
    origin    form, id, kind, author, relay (as a hint), relays (where it was received), parents
              (InboundMessage.references), hints (relays its tags name, if any)

Tags may hold anything: each function here skips malformed ones and never raises.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.inbox.images import is_address
from tenex.core.inbox.received_files import MOST, NamedFile, files_in
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.text.prose import folded, readings
from tenex.core.values import replace
from tenex.nostr.addresses import is_private
from tenex.nostr.events import Event
from tenex.nostr.keys import find_events, find_mentions, npub
from tenex.nostr.urls import normalise_url

Tag = tuple[str, ...]

MAX_PEOPLE: Final = 20
"""p tags of one answer: clients copy them from reply to reply, and a busy thread would notify hundreds."""

MAX_REFERENCES: Final = 20
"""Ids that are looked up for one message: honest clients write two or three."""

MAX_HINT_BYTES: Final = 200
"""Longer relay URLs are not passed on."""

MAX_HINTS: Final = 3
"""Relays of one message that are tried if the usual ones refuse the answer."""

MAX_TITLE: Final = 200
"""Characters of a title (NIP-7D) or subject (NIP-14); the conversation shortens it further."""

MAX_FILES: Final = 100
"""Files of one event that are looked at."""

MAX_MEDIA_TYPE: Final = 100
MAX_FILE_NAME: Final = 200

_HINTING: Final = frozenset("eEaApPq")
"""Tags whose third element is a relay (NIP-01, NIP-10, NIP-18, NIP-22)."""

BY_PROGRAM: Final = ("l", "by-program", "tenex")
"""The label (NIP-32) of a message that a program wrote for its signer: it is text alone, and decides nothing."""

_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_PLACE: Final = re.compile(r"#\[([0-9]{1,4})\]")
_PLACES: Final = re.compile(r"\s*(?:#\[[0-9]{1,4}\][\s:,]*){1,20}")
"""Places of tags at the beginning of a text, as NIP-08 mentioned keys; within a text they may be code."""
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")
_FILE_NAME: Final = re.compile(r"[^\n\r]*[^\s.]\.[A-Za-z0-9]{1,10}")
_PORTS: Final = {"https": 443, "http": 80}
_ODD: Final = re.compile(r"[\s<>\"'`|\\^{}\[\]]|[^\x21-\x7e]")
"""What is in no address of a file as clients write it."""
_SECONDS: Final = re.compile(r"[0-9]{1,16}")
"""A time of NIP-01: every JSON reader agrees on integers of 2**53, which has 16 digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of an event in its conversation, by the tags of its scheme."""

    root: str
    root_author: str
    root_relay: str
    parent: str
    """The event it answers; "" if it answers none."""
    references: tuple[EventId, ...]
    address: Mapping[str, Any]
    """Members of the address beyond those that all schemes write."""
    origin: Mapping[str, Any]
    """Members of the origin, likewise."""
    may_start: bool = True
    """Whether its tags name enough for a conversation to start with it."""
    about: str = ""
    """What it is about beyond events: an address or a page of the web (NIP-22)."""


class ThreadingScheme(ABC):
    """One way to thread a conversation: which events belong to it, and how answers are written."""

    name: ClassVar[str]
    """The member `form` of its addresses and origins."""
    root_kind: ClassVar[int]
    kinds: ClassVar[tuple[int, ...]]
    """The kinds of the events that it reads and writes."""
    starts_by_project: ClassVar[bool]
    """Whether the project's `a` tag starts a conversation."""
    answers_by_quoting: ClassVar[bool] = False
    """Whether a message answers another by quoting it (NIP-C7)."""
    stays_on_relay: ClassVar[bool] = False
    """Whether its messages belong to the relay they were received on."""
    is_plain: ClassVar[bool] = True
    """Whether clients show its text as it is written; else as Markdown."""

    @abstractmethod
    def place(self, event: Event, own_keys: Collection[PublicKey], here: str) -> Place | None:
        """Place an event; None if it does not belong to this scheme. `here` is the relay it came from, as a hint."""

    def words(self, event: Event) -> str:
        """What its author says: all of it, unless clients put something else before it."""
        return event.content

    @abstractmethod
    def seal(self, draft: OutgoingMessage, marks: tuple[Tag, ...]) -> tuple[UnsignedEvent, ...]:
        """Make the events of a message: the scheme's tags, then the message's own, then `marks`."""

    def read(
        self,
        event: Event,
        own_keys: Collection[PublicKey],
        slugs: Mapping[str, PublicKey],
        relay: str,
        project: str | None,
    ) -> InboundMessage | None:
        """Read an event by another author; None if it does not belong to this scheme. Never raises for odd tags."""
        here = hint(relay)
        place = self.place(event, own_keys, here)
        if place is None:
            return None
        group = group_of(event)
        relays = received_on(relay)
        if (group or self.stays_on_relay) and not relays:  # an answer must not leave that relay
            return None
        address: dict[str, Any] = {
            "form": self.name,
            "root": place.root,
            "root_kind": self.root_kind,
            "root_author": place.root_author,
            "root_relay": place.root_relay,
            "relays": relays,
            **place.address,
        }
        if group:
            address["group"] = group
        origin: dict[str, Any] = {
            "form": self.name,
            "id": event.id,
            "kind": event.kind,
            "author": event.pubkey,
            "relay": here,
            "relays": relays,
            "parents": list(place.references),
            **place.origin,
            **hints_of(event),
        }
        tagged = tuple(dict.fromkeys(PublicKey(tag[1]) for tag in tags_named(event, "p") if tag[1] in own_keys))
        content = _with_named_keys(event, event.content)
        named = find_mentions(content, own_keys)  # a bare `@slug` may mean another project's agent
        quotes = quotes_of(event)
        if self.answers_by_quoting:
            quotes = tuple(quote for quote in quotes if quote not in place.references)
        # clients tag the author of what is quoted: that alone addresses no one
        is_addressed = bool(named or (tagged and not quotes))
        store = relays[0] if group else ""
        files = files_in(event.content, _declared_files(event, store))
        if store:
            files = tuple(
                replace(file, store=relays[0], room=group) if on_host_of(store, file.address) else file
                for file in files
            )
        by_project = self.starts_by_project and any(tag[1] == project for tag in tags_named(event, "a"))
        return InboundMessage(
            event_id=event.id,
            author=event.pubkey,
            text=_with_named_keys(event, self.words(event)),
            created_at=event.created_at,
            conversation=ConversationId(place.root),
            starts=place.may_start and (is_addressed or by_project),
            references=place.references,
            reply_to=EventId(place.parent) if place.parent else None,
            mentions=_with_slugs(named, content, slugs),
            tagged=tagged,
            quotes=tuple(quote for quote in quotes if quote not in place.references),
            by_machine=is_by_machine(event),
            by_program=is_by_program(event),
            expires_at=expiration_of(event),
            title=first_value(event, "title", "subject").strip()[:MAX_TITLE],
            about=place.about,
            files=files[:MOST],
            files_left_out=len(files[MOST:]),
            address=address,
            origin=origin,
        )


def _with_named_keys(event: Event, text: str) -> str:
    """The text with the keys that older clients name at its beginning by the places of their tags (NIP-08, `#[0]`)."""
    begin = _PLACES.match(text)
    if begin is None:
        return text

    def named(place: re.Match[str]) -> str:
        number = int(place[1])
        tag = event.tags[number] if number < len(event.tags) else ()
        is_key = element(tag, 0) == "p" and is_hex64(element(tag, 1))
        return f"nostr:{npub(PublicKey(tag[1]))}" if is_key else place[0]

    return _PLACE.sub(named, begin[0]) + text[begin.end() :]


def on_host_of(relay: str, address: str) -> bool:
    """Whether an address is on a relay's own host: the same port, and over TLS where the relay is."""
    is_secure = relay.startswith("wss:")
    try:
        host = urlsplit(relay)
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False
    is_same = (parts.hostname, port) == (host.hostname, host.port or _PORTS["https" if is_secure else "http"])
    is_plain = "@" not in parts.netloc and not _ODD.search(address)
    return is_same and is_plain and parts.scheme == ("https" if is_secure else "http")


def _declared_files(event: Event, store: str) -> dict[str, NamedFile]:
    """The files that a client describes (NIP-92), by their addresses, the first few.

    On the host of `store`, a relay, also by http where the relay is spoken to without TLS.
    """
    declared: dict[str, NamedFile] = {}
    for tag in event.tags:
        if len(declared) == MAX_FILES:
            break
        if tag and tag[0] == "imeta":
            fields = dict(part.partition(" ")[::2] for part in tag[1:])
            address = fields.get("url", "")
            if is_address(address) or (store and on_host_of(store, address)):
                declared[address] = NamedFile(
                    address=address,
                    media_type=media_type_of(fields.get("m", "")),
                    name=name_of(fields.get("name", ""), fields.get("filename", ""), fields.get("alt", "")),
                    digest=fields["x"] if is_hex64(fields.get("x", "")) else "",
                    is_declared=True,
                )
    return declared


def media_type_of(written: str) -> str:
    """A media type without its parameters, in small letters; "" for what is none."""
    essence = written[:MAX_MEDIA_TYPE].partition(";")[0].strip().lower()
    return essence if _MEDIA_TYPE.fullmatch(essence) else ""


def name_of(*written: str) -> str:
    """The first of these that is a name with an ending; a description (`alt`) seldom is."""
    names = (name.strip() for name in written if len(name) <= MAX_FILE_NAME)
    return next((name for name in names if _FILE_NAME.fullmatch(name)), "")


def tags_named(event: Event, name: str) -> Iterator[Tag]:
    """Yield the tags of one name that hold a value."""
    return (tag for tag in event.tags if len(tag) > 1 and tag[0] == name and tag[1])


def first_value(event: Event, *names: str) -> str:
    """The value of the first tag of these names, the earlier name first; "" if there is none."""
    return next((tag[1] for name in names for tag in tags_named(event, name)), "")


def expiration_of(event: Event) -> int | None:
    """The second from which an event has expired (NIP-40); of several the earliest, malformed ones left out."""
    return min((int(tag[1]) for tag in tags_named(event, "expiration") if _SECONDS.fullmatch(tag[1])), default=None)


def quotes_of(event: Event) -> tuple[EventId, ...]:
    """The events that are quoted (NIP-18): by q tags, by e tags marked `mention`, and by names in the text (NIP-27)."""
    ids = [tag[1] for tag in tags_named(event, "q")]
    ids += [tag[1] for tag in tags_named(event, "e") if element(tag, 3) == "mention"]
    ids += find_events(event.content)
    return references_of(event, *ids)


def is_hex64(text: str) -> bool:
    """Whether a text has the shape of an id or a key."""
    return _HEX64.fullmatch(text) is not None


def element(tag: Tag, index: int) -> str:
    """One element of a tag; "" if the tag is shorter."""
    return tag[index] if len(tag) > index else ""


def key_at(tag: Tag, *indices: int) -> str:
    """The first of these elements that has the shape of a key, else ""."""
    return next((tag[index] for index in indices if len(tag) > index and is_hex64(tag[index])), "")


def hint(url: str) -> str:
    """A relay URL as it may be published: canonical and short; "" if it is not a relay URL.

    The query is dropped, because it may hold an access token.
    """
    if not url or len(url.encode(errors="replace")) > MAX_HINT_BYTES:
        return ""
    try:
        return normalise_url(url.split("?", 1)[0])
    except ValueError:
        return ""


def received_on(relay: str) -> list[str]:
    """Where an event was received, canonical, as the `relays` of an address; empty if unknown."""
    try:
        return [normalise_url(relay)] if relay else []
    except ValueError:
        return []


def hints_of(event: Event) -> dict[str, list[str]]:
    """The first public relays that the tags name, as the member `hints` of an origin; empty if they name none."""
    found: dict[str, None] = {}
    for tag in event.tags:
        if len(tag) > 2 and tag[0] in _HINTING and (relay := hint(tag[2])) and not is_private(relay):
            found[relay] = None
    return {"hints": list(found)[:MAX_HINTS]} if found else {}


def people_of(event: Event, own_keys: Collection[PublicKey]) -> list[str]:
    """The first keys in p tags: each once, without the author and without `own_keys`."""
    found: dict[str, None] = {}
    for tag in tags_named(event, "p"):
        if is_hex64(tag[1]) and tag[1] not in own_keys and tag[1] != event.pubkey:
            found[tag[1]] = None
            if len(found) == MAX_PEOPLE:
                break
    return list(found)


def _with_slugs(named: tuple[PublicKey, ...], text: str, slugs: Mapping[str, PublicKey]) -> tuple[PublicKey, ...]:
    """Add the keys whose `@slug` a text mentions to those it mentions by key; code, quotations and links do not."""
    found = dict.fromkeys(named)
    said = folded(text)
    if "@" in said and any(f"@{slug.lower()}" in said for slug in slugs):
        by_slug = {slug.lower(): key for slug, key in slugs.items()}
        pattern = _slug_pattern(tuple(sorted(by_slug)))
        for match in (match for reading in readings(text) for match in pattern.finditer(reading)):
            found[by_slug[match.group(1).lower()]] = None
    return tuple(found)


def references_of(event: Event, *ids: str) -> tuple[EventId, ...]:
    """Those that have the shape of another event's id, each once, at most `MAX_REFERENCES`."""
    found = dict.fromkeys(EventId(one) for one in ids if is_hex64(one) and one != event.id)
    return tuple(found)[:MAX_REFERENCES]


def group_of(event: Event) -> str:
    """The group (NIP-29) an event was sent to; "" outside groups."""
    return first_value(event, "h")[:MAX_TITLE]


def group_tags(address: Mapping[str, Any]) -> tuple[Tag, ...]:
    """The tag that keeps an answer inside the conversation's group, if it has one."""
    group = address.get("group")
    return (("h", str(group)),) if group else ()


def short_tag(*elements: str) -> Tag:
    """Make a tag without the empty elements at its end."""
    last = max((index for index, one in enumerate(elements) if one), default=-1)
    return elements[: last + 1]


@lru_cache(maxsize=8)  # the roster changes a few times in a daemon's life
def _slug_pattern(slugs: tuple[str, ...]) -> re.Pattern[str]:
    # Boundaries are ASCII on purpose: scripts written without spaces put a mention between letters. The character
    # before must not make it an address (mail, URL), that after it no package, host or path, and a longer slug wins
    # over a shorter one it begins with. Underscores around it are Markdown.
    names = "|".join(re.escape(slug) for slug in sorted(slugs, key=len, reverse=True))
    before = r"(?<![A-Za-z0-9_.@/+-])_{0,3}"
    after = r"(?![A-Za-z0-9]|_+[A-Za-z0-9]|[-./@][A-Za-z0-9])"
    return re.compile(rf"{before}@({names}){after}", re.IGNORECASE | re.ASCII)


def is_by_machine(event: Event) -> bool:
    """Whether its label says that an agent wrote it, also one of another daemon."""
    return any(tag[1] == "ai" for tag in tags_named(event, "l"))


def is_by_program(event: Event) -> bool:
    """Whether its label says that a program of a user wrote it with their key."""
    return any(tag[:3] == BY_PROGRAM for tag in tags_named(event, "l"))
