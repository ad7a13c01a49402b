"""What a server answered, as text and files: images, sounds and embedded files are no text for a model."""

import base64
import binascii
import json
import mimetypes
from dataclasses import dataclass
from typing import Any, Final

from .schemas import finite

IMAGE: Final = "An image"
"""The kind of a file that is a picture."""

MOST_FILES: Final = 20
"""Files of one result."""
LARGEST_FILE: Final = 16 * 1024**2
"""Bytes of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file in a result."""

    kind: str
    """What it is, as a sentence begins: `An image`, `A sound`, `A file`."""
    mime: str
    data: bytes

    @property
    def suffix(self) -> str:
        """The end of its name, by its type."""
        return mimetypes.guess_extension(self.mime.partition(";")[0].strip()) or ".bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A result: texts and files in their order."""

    ok: bool
    parts: tuple[str | File, ...]


def read_result(result: Any) -> Reply:
    """The parts of an SDK's result."""
    parts: list[str | File] = []
    files = 0
    for block in result.content:
        part = _part(block)
        if isinstance(part, File):
            files += 1
            if files > MOST_FILES:
                part = f"[{part.kind} ({part.mime}) was left out: a result has at most {MOST_FILES}.]"
            elif len(part.data) > LARGEST_FILE:
                part = f"[{part.kind} ({part.mime}) of {len(part.data):,} bytes was left out: it is too large.]"
        parts.append(part)
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(finite(result.structured_content), ensure_ascii=False))
    return Reply(ok=not result.is_error, parts=tuple(parts))


def _part(block: Any) -> str | File:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return _file(IMAGE, block.mime_type, block.data)
        case "audio":
            return _file("A sound", block.mime_type, block.data)
        case "resource_link":
            return f"[A link to {block.name}: {block.uri}]"
        case "resource":
            held = block.resource
            if hasattr(held, "text"):
                return f"[{held.uri}]\n{held.text}"
            return _file("A file", held.mime_type or "application/octet-stream", held.blob)
        case other:
            return f"[A part of the kind {str(other)[:40]} was left out.]"


def _file(kind: str, mime: str, encoded: str) -> str | File:
    try:
        return File(kind=kind, mime=mime[:80], data=base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return f"[{kind} ({mime[:80]}) was left out: it is damaged.]"
