"""Profiles: kind 0 (name and description), 10002 (relays, NIP-65), 10050 (inbox relays, NIP-17), 10044 (key, NIP-4E).

Those of our keys are made here, and those of users are read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.core.text.foreign import INVISIBLE
from tenex.nostr.threading.base import Tag, is_hex64, tags_named
from tenex.nostr.threading.split import clean_text, clip

from .attestations import AUTH, holds_for
from .events import Event, unsigned_event
from .identicon import identicon
from .urls import normalise_url

METADATA: Final = 0
RELAY_LIST: Final = 10002
"""Where someone reads and writes."""
INBOX_RELAYS: Final = 10050
"""Where someone wants private messages sent."""
ENCRYPTION_KEY: Final = 10044
"""The key that private messages are encrypted for: some clients write only to who has named one."""
PROFILE_KINDS: Final = (METADATA, RELAY_LIST, INBOX_RELAYS, ENCRYPTION_KEY)
_TAG_OF: Final = {RELAY_LIST: "r", INBOX_RELAYS: "relay", ENCRYPTION_KEY: "n"}
AGENT: Final = "agent"
"""The tag by which a project lists its agents, here and in its status (kind 24010)."""
MAX_NAME_BYTES: Final = 256
"""Of UTF-8, for a published name: a profile lists the names of all agents, and relays refuse events above 64 KiB."""
MAX_ABOUT_BYTES: Final = 8 * 1024
_NAME_KEYS: Final = ("name", "display_name", "displayName", "username")
"""NIP-24 has the first two; clients have written the others."""
NAME_CHARACTERS: Final = 40
"""Of a user's name, which is shown before every message in prompts and on screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The public profile of one of the project's keys."""

    pubkey: PublicKey
    name: str
    about: str = ""
    agents: tuple[tuple[PublicKey, str], ...] = ()
    """The keys and names of a project's agents, so that clients recognize them."""
    attestation: Tag = ()
    """The tag by which an owner has attested the key (NIP-OA)."""
    reads_direct: bool = True
    """Whether private messages to it are read; else no relays are published where it would look for them."""


PublishedProfile = Event | UnsignedEvent
"""An event that is known to be published."""


def profile_events(
    identities: Sequence[Identity],
    relays: Sequence[str],
    now: int,
    known: Mapping[tuple[PublicKey, int], PublishedProfile],
) -> list[UnsignedEvent]:
    """Make the profile events that differ from what is known to be published.

    Fields of a kind 0 of other origin (a NIP-05 name, a lightning address, a picture) stay as they are. `created_at` is
    later than the known event's, because relays keep only the latest.

    Args:
        identities: the project and the agents.
        relays: the URLs to announce; with none, no relay list is published or withdrawn.
        now: seconds.
        known: the latest event of each key and kind.

    Raises:
        ValueError: one of the relays is not a relay URL.
    """
    urls = list(dict.fromkeys(normalise_url(relay) for relay in relays))
    events: list[UnsignedEvent] = []
    for identity in identities:
        last = known.get((identity.pubkey, METADATA))
        fields = _fields(last)
        before = last.tags if last is not None else ()
        name = clip(identity.name, MAX_NAME_BYTES)
        about = clip(identity.about, MAX_ABOUT_BYTES)
        picture = fields.get("picture") or identicon(identity.pubkey)
        wanted = {**fields, "name": name, "about": about, "picture": picture, "bot": True, "is_agent": True}
        is_attested = bool(identity.attestation) and holds_for(identity.attestation, METADATA, now)
        replaced = (AGENT, AUTH) if is_attested else (AGENT,)  # two tags `auth` would count as none
        tags = (
            *(tag for tag in before if tag and tag[0] not in replaced),
            *((identity.attestation,) if is_attested else ()),
            *((AGENT, key, clip(name, MAX_NAME_BYTES)) for key, name in identity.agents),
        )
        if wanted != fields or tags != before or last is None:
            content = json.dumps(wanted, ensure_ascii=False, separators=(",", ":"))
            events.append(unsigned_event(identity.pubkey, _later(now, last), METADATA, tags, content))
        for kind, tag_name in _TAG_OF.items():
            if kind == INBOX_RELAYS and not identity.reads_direct:
                continue
            last = known.get((identity.pubkey, kind))
            values = [str(identity.pubkey)] if kind == ENCRYPTION_KEY else urls
            listed = tuple((tag_name, value) for value in values) if urls else ()
            if listed and (last is None or {tag for tag in last.tags if tag and tag[0] == tag_name} != set(listed)):
                events.append(unsigned_event(identity.pubkey, _later(now, last), kind, listed, ""))
    return events


def _fields(last: PublishedProfile | None) -> dict[str, Any]:
    """Read the fields of a kind 0; empty if its content is not a JSON object."""
    if last is None:
        return {}
    try:
        fields = json.loads(last.content)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _later(now: int, last: PublishedProfile | None) -> int:
    return now if last is None else max(now, last.created_at + 1)


def inbox_relays(event: Event) -> list[str]:
    """The relays of a kind 10050, or those of a kind 10002 that its author reads."""
    if event.kind == INBOX_RELAYS:
        listed = (tag[1] for tag in tags_named(event, "relay"))
    else:
        listed = (tag[1] for tag in tags_named(event, "r") if len(tag) < 3 or tag[2] in ("", "read"))
    return list(dict.fromkeys(listed))


def encryption_key_in(event: Event) -> PublicKey | None:
    """The key that a kind 10044 names."""
    return next((PublicKey(tag[1]) for tag in tags_named(event, _TAG_OF[ENCRYPTION_KEY]) if is_hex64(tag[1])), None)


def agents_in(event: PublishedProfile) -> list[PublicKey]:
    """The agents that a project's kind 0 or 24010 lists."""
    return [PublicKey(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == AGENT]


def name_in(event: PublishedProfile) -> str:
    """The author's name in a kind 0, on one line, without invisible characters, shortened; empty if there is none."""
    fields = _fields(event)
    for key in _NAME_KEYS:
        name = fields.get(key)
        if isinstance(name, str) and (shown := " ".join(INVISIBLE.sub("", clean_text(name)).split())):
            return shown[:NAME_CHARACTERS]
    return ""
