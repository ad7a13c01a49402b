"""The records of a journal by the files that hold it, or would: how they follow one another, and what is missing."""

from collections.abc import Callable, Sequence
from typing import Final

from tenex.core.errors import StoreDamaged, StoreOtherVersion
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord

from .contents import Remains
from .format import Codec, are_sound, seq_of
from .segments import name_of

UPGRADE: Final = "Upgrade tenex, or run the version that wrote it; it reads the whole conversation."
"""What to do about a journal of another version."""

PlaceOf = Callable[[int], str]
"""Where the file with that number is, for messages."""
LostPast = Callable[[Sequence[int], int], str]
"""The sentences about a journal of which the files with these numbers are left, and whose past ends at that record."""


def records_of(
    files: Remains, since: int, codec: Codec, place_of: PlaceOf, lost_past: LostPast, *, may_be_torn: bool
) -> tuple[list[Record], str]:
    """The records of a journal from the newest file back to one that begins at or before the record `since`.

    Args:
        files: those files, and perhaps others.
        since: the records after this one are wanted. Unless the first file is read they begin with a snapshot, and no
            other snapshot is among them.
        codec: reads their lines.
        place_of: names a file.
        lost_past: makes sentences about files that are missing.
        may_be_torn: whether the end of a write that was cut short may be there, or is damage.

    Returns:
        The records; where an earlier file is missing those after it. And the sentences about that, or an empty text.

    Raises:
        StoreDamaged: a file holds what we did not write, or cannot be read.
    """
    parts: list[list[Record]] = []  # the records of each file without its snapshot, the newest file first
    successor: SnapshotRecord | None = None  # the snapshot at the beginning of the file after this one
    loss = ""
    for number in range(max(files, default=0), 0, -1):
        if successor is not None and number not in files:
            loss = lost_past(list(files), successor.seq)
            parts.append([successor])
            break
        place = place_of(number)
        records = decode_file(files[number], codec, place, may_be_torn=may_be_torn)
        what = misplaced(records, number)
        if what:
            raise StoreDamaged(f"{place}: {what}. Nothing was changed.")
        last = records[-1].seq if records else 0
        if successor is not None and last != successor.seq:
            what = f"ends with seq {last}, but {name_of(number + 1)} follows on {successor.seq}"
            raise StoreDamaged(f"{place} {what}. Nothing was changed.")
        first = records[0] if records else None
        if not isinstance(first, SnapshotRecord) or first.seq <= since:
            parts.append(records)
            break
        successor = first
        parts.append(records[1:])
    return [record for part in reversed(parts) for record in part], loss


def decode_file(content: bytes | str, codec: Codec, place: str, first: int = 1, *, may_be_torn: bool) -> list[Record]:
    """The records of a file, or of lines after a record.

    Args:
        content: what it holds, or why it cannot be read.
        codec: reads its lines.
        place: where it is.
        first: the seq of the first line, unless that is a snapshot.
        may_be_torn: whether the end of a write that was cut short may be there.

    Raises:
        StoreDamaged: it holds what we did not write, or cannot be read.
    """
    if isinstance(content, str):
        raise StoreDamaged(f"{place} cannot be read: {content}. Look who owns it and what it is.")
    records, _, fault = codec.decode_lines(content, first)
    if fault is not None and fault.kind == "foreign":
        raise StoreOtherVersion(f"{place}: {fault.place}. Nothing was changed. {UPGRADE}")
    if fault is not None and not (may_be_torn and fault.is_torn):
        raise StoreDamaged(f"{place}: {fault.place}. Nothing was changed.")
    return records


def is_past_sound(files: Remains) -> bool:
    """Whether the files before the newest are all there, each line with the right crc and the next seq.

    No record is decoded: that takes about 2 ms for each MB, a tenth of reading it.
    """
    return _are_sound(files, len(files) - 1)


def is_all_sound(files: Remains) -> bool:
    """The same of all files, each of which has a record, and the newest ends with a whole line."""
    return bool(files) and all(files.values()) and _are_sound(files, len(files))


def _are_sound(files: Remains, count: int) -> bool:
    """Whether all files are there, the first `count` of them are sound, and the next one follows on them."""
    if sorted(files) != list(range(1, len(files) + 1)):
        return False
    last = 0
    for number in range(1, count + 1):
        content = files[number]
        if isinstance(content, str):
            return False
        *lines, unfinished = content.split(b"\n")
        first = max(last, 1)  # a snapshot has the seq of the last record before it
        if unfinished or not are_sound(lines, first):
            return False
        last = first + len(lines) - 1
    following = files.get(count + 1, b"")
    return count in (0, len(files)) or (isinstance(following, bytes) and seq_of(following) == last)


def misplaced(records: Sequence[Record], number: int) -> str:
    """Why a file cannot have its number: the first begins with seq 1, every other with a snapshot."""
    begins_with_snapshot = bool(records) and isinstance(records[0], SnapshotRecord)
    if number == 1 and begins_with_snapshot:
        return "line 1 cannot be right: it is a snapshot of files that are not there"
    if number > 1 and not begins_with_snapshot:
        return "line 1 cannot be right: it is no snapshot of the files before it"
    return ""
