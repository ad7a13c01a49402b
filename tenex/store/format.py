"""The lines of a journal, one record each, and what an incomplete or damaged file still proves.

    {"v":1,"seq":7,"remaining":0,"at":1700000000000,"type":"TurnOpened","data":{...},"crc":"8 hex"}

`remaining` counts the records of the same decision still to come: a decision without its last record has not been
made. The crc32 covers the line's UTF-8 before `,"crc"`. What follows the last whole decision and cannot be read is a
*torn tail*, the trace of a write that was cut short. A line whose crc is right, but whose record is not known here, is
*foreign*: another version of the program wrote it. Anything else unreadable is *damage*: it was good once.

A file begins with seq 1, or with a `StateSnapshot` that sums up the files before it and bears the seq of their last
record; from there on every line has the next seq.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal
from zlib import crc32

from tenex.core.errors import InternalError
from tenex.core.functions.undecided import EvaluationRequested, FunctionsEvaluated
from tenex.core.history.state import HistoryRecovered
from tenex.core.ids import Millis
from tenex.core.kind_format import FORMATS
from tenex.core.records import RECORDS, Record
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import SnapshotRecord, StateSnapshot

from .codec import FieldsCodec, UnregisteredKind

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the `data` of a line, with the names of the file, into that of the next version; it may change what it is
given. What it cannot know of old data gets the value that keeps the meaning of then."""

