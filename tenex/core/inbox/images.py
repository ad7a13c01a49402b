"""Addresses in what users write, and which of them end like pictures."""

import re
from typing import Final

_LOOKED_AT: Final = 100
"""Addresses of one text."""
_NO_PART: Final = r"\s<>\"'`|\\^{}\[\]"
"""What ends an address; brackets end the text of a link in Markdown."""
_ADDRESS: Final = re.compile(
    rf"https://[^{_NO_PART}]{{4,2000}}|http://[^{_NO_PART}#]{{4,2000}}+#[0-9a-f]{{64}}", re.IGNORECASE
)
"""By http only with the digest of the file, which who may read it has: the store of a relay without TLS."""
_AFTER: Final = ".,;:!?)]*_~"
"""What ends a sentence, or a link in Markdown, and no address."""
_ENDING: Final = re.compile(r"\.(?:png|jpe?g|gif|webp)(?:[?#].*)?", re.IGNORECASE)


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses in a text, each once, in order."""
    matches = (match for match, _ in zip(_ADDRESS.finditer(text), range(_LOOKED_AT), strict=False))
    return tuple(dict.fromkeys(match[0].rstrip(_AFTER) for match in matches))


def is_address(text: str) -> bool:
    """Whether a text is one address and nothing else."""
    return _ADDRESS.fullmatch(text) is not None


def is_picture_address(address: str) -> bool:
    """Whether an address ends like that of a picture."""
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    return _ENDING.fullmatch(path[path.rfind(".") :]) is not None if "." in path else False
