"""Files of direct messages, encrypted with AES-GCM (NIP-17, kind 15): a server stores bytes that it cannot read.

Each file has a key and a nonce of its own, which are only in the sealed message. The tag of AES-GCM follows the
encrypted bytes, as in other programs.
"""

import base64
import binascii
import os
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ALGORITHM: Final = "aes-gcm"
"""The value of the tag `encryption-algorithm`; the only one that is written and read."""

OVERHEAD: Final = 16
"""Bytes by which an encrypted file is larger: the tag that shows a change."""

_KEY_LENGTHS: Final = (16, 24, 32)
_NONCE_LENGTHS: Final = range(8, 33)
"""Bytes: 12 are usual, and some clients write 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedFile:
    """An encrypted file, with what its reader needs."""

    key: str
    """Hexadecimal, as the tag `decryption-key` has it."""
    nonce: str
    """Hexadecimal, as the tag `decryption-nonce` has it."""
    data: bytes
    """What is uploaded."""
    x: str
    """The SHA-256 of what is uploaded, in hexadecimal."""
    ox: str
    """The SHA-256 of the file before it was encrypted."""


def encrypt(data: bytes) -> EncryptedFile:
    """Encrypt a file with a new key and a new nonce."""
    key = os.urandom(32)
    nonce = os.urandom(12)
    return encrypt_with(data, key, nonce)


def encrypt_with(data: bytes, key: bytes, nonce: bytes) -> EncryptedFile:
    """Encrypt a file once more with the key that was made for it: the same bytes as before."""
    encrypted = AESGCM(key).encrypt(nonce, data, None)
    return EncryptedFile(
        key=key.hex(),
        nonce=nonce.hex(),
        data=encrypted,
        x=sha256(encrypted).hexdigest(),
        ox=sha256(data).hexdigest(),
    )


def decrypt(data: bytes, key: str, nonce: str) -> bytes:
    """Decrypt a file with the values of the tags `decryption-key` and `decryption-nonce`: hexadecimal or Base64.

    Raises:
        ValueError: the key or the nonce is malformed, or this is not the file that they belong to.
    """
    key_bytes = _octets(key, "decryption-key")
    nonce_bytes = _octets(nonce, "decryption-nonce")
    if len(key_bytes) not in _KEY_LENGTHS:
        raise ValueError(f"decryption-key: it has {len(key_bytes)} bytes; aes-gcm takes 16, 24 or 32")
    if len(nonce_bytes) not in _NONCE_LENGTHS:
        raise ValueError(f"decryption-nonce: it has {len(nonce_bytes)} bytes; 8 to 32 are read")
    try:
        return AESGCM(key_bytes).decrypt(nonce_bytes, data, None)
    except InvalidTag:
        raise ValueError("the file is damaged, or its key is another") from None


def _octets(text: str, tag: str) -> bytes:
    """The bytes that a tag holds: hexadecimal where it can be read so, else Base64."""
    if not text.isascii() or len(text) > 2 * 64:
        raise ValueError(f"{tag}: it is neither hexadecimal nor Base64")
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{tag}: it is neither hexadecimal nor Base64") from None
