"""A message in one line, as lists show it."""

from typing import Final

from tenex.nostr.threading.plain_text import plain_text

READ: Final = 1_000
"""Characters of a message that its line is made of."""
LONGEST: Final = 300
"""Of a line: more than a wide screen shows."""


def line_of(text: str) -> str:
    """The beginning of a message on one line, without the marks of Markdown."""
    words = " ".join(plain_text(text[:READ]).split())
    return words.replace("**", "").replace("`", "")[:LONGEST]
