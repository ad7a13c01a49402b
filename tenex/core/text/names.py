"""Names of agents as users and models write them: read leniently, and the nearest one where there is none."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from tenex.core.ids import PublicKey
from tenex.core.text import foreign

MENTION: Final = re.compile(
    r"(?<![a-z0-9])(?:nostr:|@)?(?P<key>npub1[02-9ac-hj-np-z]{58}|nprofile1[02-9ac-hj-np-z]{6,1000})(?![a-z0-9])",
    re.IGNORECASE | re.ASCII,  # QR codes and some clients write bech32 in upper case
)
"""A key as a text mentions it (NIP-19, NIP-27)."""
_AROUND: Final = " \t\r\n`*_~\"'“”‘’„«»()[]<>,.;:!?"
"""What may surround a name: quotes, Markdown, punctuation."""
_AFTER: Final = " \t\r\n,:;"
"""What may follow the name of whom a message begins with."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_PLACEHOLDER: Final = re.compile(r"owner|(?:owner|person)-[0-9a-f]{1,8}")
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BASE_32: Final = str.maketrans(_BECH32, "0123456789abcdefghijklmnopqrstuv")
"""From the digits of bech32 to Python's."""
_CHECKSUM: Final = 6
"""Characters at the end of bech32."""
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
    shown = [slug for slug, agent in agents.items() if agent and plain(agent.name).casefold() == word.casefold()]
    if len(shown) == 1:
        return shown[0]
    return next((slug for slug, agent in agents.items() if agent and _is_key(word.lower(), agent.pubkey)), None)


def plain(written: str) -> str:
    """The name without what may surround it: `@executor,`, **Executor** and nostr:npub1... are names."""
    word = foreign.plain(written).strip(_AROUND)
    if word[:6].lower() == "nostr:":
        word = word[6:]
    return word.lstrip("@").strip(_AROUND)


def without_mentions(text: str, pubkey: PublicKey, name: str) -> str:
    """The text without the mentions of a key at its ends; within the text the name replaces them.

    A text of nothing else is unchanged. Mentions are npub and nprofile (NIP-19); their checksums are not checked.
    """
    mentions = [match.span() for match in MENTION.finditer(text) if key_of(match["key"]) == pubkey]
    ends = [0, *(end for _, end in mentions)]
    starts = [*(start for start, _ in mentions), len(text)]
    parts = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    if len(parts) == 1 or not "".join(parts).strip(_AROUND):
        return text
    first = next(index for index, part in enumerate(parts) if part.strip(_AFTER))
    last = next(index for index, part in reversed([*enumerate(parts)]) if part.strip())
    rest = name.join(parts[first : last + 1]).strip()
    return rest.lstrip(_AFTER) if first else rest


def with_names(text: str, names: Mapping[PublicKey, str]) -> str:
    """The text with `@name` in place of each mention of one of these keys (npub, nprofile)."""
    if not names:
        return text

    def named(match: re.Match[str]) -> str:
        key = key_of(match["key"])
        return f"@{names[key]}" if key is not None and key in names else match[0]

    return MENTION.sub(named, text)


def is_mention(word: str) -> bool:
    """Whether a word calls someone by name."""
    return foreign.plain(word).strip(_AROUND).startswith("@")


def is_key(word: str) -> bool:
    """Whether a word is a key as clients write mentions."""
    return MENTION.fullmatch(foreign.plain(word).strip(_AROUND)) is not None


def without_leading_mentions(text: str) -> str:
    """A reply without the names of those who are answered, which clients put before it."""
    rest = text.strip()
    while rest and (is_mention(rest.split(maxsplit=1)[0]) or is_key(rest.split(maxsplit=1)[0])):
        rest = " ".join(rest.split(maxsplit=1)[1:])
    return rest


def nearest(written: str, candidates: Iterable[str]) -> str:
    """The known name most like what was written; "" where none is like it."""
    matches = get_close_matches(plain(written).lower(), [name.lower() for name in candidates], 1, _NEAR)
    return matches[0] if matches else ""


def key_of(word: str) -> PublicKey | None:
    """The public key in an npub or nprofile (NIP-19), whose checksum is not checked; None where there is none.

    An nprofile is a list of entries, each a type, a length and a value, in any order: many libraries write the relays
    before the key.
    """
    prefix, _, digits = word.lower().partition("1")
    digits = digits[:-_CHECKSUM].translate(_BASE_32)
    try:
        payload = (int(digits, 32) >> 5 * len(digits) % 8).to_bytes(5 * len(digits) // 8, "big")
    except ValueError:
        return None
    if prefix == "npub":
        return PublicKey(payload.hex()) if len(payload) == 32 else None
    at = 0
    while prefix == "nprofile" and at + 2 <= len(payload):
        kind = payload[at]
        size = payload[at + 1]
        value = payload[at + 2 : at + 2 + size]
        if kind == 0:
            return PublicKey(value.hex()) if len(value) == 32 else None
        at += 2 + size
    return None


def placeholder(pubkey: PublicKey, owners: Collection[PublicKey] = ()) -> str:
    """What a user is called in records and lists until their profile has arrived; the only owner needs no key."""
    if pubkey not in owners:
        return f"person-{pubkey[:8]}"
    return "owner" if len(owners) == 1 else f"owner-{pubkey[:8]}"


def is_placeholder(name: str) -> bool:
    """Whether a name is only the placeholder of one that is not known."""
    return _PLACEHOLDER.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def short_key(pubkey: PublicKey) -> str:
    """The beginning of a public key as npub; "" for what is no key."""
    return _npub(pubkey)[:_SHORT] if _HEX.fullmatch(pubkey) else ""


def _is_key(word: str, pubkey: PublicKey) -> bool:
    return pubkey == (key_of(word) if MENTION.fullmatch(word) else word)


def _npub(pubkey: PublicKey) -> str:
    """A public key as npub (NIP-19), without the checksum at its end."""
    return "npub1" + _bech32(int(pubkey, 16) << 4, 260)  # 256 bits, filled up to groups of five


def _bech32(bits: int, count: int) -> str:
    return "".join(_BECH32[bits >> shift & 31] for shift in range(count - 5, -1, -5))


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
