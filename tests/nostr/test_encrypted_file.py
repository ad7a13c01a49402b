"""Files of NIP-17: what is encrypted here is decrypted by a plain AES-GCM, and what is not the file is refused."""

import base64
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tenex.nostr.encrypted_file import OVERHEAD, decrypt, encrypt, encrypt_with

FILE = b"\x89PNG\r\n" + bytes(range(256)) * 40


def test_a_file_is_decrypted_by_another_aes_gcm() -> None:
    encrypted = encrypt(FILE)
    body = encrypted.data[:-16]
    tag = encrypted.data[-16:]
    mode = modes.GCM(bytes.fromhex(encrypted.nonce), tag)
    reader = Cipher(algorithms.AES(bytes.fromhex(encrypted.key)), mode).decryptor()
    assert reader.update(body) + reader.finalize() == FILE


def test_it_is_decrypted_with_its_tags_and_its_hashes_are_those_of_both_forms() -> None:
    encrypted = encrypt(FILE)
    assert decrypt(encrypted.data, encrypted.key, encrypted.nonce) == FILE
    assert encrypted.x == sha256(encrypted.data).hexdigest()
    assert encrypted.ox == sha256(FILE).hexdigest()
    assert len(encrypted.data) == len(FILE) + OVERHEAD


def test_each_file_has_a_key_and_a_nonce_of_its_own_and_the_same_ones_give_the_same_bytes() -> None:
    first = encrypt(FILE)
    second = encrypt(FILE)
    assert (first.key, first.nonce) != (second.key, second.nonce)
    assert encrypt_with(FILE, bytes.fromhex(first.key), bytes.fromhex(first.nonce)) == first


def test_an_empty_file_is_a_file() -> None:
    encrypted = encrypt(b"")
    assert decrypt(encrypted.data, encrypted.key, encrypted.nonce) == b""


def test_keys_in_base64_and_nonces_of_sixteen_bytes_are_read() -> None:
    encrypted = encrypt_with(FILE, b"k" * 32, b"n" * 16)
    key = base64.b64encode(bytes.fromhex(encrypted.key)).decode()
    nonce = base64.b64encode(bytes.fromhex(encrypted.nonce)).decode()
    assert decrypt(encrypted.data, key, nonce) == FILE
    assert decrypt(encrypted.data, encrypted.key.upper(), encrypted.nonce.upper()) == FILE


@pytest.mark.parametrize(
    ("key", "nonce"),
    [
        ("", "00" * 12),
        ("00" * 5, "00" * 12),
        ("zz" * 32, "00" * 12),
        ("00" * 32, ""),
        ("00" * 32, "00" * 64),
        ("00" * 32, "?"),
        ("é" * 32, "00" * 12),
        ("0" * 1_000_000, "00" * 12),
    ],
)
def test_malformed_tags_are_refused(key: str, nonce: str) -> None:
    with pytest.raises(ValueError, match=r"decryption-(key|nonce): "):
        decrypt(encrypt(FILE).data, key, nonce)


@pytest.mark.parametrize("damage", ["key", "nonce", "data", "short", "none"])
def test_another_key_or_other_bytes_are_refused(damage: str) -> None:
    encrypted = encrypt(FILE)
    data = {"data": b"x" + encrypted.data[1:], "short": encrypted.data[:-1], "none": b""}.get(damage, encrypted.data)
    key = "11" * 32 if damage == "key" else encrypted.key
    nonce = "11" * 12 if damage == "nonce" else encrypted.nonce
    with pytest.raises(ValueError, match="the file is damaged, or its key is another"):
        decrypt(data, key, nonce)
