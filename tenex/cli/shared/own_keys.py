"""The keys of a data folder that commands know by name: the project's, and that of the owner whom they write as."""

from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import KeyRing, SecretKey

PROJECT: Final = "project"
"""The name of the project's key, which the orchestrator signs with."""

OWNER: Final = "owner"
"""The name of the key made for an owner who has none yet, by which messages are signed here."""


def user_key(ring: KeyRing) -> SecretKey:
    """The key that messages are signed with.

    Raises:
        ConfigurationError: it is missing or cannot be used.
    """
    names = ring.names()
    if names and OWNER not in names:  # a folder without any is one that `init` has to make
        fix = "Restore it, or put an owner's nsec there; `tenex init --new-owner` makes another."
        raise ConfigurationError([f"{ring.file(OWNER)} is missing. {fix}"])
    return ring.get(OWNER)
