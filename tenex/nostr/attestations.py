"""Owner attestations (NIP-OA): an owner's signature that an agent's key is theirs, as the tag `auth` of its events.

Four elements: `auth`, the owner's key, conditions, and the owner's signature (BIP-340) of the SHA-256 of
`nostr:agent-auth:<agent's key>:<conditions>`. It needs the owner's secret key itself: a remote signer (NIP-46) signs
events only.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from tenex.core.ids import PublicKey
from tenex.nostr.threading.base import Tag, is_hex64

from .events import has_signed
from .keys import SecretKey

AUTH: Final = "auth"

_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
_CLAUSE: Final = re.compile(r"(kind=|created_at<|created_at>)(0|[1-9][0-9]*)")
_MOST: Final = {"kind=": 0xFFFF, "created_at<": 0xFFFF_FFFF, "created_at>": 0xFFFF_FFFF}


def attest(owner: SecretKey, agent: PublicKey) -> Tag:
    """Attest a key, without conditions.

    Raises:
        ValueError: it is the owner's own.
    """
    return parse_attestation((AUTH, owner.public, "", owner.sign_digest(_digest(agent, ""))), agent)


def parse_attestation(elements: Sequence[object], agent: PublicKey) -> Tag:
    """The tag, if it is one and the owner has signed it for this key.

    Raises:
        ValueError: what is wrong with it.
    """
    tag = tuple(element for element in elements if isinstance(element, str))
    if len(elements) != 4 or len(tag) != 4 or tag[0] != AUTH:
        raise ValueError('an attestation is ["auth", owner, conditions, signature]')
    _, owner, conditions, signature = tag
    if not is_hex64(owner) or not _SIGNATURE.fullmatch(signature):
        raise ValueError("its key or its signature is not lower-case hex of 64 or 128 digits")
    if owner == agent:
        raise ValueError("a key cannot attest itself")
    _clauses(conditions)
    if not has_signed(PublicKey(owner), signature, _digest(agent, conditions)):
        raise ValueError("its signature is not that owner's for this key")
    return tag


def holds_for(tag: Tag, kind: int, created_at: int) -> bool:
    """Whether the conditions of an attestation permit an event; `created_at` is in seconds."""
    for name, number in _clauses(tag[2]):
        value = created_at if name.startswith("created_at") else kind
        is_met = value < number if name.endswith("<") else value > number if name.endswith(">") else value == number
        if not is_met:
            return False
    return True


def _clauses(conditions: str) -> list[tuple[str, int]]:
    clauses: list[tuple[str, int]] = []
    for clause in conditions.split("&") if conditions else ():
        match = _CLAUSE.fullmatch(clause)
        if match is None or len(match[2]) > 10 or int(match[2]) > _MOST[match[1]]:
            raise ValueError("its conditions are not of the form kind=9&created_at<1900000000")
        clauses.append((match[1], int(match[2])))
    return clauses


def _digest(agent: PublicKey, conditions: str) -> bytes:
    return hashlib.sha256(f"nostr:agent-auth:{agent}:{conditions}".encode()).digest()
