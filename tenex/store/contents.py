"""Journals byte for byte, as their files hold them: what is copied from one store to another, and how it is compared.

A database holds the lines of the same files; so what was copied to it and back is the same.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tenex.core.errors import StoreDamaged
from tenex.core.snapshot import SnapshotRecord

from . import atomic, segments
from .format import CONVERSATION

Contents = Sequence[bytes]
"""The content of each file of a journal, the oldest first; none where there is no journal."""

Remains = Mapping[int, bytes | str]
"""What there is of each file of a journal, by its number, the oldest first: its content, or why it cannot be read."""

Comparison = Literal["same", "behind", "ahead", "other"]
"""How a journal compares with another: it holds a part of it, all of it and more, or something else."""


class Line(NamedTuple):
    """A line of a journal."""

    seq: int
    file: int
    """Of the file that begins with it, where it is a snapshot; else 0."""
    text: str


def compare(there: Contents, wanted: Contents) -> Comparison:
    """How `there` compares with `wanted`."""
    if list(there) == list(wanted):
        return "same"
    if _is_part(there, wanted):
        return "behind"
    return "ahead" if _is_part(wanted, there) else "other"


def _is_part(part: Contents, whole: Contents) -> bool:
    """Whether the whole continues the part."""
    if len(part) > len(whole):
        return False
    *full, last = part or [b""]
    return list(full) == list(whole[: len(full)]) and whole[len(full)].startswith(last)


def digest(contents: Contents) -> str:
    """The sha256 of a journal, with the ends of its files."""
    whole = hashlib.sha256()
    for content in contents:
        whole.update(b"%d\n" % len(content))
        whole.update(content)
    return whole.hexdigest()


def lines_of(contents: Contents) -> Iterator[Line]:
    """The lines of a journal that can be read.

    Raises:
        StoreDamaged: it cannot be read.
    """
    for number, content in enumerate(contents, start=1):
        records, length, fault = CONVERSATION.decode_lines(content)
        if fault is not None or length != len(content):
            raise StoreDamaged(f"file {number} of the journal cannot be read")
        for record, text in zip(records, content.decode().split("\n")[:-1], strict=True):
            yield Line(record.seq, number if isinstance(record, SnapshotRecord) else 0, text)


def whole_decisions(files: Remains) -> Contents:
    """The content of files that can be read, without the traces of a write that was cut short."""
    readable = [content for content in files.values() if isinstance(content, bytes)]
    return [content[: CONVERSATION.decode_lines(content)[1]] for content in readable]


def write_contents(folder: Path, there: Contents, wanted: Contents) -> None:
    """Make the journal in a folder the wanted one, of which it holds a part; blocks.

    Files appear in their order, each whole: whatever ends this, the folder holds a part of it.

    Raises:
        OSError: the disk did not take it.
    """
    for number, content in enumerate(wanted, start=1):
        if number > len(there) or there[number - 1] != content:
            atomic.replace(folder / segments.name_of(number), content)
