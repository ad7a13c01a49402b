"""The room on disk that commands leave free, so that journals can be written whatever an agent has started."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .tool import Refusal

_SHARE: Final = 20
"""Of a small disk at most one part in so many is kept free; else nothing could ever run there."""
_MB: Final = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReserve:
    """How much stays free, and on which disks."""

    size: int = 0
    """Bytes; 0 keeps nothing free."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """A folder on each disk that counts, by what a model is told that it is."""

    def shortage(self) -> str:
        """Say on which disk too little is free; empty where there is enough. Blocks for some microseconds."""
        for name, folder in self.folders.items() if self.size else ():
            try:
                found = os.statvfs(folder)
            except OSError:  # not made yet
                continue
            free, wanted = found.f_bavail * found.f_frsize, min(self.size, found.f_blocks * found.f_frsize // _SHARE)
            if free < wanted:
                return f"{free // _MB} MB are free on the disk of {name}, and {wanted // _MB} MB are kept free"
        return ""

    def refuse_if_short(self) -> None:
        """Refuse what could write to a disk on which too little is free.

        Raises:
            Refusal: with what to do.
        """
        if shortage := self.shortage():
            raise Refusal(f"Nothing was run: {shortage}. Delete large files with `delete_file`, or ask for room.")
