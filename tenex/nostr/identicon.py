"""A picture made of a public key, so that agents are told apart at a glance: five by five squares, left as right.

It is in the profile itself, as a `data:` address of about 200 characters, so no server has to be asked for it. Clients
that show only pictures of the web show what they show for a profile without one.
"""

import colorsys
import struct
import zlib
from base64 import b64encode
from hashlib import sha256
from typing import Final

from tenex.core.ids import PublicKey

SQUARES: Final = 5
"""In a row, of which the left half and the middle are chosen by the key."""
SQUARE: Final = 40
"""Pixels, a multiple of 8: a byte has eight."""
MARGIN: Final = 24
BACKGROUND: Final = b"\xf2\xf2\xf2"


def identicon(key: PublicKey) -> str:
    """The `data:` address of a PNG, always the same for a key."""
    digest = sha256(key.encode()).digest()
    hue = int.from_bytes(digest[:2], "big") / 65_536
    color = bytes(round(255 * part) for part in colorsys.hls_to_rgb(hue, 0.42, 0.6))
    empty = bytes((2 * MARGIN + SQUARES * SQUARE) // 8)
    rows = [empty] * MARGIN
    for row in range(SQUARES):
        half = [digest[2 + 3 * row + column] & 1 for column in range(3)]
        squares = b"".join(bytes([255 * filled]) * (SQUARE // 8) for filled in (*half, half[1], half[0]))
        side = bytes(MARGIN // 8)
        rows += [side + squares + side] * SQUARE
    rows += [empty] * MARGIN
    return f"data:image/png;base64,{b64encode(_png(rows, BACKGROUND + color)).decode()}"


def _png(rows: list[bytes], palette: bytes) -> bytes:
    """A PNG of rows of bits, each the number of one of two colours."""
    size = struct.pack(">II", len(rows[0]) * 8, len(rows))
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", size + bytes([1, 3, 0, 0, 0])),  # a bit for each pixel, by the palette
            (b"PLTE", palette),
            (b"IDAT", pixels),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
