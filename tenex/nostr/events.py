"""Events as NIP-01 has them: read strictly, identified, signed, verified.

`parse_event` is the only way in for received events: an `Event` always has the right shape and an id that is its hash.
The signature is checked separately (`is_genuine`): that costs ten times as much and is not needed for duplicates.
"""

import json.encoder
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, Final

from coincurve import PublicKeyXOnly
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from tenex.core.errors import InvalidEvent
from tenex.core.ids import EventId, PublicKey
from tenex.core.ports import UnsignedEvent

from .keys import Key, SecretKey

MAX_EVENT_BYTES: Final = 1024 * 1024
"""The largest event that is accepted; relays accept 64 or 128 KiB."""

MAX_TAGS: Final = 2000
"""strfry's limit; no honest client comes near it."""

MAX_SECONDS: Final = 2**53
"""Every JSON reader agrees on integers up to here."""

_quoted = json.encoder.encode_basestring
"""How `json.dumps(..., ensure_ascii=False)` writes a string; building the array around it by hand halves the cost."""

_Tag = Annotated[tuple[str, ...], Strict(False)]  # lax about list or tuple only; the strings stay strict


class Event(BaseModel):
    """A signed event of the right shape. It holds what was signed; fields NIP-01 does not name are dropped."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)

    id: Annotated[EventId, Field(pattern=r"^[0-9a-f]{64}$")]
    pubkey: Annotated[PublicKey, Field(pattern=r"^[0-9a-f]{64}$")]
    created_at: Annotated[int, Field(ge=0, le=MAX_SECONDS)]
    """Seconds, by the author's clock."""
    kind: Annotated[int, Field(ge=0, le=65535)]
    tags: Annotated[tuple[_Tag, ...], Strict(False), Field(max_length=MAX_TAGS)]
    content: str
    sig: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


def event_id(pubkey: str, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str) -> EventId:
    """Hash an event's content the way the libraries do, which is NIP-01 with C0 controls escaped as JSON escapes them.

    Raises:
        InvalidEvent: a string holds half of a surrogate pair and so has no UTF-8.
    """
    return EventId(sha256(_serialise(pubkey, created_at, kind, tags, content)).hexdigest())


def unsigned_event(
    pubkey: PublicKey, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str
) -> UnsignedEvent:
    """Make an event with its id, to be signed at any later time."""
    return UnsignedEvent(
        id=event_id(pubkey, created_at, kind, tags, content),
        pubkey=pubkey,
        created_at=created_at,
        kind=kind,
        tags=tuple(tuple(tag) for tag in tags),
        content=content,
    )


_TYPES: Final = {"id": str, "pubkey": str, "created_at": int, "kind": int, "tags": list, "content": str, "sig": str}
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


def event_fields(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields that NIP-01 names, if each has its type; None otherwise.

    The result takes at most ten times the memory of its text, and can be sorted by date and id.
    """
    fields = {name: raw.get(name) for name in _TYPES}
    for name, kind in _TYPES.items():
        if type(fields[name]) is not kind:
            return None
    if not _HEX64.fullmatch(raw["id"]) or not 0 <= raw["created_at"] <= MAX_SECONDS or len(raw["tags"]) > MAX_TAGS:
        return None
    for tag in raw["tags"]:
        if type(tag) is not list or not all(type(element) is str for element in tag):
            return None
    return fields


def parse_event(obj: object) -> Event:
    """Read an event from decoded JSON; its signature is not checked.

    Raises:
        InvalidEvent: a field has the wrong shape, the id is not the hash, or it is too large. The sentence names
            the field, never what it held.
    """
    if not isinstance(obj, dict):
        raise InvalidEvent(f"an event must be a JSON object, not {type(obj).__name__}")
    if not isinstance(obj.get("tags"), (list, tuple)):  # the model's tuple would take a set or a generator too
        raise InvalidEvent("tags: an event's tags must be an array of arrays of strings")
    try:
        event = Event.model_validate(obj)
    except ValidationError as fault:
        # names the rule, never the input
        first = fault.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "event"
        raise InvalidEvent(f"{where}: {first['msg']}") from None
    serialised = _serialise(event.pubkey, event.created_at, event.kind, event.tags, event.content)
    if len(serialised) > MAX_EVENT_BYTES:
        raise InvalidEvent(f"the event is larger than {MAX_EVENT_BYTES} bytes")
    if sha256(serialised).hexdigest() != event.id:
        raise InvalidEvent("id: it is not the hash of the event")
    return event


def is_genuine(event: Event) -> bool:
    """Whether the author signed this id; False for a key that is not a point on the curve."""
    return has_signed(event.pubkey, event.sig, bytes.fromhex(event.id))


def has_signed(pubkey: PublicKey, signature: str, digest: bytes) -> bool:
    """Whether a key has signed 32 bytes (BIP-340, in hex); False for a key that is not a point on the curve."""
    try:
        return bool(_verifier(pubkey).verify(bytes.fromhex(signature), digest))
    except ValueError:
        return False


def sign(unsigned: UnsignedEvent, key: SecretKey) -> Event:
    """Sign without randomness: the same event and key always give the same bytes.

    Raises:
        ValueError: the key is not the author's, or the id is not the event's hash.
    """
    if unsigned.pubkey != key.public:
        raise ValueError(f"event {unsigned.id} is by {unsigned.pubkey}; the key given is {key.public}'s")
    true_id = event_id(unsigned.pubkey, unsigned.created_at, unsigned.kind, unsigned.tags, unsigned.content)
    if true_id != unsigned.id:
        raise ValueError(f"event {unsigned.id} does not have the id of its content, {true_id}")
    return Event(
        id=unsigned.id,
        pubkey=unsigned.pubkey,
        created_at=unsigned.created_at,
        kind=unsigned.kind,
        tags=unsigned.tags,
        content=unsigned.content,
        sig=key.sign_digest(bytes.fromhex(unsigned.id)),
    )


Sign = Callable[[UnsignedEvent, Key], Awaitable[Event]]
"""Signs as `sign` does; with a key that a remote signer holds it may take long."""


async def sign_here(unsigned: UnsignedEvent, key: Key) -> Event:
    """Sign with a key that is here.

    Raises:
        ValueError: as for `sign`, or a remote signer holds the key.
    """
    if isinstance(key, SecretKey):
        return sign(unsigned, key)
    raise ValueError(f"a remote signer holds the key {key.npub}, and is not asked here")


def to_wire(event: Event) -> dict[str, Any]:
    """The JSON object that a relay takes."""
    return {
        "id": event.id,
        "pubkey": event.pubkey,
        "created_at": event.created_at,
        "kind": event.kind,
        "tags": [list(tag) for tag in event.tags],
        "content": event.content,
        "sig": event.sig,
    }


def _serialise(pubkey: str, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str) -> bytes:
    written = ",".join([f"[{','.join(map(_quoted, tag))}]" for tag in tags])
    try:
        return f"[0,{_quoted(pubkey)},{created_at},{kind},[{written}],{_quoted(content)}]".encode()
    except UnicodeEncodeError:
        raise InvalidEvent("content or tags: half of a surrogate pair cannot be written as UTF-8") from None


@lru_cache(maxsize=4096)  # about 1 MB; a busy daemon receives from fewer authors than this in an hour
def _verifier(pubkey: str) -> PublicKeyXOnly:
    return PublicKeyXOnly(bytes.fromhex(pubkey))
