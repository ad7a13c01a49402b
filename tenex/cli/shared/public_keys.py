"""Reads the public key of a user as people give it: npub, nprofile, hex, or a name such as alice@example.com."""

import asyncio

from tenex.core.ids import PublicKey
from tenex.nostr.identifiers import is_identifier, look_up
from tenex.nostr.keys import npub, parse_public_key

from . import output


def read_public_key(text: str) -> PublicKey:
    """The key; the domain of a name is asked for it (NIP-05), and what it answers is printed.

    Raises:
        ValueError: it is none, or the name cannot be looked up.
    """
    if not is_identifier(text):
        return parse_public_key(text)
    key = asyncio.run(look_up(text))
    output.message(f"{text.strip()} is {npub(key)}.")
    return key
