"""Direct messages: who wrote one, and the answer in the form it came in (NIP-04, NIP-17, NIP-44, NIP-59).

What they say is not read: a private message of kind 4 is never decrypted, and of a gift wrap only the author and the
date are taken. Everything here is from anybody; each function returns None for what it cannot read.
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

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tenex.core.errors import InvalidEvent
from tenex.core.ids import EventId, PublicKey

from .events import Event, event_id, is_genuine, parse_event, sign, to_wire, unsigned_event
from .filters import DIRECT_KINDS
from .keys import SecretKey
from .threading.base import tags_named

ENCRYPTED: Final = 4
"""NIP-04: its author is in the open."""
SEAL: Final = 13
CHAT: Final = 14
FILE: Final = 15
"""Both belong into wraps, and some programs publish them as they are."""
GIFT_WRAP: Final = 1059
EPHEMERAL_WRAP: Final = 21059
INBOX_RELAYS: Final = 10050
"""Where a user wants private messages sent (NIP-17)."""

WRAPS: Final = (GIFT_WRAP, EPHEMERAL_WRAP)
"""Signed by keys that are used once."""

_SPOKEN: Final = (1, ENCRYPTED, 9, CHAT, FILE, 444)
"""Kinds within a wrap that are written to be answered: not reactions, receipts or calls. 444 invites to a group."""

LARGEST: Final = 100_000
"""Characters of a wrap that is opened: NIP-44 takes 65,535 bytes of text, and a seal within a wrap less."""

_SALT: Final = b"nip44-v2"
_VERSION: Final = 2
_TWO_DAYS: Final = 2 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessage:
    """A message that was sent to one of our keys in private; not what it says."""

    event_id: EventId
    author: PublicKey
    written: int
    """Seconds, by the author's clock."""
    to: PublicKey
    is_wrapped: bool


def read_direct(event: Event, keys: Mapping[PublicKey, SecretKey]) -> DirectMessage | None:
    """Who wrote a genuine event of `DIRECT_KINDS` to one of these keys; None if it is no message or not signed."""
    to = next((PublicKey(tag[1]) for tag in tags_named(event, "p") if tag[1] in keys), None)
    if event.kind not in DIRECT_KINDS or to is None:
        return None
    author = event.pubkey
    written = event.created_at
    is_wrapped = event.kind != ENCRYPTED
    if event.kind in WRAPS:
        opened = _opened(event, keys[to])
        if opened is None:
            return None
        author, written = opened
    return DirectMessage(event_id=event.id, author=author, written=written, to=to, is_wrapped=is_wrapped)


def answer_to(message: DirectMessage, text: str, key: SecretKey, now: int) -> Event:
    """The answer in the form of the message, readable by its author only: a kind 4, else a kind 14 in a gift wrap."""
    to = [["p", message.author]]
    if not message.is_wrapped:
        content = nip04_encrypt(text, key.shared_secret(message.author))
        return sign(unsigned_event(key.public, now, ENCRYPTED, [*to, ["e", message.event_id]], content), key)
    rumor = {
        "id": event_id(key.public, now, CHAT, to, text),
        "pubkey": key.public,
        "created_at": now,
        "kind": CHAT,
        "tags": to,
        "content": text,
    }
    seal = _sealed(rumor, message.author, SEAL, [], key, now)
    return _sealed(to_wire(seal), message.author, GIFT_WRAP, to, SecretKey.generate(), now)


def _opened(wrap: Event, key: SecretKey) -> tuple[PublicKey, int] | None:
    """The author and the date of what is in a gift wrap; the seal's signature holds for it (NIP-59)."""
    if len(wrap.content) > LARGEST:
        return None
    with suppress(ValueError, InvalidEvent, RecursionError):
        seal = parse_event(json.loads(nip44_decrypt(wrap.content, key.shared_secret(wrap.pubkey))))
        if seal.kind != SEAL or not is_genuine(seal):
            return None
        rumor = json.loads(nip44_decrypt(seal.content, key.shared_secret(seal.pubkey)))
        if not isinstance(rumor, dict) or rumor.get("pubkey") != seal.pubkey or rumor.get("kind") not in _SPOKEN:
            return None
        written = rumor.get("created_at")
        return seal.pubkey, written if type(written) is int else seal.created_at
    return None


def _sealed(
    inner: Mapping[str, Any], to: PublicKey, kind: int, tags: list[list[str]], key: SecretKey, now: int
) -> Event:
    content = nip44_encrypt(json.dumps(inner, ensure_ascii=False), key.shared_secret(to))
    at = now - SystemRandom().randrange(_TWO_DAYS)  # as NIP-59 asks, so that dates connect no one
    return sign(unsigned_event(key.public, at, kind, tags, content), key)


def nip04_encrypt(text: str, shared: bytes) -> str:
    """Encrypt as NIP-04 has it: AES-256-CBC under the shared point itself."""
    start = os.urandom(16)
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(shared), modes.CBC(start)).encryptor()
    octets = encryptor.update(padder.update(text.encode()) + padder.finalize()) + encryptor.finalize()
    return f"{base64.b64encode(octets).decode()}?iv={base64.b64encode(start).decode()}"


def nip44_encrypt(text: str, shared: bytes) -> str:
    """Encrypt as NIP-44 version 2 has it.

    Raises:
        ValueError: the text is empty or longer than 65,535 bytes.
    """
    octets = text.encode()
    if not 0 < len(octets) < 65_536:
        raise ValueError(f"{len(octets)} bytes cannot be encrypted: NIP-44 takes 1 to 65535")
    nonce = os.urandom(32)
    cipher_key, cipher_nonce, mac_key = _message_keys(shared, nonce)
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
    cipher_key, cipher_nonce, mac_key = _message_keys(shared, nonce)
    if not hmac.compare_digest(mac, hmac.digest(mac_key, nonce + encrypted, hashlib.sha256)):
        raise ValueError("this was not encrypted for this key")
    padded = _chacha(encrypted, cipher_key, cipher_nonce)
    (length,) = struct.unpack(">H", padded[:2])
    if not length or len(padded) != 2 + _padded(length):
        raise ValueError("its padding is wrong")
    return padded[2 : 2 + length].decode()


def _message_keys(shared: bytes, nonce: bytes) -> tuple[bytes, bytes, bytes]:
    """HKDF (RFC 5869): the key of a conversation, and from it those of one message."""
    conversation = hmac.digest(_SALT, shared, hashlib.sha256)
    octets = b""
    block = b""
    for number in range(1, 4):
        block = hmac.digest(conversation, block + nonce + bytes([number]), hashlib.sha256)
        octets += block
    return octets[:32], octets[32:44], octets[44:76]


def _chacha(octets: bytes, key: bytes, nonce: bytes) -> bytes:
    cipher = Cipher(algorithms.ChaCha20(key, bytes(4) + nonce), mode=None).encryptor()
    return cipher.update(octets) + cipher.finalize()


def _padded(length: int) -> int:
    if length <= 32:
        return 32
    power = 1 << (length - 1).bit_length()
    chunk = 32 if power <= 256 else power // 8
    return chunk * ((length - 1) // chunk + 1)


def inbox_relays(event: Event, most: int) -> list[str]:
    """The first relays of a kind 10050."""
    return list(dict.fromkeys(tag[1] for tag in tags_named(event, "relay")))[:most]
