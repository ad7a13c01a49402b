"""Addresses in what users write, and which of them end like pictures."""

import re
from typing import Final

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


def is_address(text: str) -> bool:
    """Whether a text is one https address and nothing else."""
    return _ADDRESS.fullmatch(text) is not None


def is_picture_address(address: str) -> bool:
    """Whether an address ends like that of a picture."""
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    return _ENDING.fullmatch(path[path.rfind(".") :]) is not None if "." in path else False
