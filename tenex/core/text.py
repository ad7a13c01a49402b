"""Texts of others, made safe for a terminal."""

import re
from typing import Final

CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 but tabs and line feeds, separators of lines, and marks that change the direction of what follows."""


def printable(text: str) -> str:
    """Make characters visible that would steer a terminal; tabs and line feeds stay."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)
