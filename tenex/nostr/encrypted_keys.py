"""Secret keys encrypted with a password (NIP-49): 91 bytes that other programs read as `ncryptsec1` text.

`cryptography` has ChaCha20-Poly1305 with a nonce of 12 bytes, and NIP-49 asks for XChaCha20-Poly1305 with 24. The
difference is HChaCha20 (draft-irtf-cfrg-xchacha): from the key and 16 bytes of the nonce it derives the key for the
remaining 8. It is the ChaCha20 block without the last addition, so it is computed here from a block of `cryptography`,
by subtracting what was added; no round of the cipher is written here.
"""

import hashlib
import os
import struct
import unicodedata
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

LOG_N: Final = 16
"""The work of scrypt that other programs choose too: 64 MiB and about 0.2 s."""
_MOST_LOG_N: Final = 20
"""1 GiB; a key from elsewhere names its own work, which must not take all memory. OpenSSL takes less than 2 GiB."""

_VERSION: Final = 2
_SALT: Final = 16
_NONCE: Final = 24
_LENGTH: Final = 2 + _SALT + _NONCE + 1 + 32 + 16
_STORED_UNENCRYPTED: Final = b"\x00"
"""The byte for keys that were stored unencrypted, as those of the keys folder are."""

_CONSTANTS: Final = struct.unpack("<4L", b"expand 32-byte k")


def encrypt_secret(secret: bytes, password: str, log_n: int = LOG_N) -> bytes:
    """Encrypt the 32 bytes of a secret key; `log_n` is the work of scrypt, as a power of two."""
    salt = os.urandom(_SALT)
    nonce = os.urandom(_NONCE)
    key = _derived_key(password, salt, log_n)
    encrypted = xchacha20_poly1305_encrypt(key, nonce, secret, _STORED_UNENCRYPTED)
    return bytes([_VERSION, log_n]) + salt + nonce + _STORED_UNENCRYPTED + encrypted


def decrypt_secret(payload: bytes, password: str) -> bytes:
    """Decrypt what `encrypt_secret`, or another program, has made of a secret key.

    Raises:
        ValueError: the password is wrong, or this is not a key of NIP-49.
    """
    if len(payload) != _LENGTH or payload[0] != _VERSION:
        raise ValueError("this is not an encrypted key of NIP-49, version 2")
    log_n = payload[1]
    if not 0 < log_n <= _MOST_LOG_N:
        raise ValueError(f"its password check takes 2^{log_n} steps; at most 2^{_MOST_LOG_N} are possible here")
    salt, nonce, security, encrypted = _split(payload)
    try:
        return xchacha20_poly1305_decrypt(_derived_key(password, salt, log_n), nonce, encrypted, security)
    except InvalidTag:
        raise ValueError("the password is wrong, or the key is damaged") from None


def _split(payload: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The salt, the nonce, the byte on the key's security, and the encrypted key."""
    nonce_at = 2 + _SALT
    security_at = nonce_at + _NONCE
    return payload[2:nonce_at], payload[nonce_at:security_at], payload[security_at : security_at + 1], payload[-48:]


def _derived_key(password: str, salt: bytes, log_n: int) -> bytes:
    octets = unicodedata.normalize("NFKC", password).encode()
    memory = 128 * 8 * 2**log_n
    return hashlib.scrypt(octets, salt=salt, n=2**log_n, r=8, p=1, maxmem=memory + 2**20, dklen=32)


def xchacha20_poly1305_encrypt(key: bytes, nonce: bytes, data: bytes, associated: bytes) -> bytes:
    """Encrypt and authenticate with a nonce of 24 bytes."""
    return ChaCha20Poly1305(hchacha20(key, nonce[:16])).encrypt(_short(nonce), data, associated)


def xchacha20_poly1305_decrypt(key: bytes, nonce: bytes, data: bytes, associated: bytes) -> bytes:
    """Decrypt; raises InvalidTag where it is not authentic."""
    return ChaCha20Poly1305(hchacha20(key, nonce[:16])).decrypt(_short(nonce), data, associated)


def _short(nonce: bytes) -> bytes:
    return bytes(4) + nonce[16:]


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """Derive a key of 32 bytes from a key of 32 and a nonce of 16."""
    block = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64))
    words = struct.unpack("<16L", block)
    first = [(word - added) % 2**32 for word, added in zip(words[:4], _CONSTANTS, strict=True)]
    last = [(word - added) % 2**32 for word, added in zip(words[12:], struct.unpack("<4L", nonce), strict=True)]
    return struct.pack("<8L", *first, *last)
