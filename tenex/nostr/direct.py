"""Direct messages as relays have them: opened, and made (NIP-04, NIP-17, NIP-44, NIP-59).

Everything here is from anybody; what is opened is None where it cannot be read or its author did not sign it.
"""

import base64
import hashlib
import hmac
import json
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import SystemRandom
from typing import Any, Final

from tenex.core.errors import InvalidEvent
from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent

from .deletions import DELETION
from .events import Event, event_id, is_genuine, parse_event, sign, to_wire, unsigned_event
from .filters import DIRECT_KINDS
from .keys import Key, SecretKey
from .reactions import REACTION
from .threading.base import is_hex64, tags_named
from .threading.direct import CHAT, ENCRYPTED
from .threading.files import FILE

SEAL: Final = 13
GIFT_WRAP: Final = 1059
EPHEMERAL_WRAP: Final = 21059

WRAPS: Final = (GIFT_WRAP, EPHEMERAL_WRAP)
"""Signed by keys that are used once."""

ENCRYPTION_KEY_TAG: Final = "n"
"""Of a seal and of a kind 10044: the key that its author encrypts with, and is written to (NIP-4E)."""

UNSIGNED: Final = "0" * 128
"""In place of the signature of what was in a seal: the seal's counts for it."""

_ACTS: Final = (CHAT, FILE, ENCRYPTED, REACTION, DELETION)
"""Kinds that are read."""
_SPOKEN: Final = (1, 9, 444)
"""Kinds within a wrap that are written to be answered, and not read: not receipts or calls. 444 invites to a group."""

LARGEST: Final = 100_000
"""Characters of a wrap that is opened: NIP-44 takes 65,535 bytes of text, and a seal within a wrap less."""

_SALT: Final = b"nip44-v2"
_VERSION: Final = 2
_TWO_DAYS: Final = 2 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessage:
    """What a direct message holds, of one of our keys."""

    event: Event
    """As its author wrote it, its text in plain; what was in a wrap has no signature of its own."""
    to: PublicKey
    """Our key."""
    is_wrapped: bool
    """Whether an answer is wrapped too; else it is a kind 4."""
    encryption_key: PublicKey | None = None
    """The key for which its author's client wants to be written, where it is not the author's own."""

    @property
    def author(self) -> PublicKey:
        """Who signed it, or its seal."""
        return self.event.pubkey

    @property
    def is_read(self) -> bool:
        """Whether it is a text, a file, a reaction or a deletion."""
        return self.event.kind in _ACTS


def read_direct(event: Event, keys: Mapping[PublicKey, Key]) -> DirectMessage | None:
    """Open a genuine event of `DIRECT_KINDS` to one of these keys; None if it is no message or not signed.

    One to a key that a remote signer holds is not read: any stranger could have the signer decrypt thousands.
    """
    to = next((PublicKey(tag[1]) for tag in tags_named(event, "p") if tag[1] in keys), None)
    key = keys[to] if to is not None else None
    if event.kind not in DIRECT_KINDS or to is None or not isinstance(key, SecretKey):
        return None
    opened: Event | None = event
    encryption_key: PublicKey | None = None
    if event.kind in WRAPS:
        opened, encryption_key = _opened(event, key) or (None, None)
    elif event.kind == ENCRYPTED:
        opened = _decrypted(event, key)
    if opened is None:
        return None
    if not any(tag[1] == to for tag in tags_named(opened, "p")):  # some clients leave the tags out within a wrap
        opened = opened.model_copy(update={"tags": (*opened.tags, ("p", to))})
    return DirectMessage(event=opened, to=to, is_wrapped=event.kind != ENCRYPTED, encryption_key=encryption_key)


def answer_to(message: DirectMessage, text: str, key: SecretKey, now: int) -> UnsignedEvent:
    """An answer that belongs to no conversation, in the form of the message and readable in the client it came from."""
    to: tuple[tuple[str, ...], ...] = (("p", message.author),)
    if not message.is_wrapped:
        tags = (*to, ("e", message.event.id))
        return encrypted(unsigned_event(key.public, now, ENCRYPTED, tags, text), key)
    return wrapped(unsigned_event(key.public, now, CHAT, to, text), message.author, key, message.encryption_key)


