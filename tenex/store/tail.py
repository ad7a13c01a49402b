"""Follows a journal that another process writes: each look costs what was appended, not what is there."""

from pathlib import Path

from tenex.core.errors import StoreDamaged
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord

from . import segments
from .format import CONVERSATION, as_written
from .journal_reader import JOURNAL, peek


class JournalTail:
    """What comes after a record in the journal of one conversation. It blocks: use it off the event loop."""

    def __init__(self, folder: Path, seq: int) -> None:
        """Follow the journal in a folder after the record `seq`."""
        self._folder = folder
        self.seq = seq
        """Of the last record that was returned."""
        self._number = 0
        """Of the file that is read on; 0 where it has to be read from its beginning."""
        self._length = 0
        """Bytes of that file up to the record `seq`."""
        self._looked_at = (0, -1)
        """Number and bytes of the newest file at the last look."""

    def read(self) -> list[Record]:
        """The records of the decisions that have been completed since the last call; no snapshots.

        Raises:
            StoreDamaged: the journal cannot be read, or ends before the record from which on it was followed.
            OSError: the same, and looking again may help.
        """
        newest = max(segments.numbers(self._folder), default=1)
        path = self._folder / segments.name_of(newest)
        size = path.stat().st_size
        if (newest, size) == self._looked_at:
            return []
        records = self._appended(path) if newest == self._number and size >= self._length else None
        if records is None:  # the first look, or another file took its place
            records = self._from_beginning(path, newest)
        self._looked_at = (newest, size)
        return records

    def _appended(self, path: Path) -> list[Record] | None:
        """What was appended to the file that was read before; None where that is not what follows."""
        with path.open("rb") as stream:
            stream.seek(self._length)
            data = stream.read()
        records, length, fault = CONVERSATION.decode_lines(data, self.seq + 1)
        if fault is not None and not fault.is_torn:
            return None
        self._length += length
        self.seq += len(records)
        return records

    def _from_beginning(self, path: Path, number: int) -> list[Record]:
        raw = path.read_bytes()
        data = as_written(raw)
        records, length, _ = CONVERSATION.decode_lines(data)
        is_gap = bool(records) and isinstance(records[0], SnapshotRecord) and records[0].seq > self.seq
        if is_gap or not records:
            records = peek(self._folder / JOURNAL, CONVERSATION, self.seq)
        last = records[-1].seq if records else 0
        if last < self.seq:
            raise StoreDamaged(f"{path} ends with record {last}, and record {self.seq} was there before")
        self._number = number if data is raw else 0
        self._length = length
        new = [record for record in records if record.seq > self.seq and not isinstance(record, SnapshotRecord)]
        self.seq = last
        return new
