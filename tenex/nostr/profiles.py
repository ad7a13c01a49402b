"""What each key of ours says of itself: kind 0 (who it is) and kind 10002 (where it reads and writes, NIP-65)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.nostr.threading.split import clean_text

from .events import unsigned_event
from .urls import normalise_url

METADATA: Final = 0
RELAY_LIST: Final = 10002
PROFILE_KINDS: Final = (METADATA, RELAY_LIST)
AGENT: Final = "agent"
"""The tag by which a project names those who speak for it, here and in its status (kind 24010)."""
NAME_CHARACTERS: Final = 40
"""Of a person's name: it stands before every message in prompts and on screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A key of ours as people are to see it."""

    pubkey: PublicKey
    name: str
    about: str = ""
    picture: str = ""
    """A url; empty leaves a picture that somebody set by hand."""
    agents: tuple[tuple[PublicKey, str], ...] = ()
    """The keys and names that speak for a project, so that clients can tell them from strangers."""


class Published(Protocol):
    """What is known of an event that was published; an `Event` and an `UnsignedEvent` are both such."""

    @property
    def created_at(self) -> int:
        """Seconds."""
        ...

    @property
    def tags(self) -> tuple[tuple[str, ...], ...]:
        """As NIP-01 has them."""
        ...

    @property
    def content(self) -> str:
        """As it was signed."""
        ...


def profile_events(
    identities: Sequence[Identity], relays: Sequence[str], now: int, known: Mapping[tuple[PublicKey, int], Published]
) -> list[UnsignedEvent]:
    """Make the profile events that differ from what is known to be published.

    Fields of a kind 0 that are not ours (a NIP-05 name, a lightning address) stay as they are. `created_at` is later
    than the known event's, because relays keep only the latest.

    Args:
        identities: the project and the agents.
        relays: the urls to announce; none announces nothing and withdraws nothing.
        now: seconds.
        known: the latest event of each key and kind.

    Raises:
        ValueError: one of the relays is no relay url.
    """
    listed = tuple(("r", url) for url in dict.fromkeys(normalise_url(relay) for relay in relays))
    events: list[UnsignedEvent] = []
    for identity in identities:
        last = known.get((identity.pubkey, METADATA))
        fields, before = _fields(last), last.tags if last is not None else ()
        wanted = {**fields, **_described(identity)}
        tags = (
            *(tag for tag in before if tag and tag[0] != AGENT),
            *((AGENT, key, clean_text(name)) for key, name in identity.agents),
        )
        if wanted != fields or tags != before or last is None:
            content = json.dumps(wanted, ensure_ascii=False, separators=(",", ":"))
            events.append(unsigned_event(identity.pubkey, _later(now, last), METADATA, tags, content))
        last = known.get((identity.pubkey, RELAY_LIST))
        if listed and (last is None or _relay_tags(last) != set(listed)):
            events.append(unsigned_event(identity.pubkey, _later(now, last), RELAY_LIST, listed, ""))
    return events


def _described(identity: Identity) -> dict[str, Any]:
    """Write down an identity as NIP-01 and NIP-24 do."""
    about = {"name": clean_text(identity.name), "about": clean_text(identity.about), "bot": True}
    return {**about, "picture": clean_text(identity.picture)} if identity.picture else about


def _fields(last: Published | None) -> dict[str, Any]:
    """Read the fields of a kind 0; what is no JSON object is replaced as if it held none."""
    if last is None:
        return {}
    try:
        fields = json.loads(last.content)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _relay_tags(last: Published) -> set[tuple[str, ...]]:
    return {tag for tag in last.tags if tag and tag[0] == "r"}


def _later(now: int, last: Published | None) -> int:
    return now if last is None else max(now, last.created_at + 1)


def agents_in(event: Published) -> list[PublicKey]:
    """The keys that a project's kind 0 or 24010 names as its agents'."""
    return [PublicKey(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == AGENT]


def name_in(event: Published) -> str:
    """What the author of a kind 0 calls themselves, on one line and short; empty if they do not say."""
    name = _fields(event).get("name")
    return " ".join(clean_text(name).split())[:NAME_CHARACTERS] if isinstance(name, str) else ""