def encrypted(event: UnsignedEvent, key: SecretKey) -> UnsignedEvent:
    """A kind 4 in plain text, encrypted for the first person it names."""
    to = PublicKey(next(tag[1] for tag in event.tags if tag[0] == "p"))
    content = nip04_encrypt(event.content, key.shared_secret(to))
    return unsigned_event(event.pubkey, event.created_at, event.kind, event.tags, content)


def wrapped(
    rumor: UnsignedEvent, to: PublicKey, key: SecretKey, encryption_key: PublicKey | None = None
) -> UnsignedEvent:
    """A message sealed by its author's key and wrapped for one reader, signed by a key that is used once.

    With `encryption_key` it is encrypted for that key of the reader (NIP-4E).
    """
    inner = {
        "id": rumor.id,
        "pubkey": rumor.pubkey,
        "created_at": rumor.created_at,
        "kind": rumor.kind,
        "tags": [list(tag) for tag in rumor.tags],
        "content": rumor.content,
    }
    reader = encryption_key or to
    seal_tags = [] if reader == to else [[ENCRYPTION_KEY_TAG, key.public]]
    seal = _sealed(inner, reader, SEAL, seal_tags, key, rumor.created_at)
    once = SecretKey.generate()
    # clients ask relays for the person's own key, and some relays refuse a wrap that names two
    wrap = _sealed(to_wire(seal), reader, GIFT_WRAP, [["p", to]], once, rumor.created_at)
    return UnsignedEvent(
        id=wrap.id,
        pubkey=wrap.pubkey,
        created_at=wrap.created_at,
        kind=wrap.kind,
        tags=wrap.tags,
        content=wrap.content,
        sig=wrap.sig,
    )


def finished(event: UnsignedEvent) -> Event | None:
    """An event that was signed when it was made; None unless it is a wrap with a good id and signature."""
    with suppress(InvalidEvent):
        whole = parse_event(
            {
                "id": event.id,
                "pubkey": event.pubkey,
                "created_at": event.created_at,
                "kind": event.kind,
                "tags": event.tags,
                "content": event.content,
                "sig": event.sig,
            }
        )
        if whole.kind in WRAPS and is_genuine(whole):
            return whole
    return None


def _opened(wrap: Event, key: SecretKey) -> tuple[Event, PublicKey | None] | None:
    """What is in a gift wrap, and the key of its author that encrypted it where that is another than who signed.

    The seal's signature holds for both (NIP-59, NIP-4E).
    """
    if len(wrap.content) > LARGEST:
        return None
    with suppress(ValueError, InvalidEvent, RecursionError):
        seal = parse_event(json.loads(nip44_decrypt(wrap.content, key.shared_secret(wrap.pubkey))))
        if seal.kind != SEAL or not is_genuine(seal):
            return None
        named = next((PublicKey(tag[1]) for tag in tags_named(seal, ENCRYPTION_KEY_TAG) if is_hex64(tag[1])), None)
        encryption_key = named if named != seal.pubkey else None
        rumor = json.loads(nip44_decrypt(seal.content, key.shared_secret(encryption_key or seal.pubkey)))
        if not isinstance(rumor, dict):
            return None
        opened = parse_event({**_with_id(rumor), "sig": UNSIGNED})
        is_kind = opened.kind != ENCRYPTED and opened.kind in (*_ACTS, *_SPOKEN)
        return (opened, encryption_key) if opened.pubkey == seal.pubkey and is_kind else None
    return None


def _with_id(rumor: dict[str, Any]) -> dict[str, Any]:
    """A message with its id, which some clients leave out."""
    if rumor.get("id"):
        return rumor
    with suppress(KeyError, TypeError):
        fields = (rumor["pubkey"], rumor["created_at"], rumor["kind"], rumor["tags"], rumor["content"])
        return {**rumor, "id": event_id(*fields)}
    raise InvalidEvent("a message without an id lacks other fields too")


def _decrypted(event: Event, key: SecretKey) -> Event | None:
    """A kind 4 with its text in plain, to the one key that can read it."""
    if len(event.content) > LARGEST:
        return None
    with suppress(ValueError):
        text = nip04_decrypt(event.content, key.shared_secret(event.pubkey))
        tags = (*(tag for tag in event.tags if tag[:1] != ("p",)), ("p", key.public))
        return event.model_copy(update={"content": text, "tags": tags})
    return None


