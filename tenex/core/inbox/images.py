"""Pictures in what users write: https addresses, known by their ending or by what clients say of them (NIP-92)."""

import re
from collections.abc import Collection
from typing import Final

MOST: Final = 4
"""Pictures of one message that are loaded."""
_LOOKED_AT: Final = 100
"""Addresses of one text."""
_ADDRESS: Final = re.compile(r"https://[^\s<>\"'`|\\^{}\[\]]{4,2000}", re.IGNORECASE)
"""Without brackets, which end the text of a link in Markdown."""
_AFTER: Final = ".,;:!?)]*_~"
"""What ends a sentence, or a link in Markdown, and no address."""
_ENDING: Final = re.compile(r"\.(?:png|jpe?g|gif|webp)(?:[?#].*)?", re.IGNORECASE)


def addresses_in(text: str) -> tuple[str, ...]:
    """The https addresses in a text, each once, in order."""
    matches = (match for match, _ in zip(_ADDRESS.finditer(text), range(_LOOKED_AT), strict=False))
    return tuple(dict.fromkeys(match[0].rstrip(_AFTER) for match in matches))


def pictures_in(text: str, declared: Collection[str] = ()) -> tuple[str, ...]:
    """The addresses in a text that are of pictures: by their ending, or since they are declared as such."""
    return tuple(address for address in addresses_in(text) if address in declared or _has_ending(address))[:MOST]


def _has_ending(address: str) -> bool:
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    return _ENDING.fullmatch(path[path.rfind(".") :]) is not None if "." in path else False
