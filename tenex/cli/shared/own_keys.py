"""The keys of a data folder that commands know by name: the project's, and that of the owner whom they write as."""

from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import KeyRing, SecretKey

PROJECT: Final = "project"
"""The name of the project's key, which the orchestrator signs with."""

OWNER: Final = "owner"
"""The name of the key made for an owner who has none yet, by which messages are signed here."""


def user_key(ring: KeyRing, folder: Path) -> SecretKey:
    """The key that messages are signed with.

    Raises:
        ConfigurationError: it is missing or cannot be used.
    """
    names = ring.names()
    if names and OWNER not in names:  # a folder without any is one that `init` has to make
        file = folder / f"{OWNER}.nsec"
        raise ConfigurationError(
            [f"{file} is missing. Restore it, or put an owner's nsec there; `tenex init --new-owner` makes another."]
        )
    return ring.get(OWNER)
