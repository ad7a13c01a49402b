"""The picture of a key is a PNG that any program reads, always the same, and as wide as high."""

import struct
import zlib
from base64 import b64decode

from tenex.core.ids import PublicKey
from tenex.nostr.identicon import identicon

PREFIX = "data:image/png;base64,"


def rows_of(address: str) -> list[bytes]:
    """The rows of bits in a PNG of one bit for each pixel, as the specification has it."""
    data = b64decode(address.removeprefix(PREFIX), validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place = 8
    chunks: dict[bytes, bytes] = {}
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (width, depth, colour, len(chunks[b"PLTE"])) == (height, 1, 3, 6)
    pixels = zlib.decompress(chunks[b"IDAT"])
    line = 1 + width // 8
    assert len(pixels) == line * height
    return [pixels[start + 1 : start + line] for start in range(0, len(pixels), line)]


def test_it_is_a_picture_with_two_like_halves() -> None:
    for digit in "0123456789abcdef":
        rows = rows_of(identicon(PublicKey(digit * 64)))
        assert all(row == bytes(int(f"{octet:08b}"[::-1], 2) for octet in reversed(row)) for row in rows)


def test_each_key_has_its_own_and_keeps_it() -> None:
    keys = [PublicKey(f"{number:064x}") for number in range(500)]
    assert len({identicon(key) for key in keys}) == len(keys)
    assert identicon(keys[1]) == identicon(PublicKey(f"{1:064x}"))
    assert all(len(identicon(key)) < 300 for key in keys)
