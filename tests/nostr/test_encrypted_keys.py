"""Secret keys under a password: the vectors of NIP-49 and of XChaCha20, and another library in both directions."""

import unicodedata
from collections.abc import Callable

import nostr_sdk as sdk
import pytest
from pynostr import bech32

from tenex.nostr.encrypted_keys import (
    decrypt_secret,
    encrypt_secret,
    hchacha20,
    xchacha20_poly1305_decrypt,
    xchacha20_poly1305_encrypt,
)
from tenex.nostr.keys import SecretKey

OFFICIAL = (
    "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4jdzz84z"
    "m3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
)
SECRET = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"
PASSWORD = "nostr"
CHEAP = 4
"""The work of scrypt for what is not about it."""

KEY = SecretKey(bytes([9]) * 32)


def payload_of(text: str) -> bytes:
    _, words, _ = bech32.bech32_decode(text)
    return bytes(bech32.convertbits(words, 5, 8, False))


def text_of(payload: bytes) -> str:
    words = bech32.convertbits(payload, 8, 5)
    return str(bech32.bech32_encode("ncryptsec", words, bech32.Encoding.BECH32))


def test_hchacha20_is_that_of_the_draft() -> None:
    """draft-irtf-cfrg-xchacha-03, 2.2.1."""
    derived = hchacha20(bytes(range(32)), bytes.fromhex("000000090000004a0000000031415927"))
    assert derived.hex() == "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"


def test_xchacha20_poly1305_is_that_of_the_draft() -> None:
    """draft-irtf-cfrg-xchacha-03, A.3.1."""
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would "
        b"be it."
    )
    key = bytes(range(0x80, 0xA0))
    nonce = bytes(range(0x40, 0x58))
    associated = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    encrypted = bytes.fromhex(
        "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c2"
        "16cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c6"
        "8b13b52ec0875924c1c7987947deafd8780acf49"
    )
    assert xchacha20_poly1305_encrypt(key, nonce, text, associated) == encrypted
    assert xchacha20_poly1305_decrypt(key, nonce, encrypted, associated) == text


def test_the_official_key_is_opened() -> None:
    assert SecretKey.from_ncryptsec(OFFICIAL, PASSWORD) == SecretKey(bytes.fromhex(SECRET))
    assert SecretKey.from_ncryptsec(f" {OFFICIAL.upper()}\n", PASSWORD) == SecretKey(bytes.fromhex(SECRET))


def test_another_library_opens_ours_and_we_open_its() -> None:
    ours = KEY.encrypted("a long passphrase, ü")
    assert ours.startswith("ncryptsec1")
    opened = sdk.EncryptedSecretKey.from_bech32(ours).decrypt("a long passphrase, ü")
    assert opened.to_bech32() == KEY.nsec
    assert sdk.EncryptedSecretKey.from_bech32(ours).key_security() == sdk.KeySecurity.WEAK
    theirs = sdk.SecretKey.parse(KEY.nsec).encrypt(PASSWORD).to_bech32()
    assert SecretKey.from_ncryptsec(theirs, PASSWORD) == KEY
    assert KEY.encrypted(PASSWORD) != KEY.encrypted(PASSWORD), "salt and nonce are new each time"


def test_a_password_is_the_same_however_its_characters_are_composed() -> None:
    """The two spellings that NIP-49 names."""
    typed = "\u212b\u2126\u1e9b\u0323"
    composed = "\u00c5\u03a9\u1e69"
    assert unicodedata.normalize("NFKC", typed) == composed
    assert decrypt_secret(encrypt_secret(bytes(31) + b"\x01", typed, CHEAP), composed) == bytes(31) + b"\x01"


@pytest.mark.parametrize("at", [2, 20, 42, 43, 90])
def test_what_was_changed_anywhere_is_refused(at: int) -> None:
    """Salt, nonce, the byte on security, the key itself and its tag."""
    payload = bytearray(encrypt_secret(bytes([9]) * 32, PASSWORD, CHEAP))
    assert decrypt_secret(bytes(payload), PASSWORD) == bytes([9]) * 32
    payload[at] ^= 1
    with pytest.raises(ValueError, match="the password is wrong, or the key is damaged"):
        decrypt_secret(bytes(payload), PASSWORD)


def test_a_wrong_password_is_refused_without_repeating_anything() -> None:
    with pytest.raises(ValueError, match="the password is wrong") as refused:
        SecretKey.from_ncryptsec(OFFICIAL, "not it")
    assert "not it" not in str(refused.value)
    assert OFFICIAL not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda payload: payload[:-1], "not an encrypted key"),
        (lambda payload: b"\x01" + payload[1:], "not an encrypted key of NIP-49, version 2"),
        (lambda payload: payload[:1] + b"\x00" + payload[2:], "2\\^0 steps"),
        (lambda payload: payload[:1] + b"\x15" + payload[2:], "2\\^21 steps; at most 2\\^20"),
        (lambda payload: payload[:1] + b"\xff" + payload[2:], "2\\^255 steps"),
    ],
)
def test_what_is_no_such_key_or_would_take_all_memory_is_refused(
    change: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SecretKey.from_ncryptsec(text_of(change(payload_of(OFFICIAL))), PASSWORD)


@pytest.mark.parametrize("text", ["", "ncryptsec1", OFFICIAL[:-1] + "q", KEY.nsec, KEY.npub])
def test_other_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="ncryptsec") as refused:
        SecretKey.from_ncryptsec(text, PASSWORD)
    assert not text or text not in str(refused.value)
