"""The files of one journal: `journal.jsonl`, then `journal-000002.jsonl` and so on; the highest number is written to.

Each but the first begins with a snapshot that sums up those before it, so a start reads the newest alone. The others
stay for ever and are never written to again.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FIRST: Final = "journal.jsonl"
ANY_FILE: Final = "*/journal*.jsonl"
"""The files of all journals below the conversations' folder, as a pattern."""

_NAME: Final = re.compile(r"journal(?:-(\d{6,}))?\.jsonl")


def name_of(number: int) -> str:
    """The name of the file with that number; the first has number 1."""
    return FIRST if number == 1 else f"journal-{number:06d}.jsonl"


def number_of(name: str) -> int | None:
    """The number of the file with that name; None where it is not one of a journal."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match[1] or 1)
    return number if name_of(number) == name else None


def numbers(folder: Path | str) -> list[int]:
    """The numbers of a journal's files, the oldest first; none where there is no journal, or no folder.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - at every start for each conversation, and only names are needed
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(number for number in map(number_of, names) if number is not None)


def missing(found: Sequence[int]) -> list[str]:
    """The names of files that must have been there before the last of these."""
    return [name_of(number) for number in sorted({*range(1, max(found, default=0))} - {*found})]


def current(folder: Path) -> Path:
    """The file that is written to, or will be.

    Raises:
        OSError: the folder cannot be read.
    """
    return folder / name_of(max(numbers(folder), default=1))


def stat_all(folder: str) -> tuple[int, int]:
    """The bytes of all files of a journal together, and when the newest was last written, in ns.

    Nearly every conversation has one file, so the second is asked for by name before the folder is listed.

    Raises:
        FileNotFoundError: there is no journal.
        OSError: it cannot be looked at.
    """
    try:
        second = os.stat(f"{folder}/{name_of(2)}")  # noqa: PTH116 - half of a start are these lines
    except FileNotFoundError:
        first = os.stat(f"{folder}/{FIRST}")  # noqa: PTH116
        return first.st_size, first.st_mtime_ns
    found = [os.stat(f"{folder}/{name_of(number)}") for number in numbers(folder)] or [second]  # noqa: PTH116
    return sum(file.st_size for file in found), found[-1].st_mtime_ns
