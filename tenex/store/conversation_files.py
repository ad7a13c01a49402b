"""Files in the folder of a conversation, by names that are safe in every program: from people, and for them.

A file that is there is never changed. One of the same name and content is the same; one of the same name and another
content gets a number. So a message that is read twice, as after a crash, brings its files once.
"""

import mimetypes
import os
import re
import threading
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tenex.core.ids import Millis

from . import atomic

MOST_BYTES: Final = 200_000_000
"""Of all files of a conversation."""
MOST_FILES: Final = 500
"""Of a conversation."""
LONGEST_NAME: Final = 120
"""Bytes of a name; file systems take 255, and a number may follow."""
_LONGEST_SUFFIX: Final = 12

FOR_PEOPLE: Final = "files"
"""The folder of a conversation for files that people load from its page."""

_ODD: Final = re.compile(r"[^\w.+-]+")
"""What is in no name: white space, quotes, separators, marks that a shell or a person could read otherwise."""
_REPEATED: Final = re.compile(r"\.{2,}|_{2,}")
_SUFFIXES: Final = {
    "application/gzip": ".gz",
    "audio/aac": ".aac",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/opus": ".opus",
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/x-m4a": ".m4a",
    "image/heic": ".heic",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/plain": ".txt",
}
"""Endings that `mimetypes` lacks or that differ by system."""


class FilesFull(Exception):
    """The conversation has as many files as it may."""


def safe_name(written: str, media_type: str = "") -> str:
    """A name for a file: no path, no leading dot or dash, bounded, and with an ending where the type has one."""
    last = unicodedata.normalize("NFC", written).replace("\\", "/").rpartition("/")[2]
    plain = _REPEATED.sub(lambda match: match[0][0], _ODD.sub("_", last)).strip("._-+")
    kind = media_type.partition("/")[0]
    plain = plain or {"image": "picture", "audio": "audio", "video": "video"}.get(kind, "file")
    suffix = PurePosixPath(plain).suffix
    if not suffix:
        suffix = _SUFFIXES.get(media_type) or mimetypes.guess_extension(media_type, strict=True) or ""
    elif len(suffix) > _LONGEST_SUFFIX:
        suffix = ""
    stem = plain.removesuffix(suffix).encode()[: LONGEST_NAME - _LONGEST_SUFFIX].decode("utf-8", "ignore")
    return f"{stem}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file as a list shows it."""

    name: str
    size: int
    """Bytes."""
    changed: Millis


class ConversationFiles:
    """A folder of files of one conversation. Its functions block."""

    _writing = threading.Lock()
    """Held while a name is chosen and taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, data: bytes) -> str:
        """Keep a file, durably.

        Args:
            name: as `safe_name` gives it.
            data: what it holds.

        Returns:
            The name that it has.

        Raises:
            FilesFull: the conversation has too many files, or too large ones.
            OSError: it cannot be written; nothing of it is there.
        """
        with self._writing:
            there = self._sizes()
            stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
            taken = {other.casefold(): other for other in there}
            free = name
            number = 1
            while (other := taken.get(free.casefold())) is not None:
                if there[other] == len(data) and (self._folder / other).read_bytes() == data:
                    return other
                number += 1
                free = f"{stem}-{number}{suffix}"
            if len(there) >= MOST_FILES:
                raise FilesFull(f"this conversation has {MOST_FILES} files, the most it may have")
            if sum(there.values()) + len(data) > MOST_BYTES:
                raise FilesFull(f"the files of this conversation would have more than {MOST_BYTES // 1_000_000} MB")
            atomic.replace(self._folder / free, data)
            return free

    def listed(self) -> Sequence[Listed]:
        """The files that are there, the newest first; whatever is no ordinary file is left out."""
        found: list[Listed] = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and not atomic.LEFTOVER.fullmatch(entry.name):
                    stat = entry.stat(follow_symlinks=False)
                    changed = Millis(stat.st_mtime_ns // 1_000_000)
                    found.append(Listed(name=entry.name, size=stat.st_size, changed=changed))
        return sorted(found, key=lambda file: (-file.changed, file.name))

    def path_of(self, name: str) -> Path | None:
        """Where a file is that is listed; None for any other name."""
        is_listed = any(file.name == name for file in self.listed())
        return self._folder / name if is_listed else None

    def _sizes(self) -> dict[str, int]:
        """The files that are there; what a write that was cut short has left is removed."""
        if not self._folder.is_dir():
            return {}
        atomic.sweep(self._folder)
        return {path.name: path.lstat().st_size for path in self._folder.iterdir() if path.is_file()}