_ENVELOPE: Final = ("seq", "at")
_LINE: Final = re.compile(
    rb'\{"v":([1-9]\d{0,8}),"seq":(\d{1,18}),"remaining":(\d{1,9}),"at":(-?\d{1,30}),'
    rb'"type":"([\w.]+)","data":(.*),"crc":"[0-9a-f]{8}"\}',
    re.DOTALL,
)
_SEQ: Final = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')
_LINE_ENDS: Final = re.compile(rb"[\r\n]+")
_TAIL: Final = len(',"crc":"01234567"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where a journal stops making sense, and how bad that is."""

    kind: Literal["torn", "damage", "foreign"]
    line: int
    """From 1; of a torn decision the first line."""
    byte: int
    """Where that line begins in the file, from 0."""
    what: str

    @property
    def is_torn(self) -> bool:
        """Whether it is only the trace of a write that was cut short."""
        return self.kind == "torn"

    @property
    def place(self) -> str:
        """Where it is and what is wrong, as a sentence without its end."""
        if self.kind == "foreign":
            return f"line {self.line} was written by another version of tenex (byte {self.byte}): {self.what}"
        return f"line {self.line} cannot be right (byte {self.byte}): {self.what}"


class _Unreadable(Exception):
    """A line whose crc is right cannot be at this place."""


class _Foreign(_Unreadable):
    """A line whose crc is right holds no record that is known here."""


@dataclass(frozen=True, slots=True)
class _Kind:
    make: type[Record]
    head: bytes
    fields: FieldsCodec


class Codec:
    """Records as lines and back, for one set of kinds."""

    __slots__ = ("_by_name", "_by_type", "_has_kinds", "_migrations")

    def __init__(
        self,
        kinds: Mapping[str, type[Record]],
        migrations: Mapping[tuple[str, int], Migration] | None = None,
        *,
        has_kinds: bool = False,
    ) -> None:
        """Compile the kinds.

        Args:
            kinds: every kind by its name in the journal.
            migrations: by kind and the version they start from, each to the next version: old lines are never
                rewritten. For example `{("TurnOpened", 1): lambda data: {**data, "reason": data["why"]}}`.

            has_kinds: whether records of the registered kinds of conversation are in it too, as `<kind>.<record>`.

        Raises:
            InternalError: a kind has older versions that could not be read.
        """
        self._has_kinds = has_kinds
        self._by_name = {
            name: _Kind(kind, b',"type":"%b","data":' % name.encode(), FieldsCodec(kind, leave_out=_ENVELOPE))
            for name, kind in kinds.items()
        }
        self._by_type = {kind.make: kind for kind in self._by_name.values()}
        self._migrations = dict(migrations or {})
        wanted = {(name, older) for name, kind in kinds.items() for older in range(1, kind.version)}
        if wanted != self._migrations.keys():
            odd = ", ".join(f"{name} {older}" for name, older in sorted(wanted ^ self._migrations.keys()))
            raise InternalError(f"there must be a migration from each older version of a kind, and no other: {odd}")

    def encode_decisions(self, decisions: Iterable[Sequence[Record]]) -> bytes:
        """The lines of whole decisions, ready to be appended.

        Raises:
            InternalError: a record is not of a known kind or holds what its type forbids; nothing may be written then.
        """
        lines: list[bytes] = []
        for decision in decisions:
            remaining = len(decision)
            for record in decision:
                remaining -= 1
                lines.append(self._encode(record, remaining))
        return b"".join(lines)

    def _encode(self, record: Record, remaining: int) -> bytes:
        kind = self._by_type.get(type(record)) or self._of_registered_kind(type(record))
        if kind is None:
            raise InternalError(f"a {type(record).__name__} is not a record of this journal")
        if type(record.seq) is not int or type(record.at) is not int:
            raise InternalError(f"{type(record).__name__}: `seq` and `at` must be integers")
        head = b'{"v":%d,"seq":%d,"remaining":%d,"at":%d' % (record.version, record.seq, remaining, record.at)
        try:
            body = head + kind.head + kind.fields.encode(record)
        except ValueError as fault:
            raise InternalError(f"{type(record).__name__} of seq {record.seq} cannot be stored: {fault}") from fault
        return b'%b,"crc":"%08x"}\n' % (body, crc32(body))

    def decode_lines(self, data: bytes, first: int = 1) -> tuple[list[Record], int, Fault | None]:
        """Read a whole journal, or what was appended to one, whose first line has the seq `first`.

        Returns:
            The records of every whole decision up to the first fault, the length in bytes of their lines, and the
            fault, if the file goes on after them.
        """
        records: list[Record] = []
        whole, length, position = 0, 0, 0  # records and bytes up to the last whole decision, bytes read
        lines = data.split(b"\n")
        unfinished = lines.pop()
        expected_remaining: int | None = None
        for number, line in enumerate(lines, start=1):
            if not is_sound(line):
                torn = _torn(whole, length, f"from line {number} on nothing can be read")
                return records[:whole], length, _damage_of(lines, number, position) or torn
            try:
                record, remaining = self._decode(line)
                if isinstance(record, SnapshotRecord):
                    first = _check_snapshot(number, record, remaining)
                _check_order(lines, number, first, record.seq, remaining, expected_remaining)
            except _Unreadable as fault:
                kind: Literal["foreign", "damage"] = "foreign" if isinstance(fault, _Foreign) else "damage"
                return records[:whole], length, Fault(kind=kind, line=number, byte=position, what=str(fault))
            records.append(record)
            position += len(line) + 1
            expected_remaining = remaining - 1 if remaining else None
            if not remaining:
                whole = len(records)
                length = position
        if unfinished:
            return records[:whole], length, _torn(whole, length, "the last line has no end")
        if whole < len(records):
            return records[:whole], length, _torn(whole, length, "the last decision breaks off")
        return records, length, None

    def decode_intact(self, data: bytes) -> Iterator[Record]:
        """The records of all intact lines, in their order; for a journal that is damaged."""
        for line in data.split(b"\n"):
            with suppress(_Unreadable):
                if is_sound(line):
                    yield self._decode(line)[0]

    def _decode(self, line: bytes) -> tuple[Record, int]:
        match = _LINE.fullmatch(line)
        if match is None:
            raise _Foreign("it is not a record's line as this one writes it, although its crc is right")
        version, seq, remaining, at = map(int, match.group(1, 2, 3, 4))
        name = match[5].decode()
        data = match[6]
        kind = self._by_name.get(name) or self._named_by_kind(name)
        if kind is None:
            raise _Foreign(f"its type {name[:80]} is unknown here")
        if version > kind.make.version:
            raise _Foreign(f"{name} has version {version}, and this one knows {kind.make.version}")
        for older in range(version, kind.make.version):
            try:
                data = json.dumps(self._migrations[name, older](json.loads(data))).encode()
            except (LookupError, TypeError, ValueError, AttributeError) as fault:  # it is not what that version wrote
                raise _Foreign(f"{name} of version {older} cannot be read ({type(fault).__name__})") from fault
        try:
            return kind.make(seq=seq, at=Millis(at), **kind.fields.decode(data)), remaining
        except (ValueError, UnregisteredKind) as fault:
            raise _Foreign(f"{name}: {fault}") from fault

    def _of_registered_kind(self, record: type[Record]) -> _Kind | None:
        """How the records of a kind of conversation are written: their type begins with the name of the kind."""
        if not self._has_kinds:
            return None
        for name, format_ in FORMATS.items():
            if record in format_.records:
                return self._add(f"{name}.{record.__name__}", record)
        return None

    def _named_by_kind(self, name: str) -> _Kind | None:
        kind, dot, record_name = name.partition(".")
        if not self._has_kinds or not dot:
            return None
        if kind not in FORMATS:
            raise _Foreign(str(UnregisteredKind(kind)))
        record = next((one for one in FORMATS[kind].records if one.__name__ == record_name), None)
        return None if record is None else self._add(name, record)

    def _add(self, name: str, record: type[Record]) -> _Kind:
        fields = FieldsCodec(record, leave_out=_ENVELOPE)
        kind = _Kind(record, b',"type":"%b","data":' % name.encode(), fields)
        self._by_name[name] = kind
        self._by_type[record] = kind
        return kind


def as_written(data: bytes) -> bytes:
    """The bytes of a file as tenex wrote them, where a copy in text mode or an editor has changed its lines.

    JSON escapes every end of a line, so in a journal it can only be one of the copy. The same object where there is
    none, nor a byte order mark.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        with suppress(UnicodeError):
            data = data.decode("utf-16").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"\r" not in data and b"\n\n" not in data and not data.startswith(b"\n"):
        return data
    return _LINE_ENDS.sub(b"\n", data).removeprefix(b"\n")


def are_sound(lines: Sequence[bytes], first: int) -> bool:
    """Whether the crc of each line is right and its seq the next, from `first` on; no record is decoded."""
    return all(seq_of(line) == seq and is_sound(line) for seq, line in enumerate(lines, start=first))


def seq_of(line: bytes) -> int | None:
    """The seq of the record of a line, by its beginning; None where it is no line of ours."""
    match = _SEQ.match(line)
    return int(match[1]) if match is not None else None


def is_sound(line: bytes) -> bool:
    """Whether the line's crc is there and right."""
    body = line[:-_TAIL]
    return line[-_TAIL:] == b',"crc":"%08x"}' % crc32(body) and bool(body)


def _torn(whole: int, length: int, what: str) -> Fault:
    """What follows the last whole decision was never all there."""
    return Fault(kind="torn", line=whole + 1, byte=length, what=what)


def _damage_of(lines: list[bytes], number: int, position: int) -> Fault | None:
    """Judge an unsound line: damage where a good one follows, else the rest of a write that was cut short."""
    for later, line in enumerate(lines[number:], start=number + 1):
        if is_sound(line):
            what = f"its crc is missing or wrong, though line {later} is good"
            return Fault(kind="damage", line=number, byte=position, what=what)
    return None


def _check_snapshot(number: int, snapshot: SnapshotRecord, remaining: int) -> int:
    """The seq of the first line, which is the snapshot's."""
    if number > 1 or remaining:
        raise _Unreadable("a snapshot must be alone in its decision and first in its file")
    is_of_then = not isinstance(snapshot, StateSnapshot) or snapshot.state.next_seq == snapshot.seq + 1
    if snapshot.seq < 1 or not is_of_then:
        raise _Unreadable("its snapshot is of another record than its seq")
    return snapshot.seq


def _check_order(
    lines: list[bytes], number: int, first: int, seq: int, remaining: int, expected_remaining: int | None
) -> None:
    """Refuse a sound line that cannot be at this place; before it, line n held seq first + n - 1."""
    if seq != first + number - 1:
        if lines[number - 1] in lines[: number - 1]:
            raise _Unreadable(f"it repeats the line of seq {seq}")
        raise _Unreadable(f"its seq is {seq} where {first + number - 1} must follow")
    if expected_remaining is not None and remaining != expected_remaining:
        raise _Unreadable(f"its `remaining` is {remaining} where {expected_remaining} must follow")


_WITH_STATE: Final = (
    StateSnapshot,
    RolledBack,
    ConversationForked,
    EvaluationRequested,
    FunctionsEvaluated,
    HistoryRecovered,
)
"""Kinds that hold a state or a signal, and so cannot be in `core.records`, from which these are made."""

CONVERSATION: Final = Codec({**RECORDS, **{kind.__name__: kind for kind in _WITH_STATE}}, has_kinds=True)
"""The kinds of record a conversation's journal holds; every kind is at version 1, so there is no migration yet."""
