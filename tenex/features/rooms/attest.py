"""Makes attestations of the project's keys by an owner (NIP-OA), or takes those made elsewhere, and stores them."""

import json
import os
import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from typing import Any, Final

from tenex.configuration.attestations import add_attestations
from tenex.core.errors import UsageError
from tenex.core.ids import PublicKey
from tenex.nostr.attestations import attest, parse_attestation
from tenex.nostr.keys import KeyRing, SecretKey, npub, parse_public_key
from tenex.nostr.threading.base import Tag
from tenex.settings import ProjectPaths, Settings

VARIABLE: Final = "TENEX_OWNER_NSEC"
OWNER: Final = "owner"
"""The name of the owner's key in the key folder."""
LONGEST: Final = 4096
"""Bytes of a file with a key."""


def attest_keys(
    settings: Settings, places: ProjectPaths, names: Sequence[str], owner_file: Path | None, tag: str
) -> list[dict[str, Any]]:
    """Attest keys by an owner of the settings, and store it; returns `name`, `key` and `owner` (npub) of each.

    Args:
        settings: of the project.
        places: its folders.
        names: of keys in the key folder; all but the owner's if there are none.
        owner_file: holds the owner's nsec.
        tag: an attestation that was made elsewhere, as JSON, for the one name; then no secret key is needed.

    Raises:
        UsageError: there is no such key, no owner's key, or the attestation is not good.
    """
    ring = KeyRing(*places.key_folders)
    keys = {name: ring.read(name).public for name in ring.names() if name != OWNER}
    unknown = [name for name in names if name not in keys]
    if unknown:
        raise UsageError(f"There is no key {unknown[0][:100]!r}. There are: {', '.join(sorted(keys))}.")
    wanted = {name: keys[name] for name in names} if names else keys
    if not wanted:
        raise UsageError(f"{places.keys} has no keys of the project yet. `tenex init` makes them.")
    owners = settings.peer_group(parse_public_key).owners
    tags = _made_elsewhere(tag, wanted) if tag else _made_here(_secret_key(ring, owner_file), wanted)
    for made in tags.values():
        if made[1] not in owners:
            raise UsageError(f"{npub(PublicKey(made[1]))} is no owner of the project. `tenex owner list` shows them.")
    add_attestations(places, {wanted[name]: made for name, made in tags.items()})
    return [{"name": name, "key": wanted[name], "owner": npub(PublicKey(made[1]))} for name, made in tags.items()]


def _made_elsewhere(text: str, wanted: dict[str, PublicKey]) -> dict[str, Tag]:
    if len(wanted) != 1:
        raise UsageError("--tag is for one key: name it with --agent.")
    ((name, key),) = wanted.items()
    try:
        elements = json.loads(text)
        return {name: parse_attestation(elements if isinstance(elements, list) else (), key)}
    except (ValueError, RecursionError) as error:
        why = "it is no JSON" if isinstance(error, (json.JSONDecodeError, RecursionError)) else str(error)
        raise UsageError(f"--tag: this does not attest {name}: {why}.") from error


def _made_here(owner: SecretKey, wanted: dict[str, PublicKey]) -> dict[str, Tag]:
    try:
        return {name: attest(owner, key) for name, key in wanted.items()}
    except ValueError as error:
        raise UsageError(f"The key was not attested: {error}.") from error


def _secret_key(ring: KeyRing, file: Path | None) -> SecretKey:
    """The owner's secret key, from where scripts give it, from the key folder, or typed."""
    if file is None and VARIABLE not in os.environ and OWNER in ring.names():
        key = ring.read(OWNER)
        if isinstance(key, SecretKey):
            return key
    if file is not None:
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(LONGEST)
        except (OSError, ValueError) as error:
            raise UsageError(f"--owner-file {file}: cannot be read.") from error
    elif VARIABLE in os.environ:
        text = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        text = getpass("The owner's secret key, nsec1... (not shown, not stored): ", stream=sys.stderr)
    else:
        raise UsageError(f"The owner's secret key is needed: set ${VARIABLE}, or give --owner-file FILE.")
    try:
        return SecretKey.from_nsec(text)
    except ValueError as error:
        raise UsageError(f"The owner's key was not read: {error}.") from error
