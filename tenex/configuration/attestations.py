"""The file of owner attestations (NIP-OA) in the data folder, which `tenex rooms attest` writes: a tag for each key."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tenex.core.errors import TenexError
from tenex.core.ids import PublicKey
from tenex.log import get_logger
from tenex.nostr.attestations import parse_attestation
from tenex.nostr.threading.base import Tag
from tenex.settings import ProjectPaths
from tenex.store import atomic

log = get_logger(__name__)

FILE: Final = "attestations.json"
LARGEST: Final = 1 << 20
"""Bytes: a tag has 250."""


def attestations_file(places: ProjectPaths) -> Path:
    """Where the attestations are."""
    return places.data / FILE


def read_attestations(places: ProjectPaths) -> dict[PublicKey, Tag]:
    """The attestations by the key that they are for; one that is not good is left out, with a warning in the log."""
    path = attestations_file(places)
    try:
        with path.open("rb") as opened:
            listed = json.loads(opened.read(LARGEST))
        items = list(listed.items())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        log.warning("attestations.unreadable", path=str(path), fault=type(error).__name__)
        return {}
    good: dict[PublicKey, Tag] = {}
    for key, elements in items:
        try:
            good[PublicKey(key)] = parse_attestation(elements if isinstance(elements, list) else (), PublicKey(key))
        except ValueError as error:
            log.warning("attestation.invalid", path=str(path), key=str(key)[:64], reason=str(error))
    return good


def add_attestations(places: ProjectPaths, tags: Mapping[PublicKey, Tag]) -> None:
    """Store attestations durably beside those that are there, in place of those for the same keys.

    Raises:
        TenexError: the file cannot be written.
    """
    kept = {**read_attestations(places), **tags}
    text = json.dumps({key: list(tag) for key, tag in kept.items()}, indent=1)
    path = attestations_file(places)
    try:
        atomic.replace(path, f"{text}\n".encode())
    except OSError as error:
        raise TenexError(
            f"{path} cannot be written ({error.strerror}). Make room or fix its rights; try again."
        ) from error
