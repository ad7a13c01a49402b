"""Files of the workspace for people: which may be sent, what they are, and what is read where none could be sent."""

import mimetypes
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from tenex.core.errors import FileNotSent
from tenex.core.port_values import AttachedFile, FileDestination
from tenex.core.ports import FileSender
from tenex.core.text.foreign import holds_key

from .path_patterns import fits
from .tool import Refusal
from .workspace import Workspace

EXCERPT: Final = 4_096
"""Bytes of a text that are sent in the message where the file cannot be: two screens of a phone."""

SENDING: Final = 190.0
"""Seconds of a call that sends a file: the store of a relay and three servers are tried, each for forty at most."""

MOST_WAITING: Final = 10
"""Files that wait for one message."""

LARGEST_FILE: Final = 20_000_000
"""Bytes of a file, unless the settings say otherwise."""

_FENCES: Final = re.compile(r"`{3,}")
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_OCTETS: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForPerson:
    """A file as it is sent."""

    name: str
    data: bytes
    media_type: str
    path: str = ""
    """Where it is, as an agent names it: in the workspace, or among what people have sent; "" for any other place."""
    dim: str = ""

    @property
    def text(self) -> str | None:
        """Its text; None where it is none."""
        return text_of(self.data)

    @property
    def place(self) -> str:
        """Where it is, as a clause; only of a file that has a path."""
        if PurePosixPath(self.path).is_absolute():  # on disk perhaps, where that is named to agents
            return f"It is among the files that were sent in this conversation: {self.name}"
        return f"It is in the workspace: {self.path}"

    @property
    def size(self) -> str:
        """Its size, in words."""
        return size_in_words(len(self.data))


class SentFiles:
    """Sends files to people, as the settings permit it."""

    def __init__(self, sender: FileSender | None, *, most: int, never: Sequence[str]) -> None:
        """Prepare.

        Args:
            sender: what uploads them; None where nothing does.
            most: bytes of one file.
            never: patterns of paths that are not sent.
        """
        self._sender = sender
        self._never = tuple(never)
        self.most = most

    def read(self, workspace: Workspace, real: Path, shown: str) -> FileForPerson:
        """Read a file, which is what `Workspace.resolve` gave, if it may be sent; blocks.

        Raises:
            Refusal: as `Workspace.read`; or it may not be sent.
        """
        for path in {shown, workspace.relative(real)}:  # a link and what it leads to
            pattern = self._pattern_of(path)
            if pattern:
                raise Refusal(f"{path} is never sent: `{pattern}` is listed in `files.never` of the settings.")
        data = workspace.read(real, self.most)
        if holds_key(data):
            raise Refusal(
                f"{shown} is not sent: it holds what looks like a secret key. Remove that from the file first."
            )
        return described(PurePosixPath(shown).name, data, path=workspace.shown(real))

    async def attached(
        self, file: FileForPerson, *, caption: str, unique: str, destination: FileDestination
    ) -> tuple[AttachedFile, str]:
        """A file as it goes with a message, and why it could not be uploaded; "" where it was."""
        try:
            sent = await self._uploaded(file, unique, destination)
        except FileNotSent as fault:
            why = str(fault)
            instead = AttachedFile(
                name=file.name,
                media_type=file.media_type,
                size=len(file.data),
                caption=caption,
                instead=_words_instead(file, caption, why),
            )
            return instead, why
        return replace(sent, caption=caption, dim=file.dim), ""

    async def _uploaded(self, file: FileForPerson, unique: str, destination: FileDestination) -> AttachedFile:
        if self._sender is None:
            raise FileNotSent("this program uploads no files")
        return await self._sender.send(
            file.data, name=file.name, media_type=file.media_type, unique=unique, destination=destination
        )

    def _pattern_of(self, path: str) -> str:
        """The pattern that keeps a path from being sent, by itself or by one of its folders; "" for none."""
        parts = PurePosixPath(path).parts
        places = ["/".join(parts[: length + 1]) for length in range(len(parts))]
        return next(
            (pattern for pattern in self._never for place in places if fits(place.lower(), pattern.lower())), ""
        )


def described(name: str, data: bytes, *, path: str = "", media_type: str = "") -> FileForPerson:
    """A file with what is known of it by its name and its first bytes."""
    guessed = mimetypes.guess_type(name)[0] or ("text/plain" if text_of(data) is not None else _OCTETS)
    return FileForPerson(name=name, data=data, media_type=media_type or guessed, path=path, dim=_dimensions(data))


def text_of(data: bytes) -> str | None:
    """The text that a file holds; None where it is none."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def size_in_words(size: int) -> str:
    """A size as people read it."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:,.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"


def _dimensions(data: bytes) -> str:
    """The width and height of a PNG or GIF; "" for any other file."""
    if data.startswith(_PNG) and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
    else:
        return ""
    return f"{width}x{height}"


def _words_instead(file: FileForPerson, caption: str, why: str) -> str:
    """What a person reads in place of a file: its text or the beginning of it, and where the rest is."""
    label = caption or file.name
    place = f" {file.place}." if file.path else ""
    text = file.text
    if text is None:
        return f"[{label} ({file.media_type}, {file.size}) could not be sent: {why}.{place}]"
    if len(file.data) <= EXCERPT:
        return f"{label}:\n\n{_as_block(file, text.strip())}"
    begin = file.data[:EXCERPT].decode("utf-8", "ignore").rstrip()
    head = f"{label}, the first {size_in_words(EXCERPT)} of {file.size}:"
    return f"{head}\n\n{_as_block(file, begin)}\n\n[The rest was not sent: {why}.{place}]"


def _as_block(file: FileForPerson, text: str) -> str:
    """A text in a message, whose Markdown may be taken out: as a block of code, unless it is Markdown itself."""
    if file.media_type == "text/markdown":
        return text
    longest = max((len(marks) for marks in _FENCES.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