def _sealed(
    inner: Mapping[str, Any], to: PublicKey, kind: int, tags: list[list[str]], key: SecretKey, now: int
) -> Event:
    text = json.dumps(inner, ensure_ascii=False, separators=(",", ":"))
    content = nip44_encrypt(text, key.shared_secret(to))
    at = max(0, now - SystemRandom().randrange(_TWO_DAYS))  # as NIP-59 asks, so that dates connect no one
    return sign(unsigned_event(key.public, at, kind, tags, content), key)


def nip04_encrypt(text: str, shared: bytes) -> str:
    """Encrypt as NIP-04 has it: AES-256-CBC under the shared point itself."""
    from cryptography.hazmat.primitives import padding
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    start = os.urandom(16)
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(shared), modes.CBC(start)).encryptor()
    octets = encryptor.update(padder.update(text.encode()) + padder.finalize()) + encryptor.finalize()
    return f"{base64.b64encode(octets).decode()}?iv={base64.b64encode(start).decode()}"


def nip04_decrypt(payload: str, shared: bytes) -> str:
    """Decrypt NIP-04, which cannot show whether the text was changed.

    Raises:
        ValueError: it has another form, or is not for this key.
    """
    from cryptography.hazmat.primitives import padding
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    content, _, start = payload.partition("?iv=")
    octets = base64.b64decode(content, validate=True)
    decryptor = Cipher(algorithms.AES(shared), modes.CBC(base64.b64decode(start, validate=True))).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    padded = decryptor.update(octets) + decryptor.finalize()
    return (unpadder.update(padded) + unpadder.finalize()).decode()


def nip44_encrypt(text: str, shared: bytes) -> str:
    """Encrypt as NIP-44 version 2 has it.

    Raises:
        ValueError: the text is empty or longer than 65,535 bytes.
    """
    octets = text.encode()
    if not 0 < len(octets) < 65_536:
        raise ValueError(f"{len(octets)} bytes cannot be encrypted: NIP-44 takes 1 to 65535")
    nonce = os.urandom(32)
    cipher_key, cipher_nonce, mac_key = _message_keys(_conversation_key(shared), nonce)
    padded = struct.pack(">H", len(octets)) + octets.ljust(_padded(len(octets)), b"\0")
    encrypted = _chacha(padded, cipher_key, cipher_nonce)
    mac = hmac.digest(mac_key, nonce + encrypted, hashlib.sha256)
    return base64.b64encode(bytes([_VERSION]) + nonce + encrypted + mac).decode()


def nip44_decrypt(payload: str, shared: bytes) -> str:
    """Decrypt NIP-44 version 2.

    Raises:
        ValueError: it is of another version, was changed, or is not for this key.
    """
    data = base64.b64decode(payload, validate=True)
    if len(data) < 99 or data[0] != _VERSION:
        raise ValueError("this is not encrypted by version 2 of NIP-44")
    nonce = data[1:33]
    encrypted = data[33:-32]
    mac = data[-32:]
    cipher_key, cipher_nonce, mac_key = _message_keys(_conversation_key(shared), nonce)
    if not hmac.compare_digest(mac, hmac.digest(mac_key, nonce + encrypted, hashlib.sha256)):
        raise ValueError("this was not encrypted for this key")
    padded = _chacha(encrypted, cipher_key, cipher_nonce)
    (length,) = struct.unpack(">H", padded[:2])
    if not length or len(padded) != 2 + _padded(length):
        raise ValueError("its padding is wrong")
    return padded[2 : 2 + length].decode()


def _conversation_key(shared: bytes) -> bytes:
    """HKDF-extract (RFC 5869)."""
    return hmac.digest(_SALT, shared, hashlib.sha256)


def _message_keys(conversation: bytes, nonce: bytes) -> tuple[bytes, bytes, bytes]:
    """HKDF-expand: the keys of one message."""
    octets = b""
    block = b""
    for number in range(1, 4):
        block = hmac.digest(conversation, block + nonce + bytes([number]), hashlib.sha256)
        octets += block
    return octets[:32], octets[32:44], octets[44:76]


def _chacha(octets: bytes, key: bytes, nonce: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(key, bytes(4) + nonce), mode=None).encryptor()
    return cipher.update(octets) + cipher.finalize()


def _padded(length: int) -> int:
    if length <= 32:
        return 32
    power = 1 << (length - 1).bit_length()
    chunk = 32 if power <= 256 else power // 8
    return chunk * ((length - 1) // chunk + 1)
