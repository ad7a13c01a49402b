"""The project's address as a QR code, which a phone scans from the terminal."""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from tenex.core.ids import PublicKey
from tenex.nostr.keys import nprofile
from tenex.nostr.urls import is_loopback

MOST_RELAYS: Final = 3
"""Relays in an address: each makes the code larger, and a client needs one."""
_BORDER: Final = 2
"""Modules around the code. The standard asks for four; two are enough on the white of the code itself."""
_BLACK_ON_WHITE: Final = "\x1b[38;5;16;48;5;231m"
"""Both colours are set, of those that no theme changes: a dark and a light terminal show the same."""
_PLAIN: Final = "\x1b[0m"
_HALVES: Final = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}


def reachable_relays(relays: Sequence[str]) -> list[str]:
    """The relays that a phone may reach, and whose address holds no key."""
    return [url for url in relays if not is_loopback(url) and "?" not in url][:MOST_RELAYS]


def project_uri(project: PublicKey, relays: Sequence[str]) -> str:
    """The address as clients open it: `nostr:nprofile1...`, with relays where it is reached."""
    return f"nostr:{nprofile(project, reachable_relays(relays))}"


def code_lines(text: str) -> Iterator[str]:
    """The lines of a QR code, two rows of modules in each."""
    import segno

    rows = [tuple(row) for row in segno.make_qr(text, error="L").matrix_iter(border=_BORDER)]
    for upper, lower in zip_longest(rows[::2], rows[1::2], fillvalue=(0,) * len(rows[0])):
        modules = zip(upper, lower, strict=True)
        yield "".join(_HALVES[bool(above), bool(below)] for above, below in modules)


def show_code(text: str) -> bool:
    """Print a QR code on stderr, where that is a terminal that can show it; returns whether it did."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb" or not _has_blocks():
        return False
    lines = list(code_lines(text))
    columns, _ = os.get_terminal_size(sys.stderr.fileno())
    if columns < len(lines[0]):
        return False
    for line in lines:
        sys.stderr.write(f"{_BLACK_ON_WHITE}{line}{_PLAIN}\n")
    return True


def _has_blocks() -> bool:
    try:
        "▀▄█".encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
