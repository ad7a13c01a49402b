"""The pictures that users refer to, as files beside the journals, which hold their addresses only."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from tenex.core.messages import Picture

from .atomic import FOLDER_MODE, replace

PICTURES: Final = "pictures"
"""The folder, in the data folder."""
MOST_BYTES: Final = 3_932_160
"""Of one picture: vendors take 5 MiB of base64 text, which is a third longer."""
KEPT: Final = 200
"""Pictures that stay: the newest. An agent of later work is shown the address alone."""
_KINDS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""How files begin that every vendor takes; a WebP has its length between two marks."""


def media_type(data: bytes) -> str:
    """What a file is by its beginning, whatever its server calls it; "" for no picture."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _KINDS if data.startswith(mark)), "")


class PictureFolder:
    """The files, by the address that each came from. Its functions block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, address: str) -> bool:
        """Whether a picture is there."""
        return self._path(address).exists()

    def read(self, address: str) -> Picture | None:
        """A picture; None if it is not there, or no more."""
        with suppress(OSError):
            data = self._path(address).read_bytes()
            kind = media_type(data)
            return Picture(data=data, media_type=kind) if kind else None
        return None

    def write(self, address: str, data: bytes) -> None:
        """Keep a picture, and remove the oldest of too many.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)  # not the data folder, which may have been moved
        replace(self._path(address), data)
        files = sorted(self._folder.glob("[0-9a-f]" * 64), key=_written_at)
        for path in files[:-KEPT]:
            path.unlink(missing_ok=True)

    def _path(self, address: str) -> Path:
        return self._folder / sha256(address.encode()).hexdigest()


def _written_at(path: Path) -> float:
    """When a file was written; 0 for one that the picture of another message has removed in the meantime."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
