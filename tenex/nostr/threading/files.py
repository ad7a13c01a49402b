"""Files as the tags of events: described beside their address (NIP-92), or encrypted in an event each (NIP-17)."""

import json
from collections.abc import Sequence
from typing import Final

from tenex.core.port_values import AttachedFile, UnsignedEvent
from tenex.core.ports import OutgoingMessage
from tenex.nostr.events import unsigned_event

from .base import Tag
from .split import clip

FILE: Final = 15
"""NIP-17, within a seal and a gift wrap."""

_ALGORITHM: Final = "aes-gcm"
"""That of `encrypted_file`, which is imported only where a file is encrypted."""


def described(files: Sequence[AttachedFile], most: int) -> tuple[Tag, ...]:
    """The descriptions of files in at most so many bytes: of those that are left out the text has the addresses."""
    tags: list[Tag] = []
    for file in files:
        tag = imeta_tag(file)
        most -= len(json.dumps(tag, ensure_ascii=False).encode())
        if most < 0:
            break
        tags.append(tag)
    return tuple(tags)


def imeta_tag(file: AttachedFile) -> Tag:
    """The description of a file whose address is in the text."""
    fields = [
        ("url", file.url),
        ("m", file.media_type),
        ("x", file.x),
        ("size", str(file.size)),
        ("dim", file.dim),
        ("name", file.name),
        ("alt", file.caption),
    ]
    return ("imeta", *(clip(f"{name} {value}") for name, value in fields if value))


def file_events(
    files: Sequence[AttachedFile], draft: OutgoingMessage, tags: Sequence[Tag], first: int
) -> tuple[UnsignedEvent, ...]:
    """The event of each encrypted file of a draft, a second apart from `first` on."""
    return tuple(
        unsigned_event(draft.speaker, first + number, FILE, [*tags, *_tags_of(file)], file.url)
        for number, file in enumerate(files)
    )


def _tags_of(file: AttachedFile) -> tuple[Tag, ...]:
    fields = [
        ("file-type", file.media_type),
        ("encryption-algorithm", _ALGORITHM),
        ("decryption-key", file.key),
        ("decryption-nonce", file.nonce),
        ("x", file.x),
        ("ox", file.ox),
        ("size", str(file.size)),
        ("dim", file.dim),
        ("name", file.name),
        ("alt", file.caption or file.name),
    ]
    return tuple((name, clip(value)) for name, value in fields if value)
