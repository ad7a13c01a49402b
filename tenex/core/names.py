"""Names of agents as users and models write them: read leniently, and the nearest one where there is none."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from .ids import PublicKey

_AROUND: Final = " \t\r\n`*_~\"'“”‘’„«»()[]<>,.;:!?"
"""What may surround a name: quotes, Markdown, punctuation."""
_AFTER: Final = " \t\r\n,:;"
"""What may follow the name of whom a message begins with."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_KEY_CHARACTERS: Final = 57
"""Of an npub, prefix and key; six characters of checksum follow."""
_SHORT: Final = 12
"""Of an npub that distinguishes two users of one name."""
_NEAR: Final = 0.6
"""How like a name must be to be suggested: `stats` is like `status`, `exit` is like nothing."""


class Named(Protocol):
    """Someone with a name and a key."""

    @property
    def name(self) -> str:
        """The name users are shown."""

    @property
    def pubkey(self) -> PublicKey:
        """The key it signs with."""


Found = TypeVar("Found", bound=str)


def find(written: str, agents: Mapping[Found, Named | None]) -> Found | None:
    """The slug that is meant: exactly, then without case, kebab-cased, by the name that is shown, by npub or hex.

    None where nothing fits, or a shown name fits several.
    """
    if written in agents:
        return next(slug for slug in agents if slug == written)
    word = plain(written)
    if not word:
        return None
    for form in (word, word.lower(), _kebab(word)):
        for slug in agents:
            if form in (slug, slug.lower()):
                return slug
    shown = [slug for slug, agent in agents.items() if agent and agent.name.casefold() == word.casefold()]
    if len(shown) == 1:
        return shown[0]
    return next((slug for slug, agent in agents.items() if agent and _is_key(word.lower(), agent.pubkey)), None)


def plain(written: str) -> str:
    """The name without what may surround it: `@executor,`, **Executor** and nostr:npub1... are names."""
    return written.strip(_AROUND).removeprefix("nostr:").lstrip("@").strip(_AROUND)


def without_mentions(text: str, pubkey: PublicKey, name: str) -> str:
    """The text without the mentions of a key at its ends; within the text the name replaces them.

    A text of nothing else is unchanged. Mentions are npub and nprofile (NIP-19); their checksums are not checked.
    """
    if ("npub1" not in text and "nprofile1" not in text) or not _HEX.fullmatch(pubkey):
        return text
    parts = _mentions_of(pubkey).split(text)
    if len(parts) == 1 or not "".join(parts).strip(_AROUND):
        return text
    first = next(index for index, part in enumerate(parts) if part.strip(_AFTER))
    last = next(index for index, part in reversed([*enumerate(parts)]) if part.strip())
    rest = name.join(parts[first : last + 1]).strip()
    return rest.lstrip(_AFTER) if first else rest


def is_mention(word: str) -> bool:
    """Whether a word calls someone by name."""
    return word.strip(_AROUND).startswith("@")


def nearest(written: str, known: Iterable[str]) -> str:
    """The known name most like what was written; "" where none is like it."""
    found = get_close_matches(plain(written).lower(), [name.lower() for name in known], 1, _NEAR)
    return found[0] if found else ""


def short_key(pubkey: PublicKey) -> str:
    """The beginning of a public key as npub; "" for what is no key."""
    return _npub(pubkey)[:_SHORT] if _HEX.fullmatch(pubkey) else ""


def _is_key(word: str, pubkey: PublicKey) -> bool:
    if word.startswith("npub1") and _HEX.fullmatch(pubkey):
        return len(word) == _KEY_CHARACTERS + 6 and word.startswith(_npub(pubkey))
    return word == pubkey


def _npub(pubkey: PublicKey) -> str:
    """A public key as npub (NIP-19), without the checksum at its end."""
    return "npub1" + _bech32(int(pubkey, 16) << 4, 260)  # 256 bits, filled up to groups of five


def _bech32(bits: int, count: int) -> str:
    return "".join(_BECH32[bits >> shift & 31] for shift in range(count - 5, -1, -5))


@lru_cache(maxsize=8)  # the project's key does not change while a daemon runs
def _mentions_of(pubkey: PublicKey) -> re.Pattern[str]:
    # an nprofile begins with the key in practice: type 0, length 32, and the key without its last two bits
    profile = "nprofile1" + _bech32((32 << 256 | int(pubkey, 16)) >> 2, 270)
    word = rf"[{_BECH32}]"
    return re.compile(rf"(?<![A-Za-z0-9])(?:nostr:|@)?(?:{_npub(pubkey)}{word}{{6}}|{profile}{word}+)(?![a-z0-9])")


def _kebab(words: str) -> str:
    """`ProjectManager`, `project manager` and `project_manager` all become `project-manager`."""
    out: list[str] = []
    for index, char in enumerate(words):
        if char in " _-./":
            out.append("-")
        else:
            if char.isupper() and index and words[index - 1].islower():
                out.append("-")
            out.append(char.lower())
    return "-".join(part for part in "".join(out).split("-") if part)
