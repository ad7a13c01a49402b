"""Journals in a database: the rows that the lines of files would be, and who may write them.

Views are files in `root`, one such folder for each worker.
"""

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, LiteralString, NamedTuple

from tenex.core.conversation import fold
from tenex.core.errors import DatabaseFailed, HeldElsewhere, StoreDamaged, StoreError, StoreOtherVersion
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.log import get_logger
from tenex.store import atomic, atomic_folder
from tenex.store.contents import Contents, Remains, lines_of
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import NEWEST, VIEW, covered_by, note_lost_end
from tenex.store.reading import decode_file, records_of
from tenex.store.record_log import Head
from tenex.store.view import write_view

from .daemon_records import PostgresDaemonRecords
from .database import CONNECTIONS, READING, Connection, Database, Unavailable
from .leases import Leases, Taken
from .writer import PostgresWriter

REMEDY: Final = (
    "Restore the database from a backup; or stop the daemon of this folder and make a new journal of what can be "
    "recovered, with `tenex conversations rebuild ID --from conversation.json` or `--from relay`. The damaged one is "
    "kept."
)


_SNAPSHOTS: Final[LiteralString] = """
select seq, line, file from tenex_snapshots
where conversation = %(id)s
    and seq >= coalesce(
        (select max(seq) from tenex_snapshots where conversation = %(id)s and seq <= %(since)s), 0
    )
    and seq < greatest(%(until)s, (select min(seq) from tenex_records where conversation = %(id)s))
order by file
"""
_LINES: Final[LiteralString] = """
select seq, line from tenex_records
where conversation = %(id)s and seq > %(after)s
    and seq <= coalesce(
        (select min(seq) from tenex_snapshots where conversation = %(id)s
            and seq >= greatest(%(until)s, (select min(seq) from tenex_records where conversation = %(id)s))),
        %(most)s
    )
order by seq
"""
_KNOWN: Final[LiteralString] = "select 1 from tenex_conversations where id = %s and next_seq > 1"
_NEWER: Final[LiteralString] = "select line from tenex_records where conversation = %s and seq > %s order by seq"
_HEADS: Final[LiteralString] = """
select id, bytes, extract(epoch from changed)::float8 from tenex_conversations where next_seq > 1 order by id
"""
_SIZE: Final[LiteralString] = "select bytes from tenex_conversations where id = %s"
_MARK: Final[LiteralString] = "update tenex_conversations set quarantined = %s where id = %s"
_PUT: Final[LiteralString] = """
update tenex_conversations
set next_seq = %(next)s, bytes = %(bytes)s, file_bytes = %(file_bytes)s, snapshot_bytes = %(snapshot_bytes)s,
    files = %(files)s, changed = clock_timestamp(), quarantined = null
where id = %(id)s and token = %(token)s and holder = %(worker)s
"""
_CUT_RECORDS: Final[LiteralString] = "delete from tenex_records where conversation = %s and seq > %s"
_CUT_SNAPSHOTS: Final[LiteralString] = "delete from tenex_snapshots where conversation = %s and file > %s"
_PUT_RECORDS: Final[LiteralString] = """
insert into tenex_records (conversation, token, seq, line)
select %s::text, %s::bigint, new.seq, new.line from unnest(%s::bigint[], %s::text[]) as new (seq, line)
"""
_PUT_SNAPSHOT: Final[LiteralString] = (
    "insert into tenex_snapshots (conversation, file, seq, token, line) values (%s, %s, %s, %s, %s)"
)

OPENERS: Final = CONNECTIONS // 2
"""Conversations that are opened at once: a start has thousands, and appends need connections meanwhile."""
CHUNK: Final = 2_000
"""Records of a copy that are sent at once: some MB."""
_SEQ_LIMIT: Final = 2**63 - 1

log = get_logger(__name__)


class PostgresLog:
    """The journals of a database, as one worker uses them (`store.record_log.RecordLog`)."""

    is_in_files = False
    remedy = REMEDY

    def __init__(self, database: Database, held: Leases, root: Path, disk: Disk, clock: Clock) -> None:
        self.foreign: set[str] = set()
        """Conversations that another version has written: they are no worse for that, and not for this worker."""
        self._database = database
        self._leases = held
        self._root = root
        self._disk = disk
        self._clock = clock
        self._openers = asyncio.Semaphore(OPENERS)

    @property
    def place(self) -> str:
        """The database, without user and password."""
        return self._database.place

    def place_of(self, conversation: ConversationId, file: int) -> str:  # noqa: ARG002 - all are in one table
        """See `RecordLog`."""
        return f"conversation {conversation[:12]} in {self._database.place}"

    def lost_past(self, conversation: ConversationId, numbers: Sequence[int], seq: int) -> str:
        """See `RecordLog`."""
        what = f"nothing is known of what was before record {seq + 1}"
        return f"{self.place_of(conversation, min(numbers))}: {what}. The daemon goes on from the state after it."

    async def open(self, conversation: ConversationId) -> tuple[PostgresWriter, list[Record]]:
        """See `RecordLog`; what another version has written gets no mark."""
        async with self._openers:
            if self._leases.drains:
                raise HeldElsewhere(
                    f"this worker is drained, and leaves the conversation {conversation[:12]} to others"
                )
            try:
                lease, taken = await self._leases.take(conversation)
            except Unavailable as fault:
                raise DatabaseFailed(f"{fault}. It is tried again.") from fault
            writer = PostgresWriter(self._database, self._leases, lease, taken)
            try:
                return writer, await self._checked(conversation, taken)
            except StoreOtherVersion as fault:
                await writer.close()
                self.foreign.add(conversation)
                if await self._is_left_to_another_version():
                    raise HeldElsewhere(f"{fault} A daemon of another version goes on with it.") from fault
                raise
            except StoreDamaged as fault:
                damaged = StoreDamaged(f"{fault} {REMEDY.replace('ID', conversation[:12])}")
                await self.mark(conversation, str(damaged))
                await writer.close()
                raise damaged from fault
            except Unavailable as fault:
                await writer.close()
                raise DatabaseFailed(f"{fault}. It is tried again.") from fault
            except BaseException:
                await writer.close()
                raise

    async def _checked(self, conversation: ConversationId, taken: Taken) -> list[Record]:
        """The records to fold, which agree with the row of the conversation; it is no longer marked as damaged.

        Raises:
            StoreDamaged: they do not, or hold what we did not write.
            Unavailable: the database cannot be used now.
        """
        place = self.place_of(conversation, 1)
        files = await self.files(conversation, NEWEST - 1, NEWEST)
        records, _ = await self._disk.run(
            records_of,
            files,
            NEWEST,
            CONVERSATION,
            partial(self.place_of, conversation),
            partial(self.lost_past, conversation),
            may_be_torn=False,
        )
        last = records[-1].seq if records else 0
        if taken.next_seq != last + 1:
            what = f"it ends with record {last}, though {taken.next_seq - 1} were stored"
            raise StoreDamaged(f"{place}: {what}. Nothing was changed.")
        view = self._root / conversation / VIEW
        if not records and await asyncio.to_thread(_is_unreadable, view):  # else `operations.recovery` reads it
            raise StoreDamaged(f"{place}: it is missing, though {view} is there. Nothing was changed.")
        if taken.quarantined is not None:
            await self._mark(conversation, None)
        await self._disk.change(note_lost_end, view, Path(place), last)
        return records

    async def files(self, conversation: ConversationId, since: int, until: int) -> Remains:
        """See `RecordLog`: what files would hold; an empty one where the rows of a conversation are gone."""
        rows = await self._rows(conversation, since, until)
        if rows.records or rows.snapshots:
            return await self._disk.run(_as_files, rows)
        return {1: b""} if await self._database.rows(_KNOWN, [conversation]) else {}

    async def _rows(self, conversation: ConversationId, since: int, until: int) -> "Rows":
        parameters = {
            "id": conversation,
            "since": min(since, _SEQ_LIMIT),
            "until": min(until, _SEQ_LIMIT),
            "most": _SEQ_LIMIT,
        }
        snapshots = await self._database.rows(_SNAPSHOTS, parameters, READING)
        is_first_read = not snapshots or snapshots[0][0] > since
        after = 0 if is_first_read else snapshots[0][0]
        return Rows(await self._database.rows(_LINES, {**parameters, "after": after}, READING), snapshots)

    def tail(self, conversation: ConversationId, seq: int) -> "PostgresTail":
        """See `RecordLog`."""
        return PostgresTail(self._database, self._disk, conversation, seq, self.place_of(conversation, 1))

    async def heads(self) -> dict[ConversationId, Head]:
        """See `RecordLog`."""
        rows = await self._database.rows(_HEADS, seconds=READING)
        return {ConversationId(name): Head(length, written) for name, length, written in rows}

    async def size(self, conversation: ConversationId) -> int:
        """See `RecordLog`."""
        rows = await self._database.rows(_SIZE, [conversation])
        return int(rows[0][0]) if rows else 0

    async def behind(self) -> list[ConversationId]:
        """See `RecordLog`; of those that this worker had when it died."""
        rows = await self._database.rows(
            "select id, next_seq from tenex_conversations where next_seq > 1 and holder = %s order by id",
            [self._leases.worker],
            READING,
        )
        return await self._disk.run(_behind, self._root, rows)

    async def marks(self) -> dict[ConversationId, str]:
        """See `RecordLog`."""
        rows = await self._database.rows(
            "select id, quarantined from tenex_conversations where quarantined is not null order by id"
        )
        return {ConversationId(name): why for name, why in rows}

    async def mark(self, conversation: ConversationId, why: str) -> None:
        """See `RecordLog`."""
        with suppress(Unavailable):  # the mark is a courtesy; the error is what counts
            await self._mark(conversation, why)

    async def settle(self, conversation: ConversationId) -> None:
        """Do nothing: a transaction leaves nothing half done."""

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """See `RecordLog`: one transaction, and what is wanted and there already stays.

        Where the wanted one begins with a snapshot, as a rebuild may leave it, that is of the second file.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: it has changed since, or the database cannot be used now.
        """
        lines = await self._disk.run(lambda: list(lines_of(wanted)))
        first_file = 2 if lines[0].file else 1
        records = [(line.seq, line.text) for line in lines if not line.file]
        snapshots = [(line.seq, line.text, line.file + first_file - 1) for line in lines if line.file]
        try:
            lease, _ = await self._leases.take(conversation)
        except HeldElsewhere as fault:
            raise HeldElsewhere(f"{fault}. Nothing was changed. Wait until it rests, or drain that daemon.") from fault
        try:
            stored = await self._rows(conversation, 0, NEWEST)
            if list((await self._disk.run(_as_files, stored)).values()) != list(there):
                raise StoreError(f"{self.place_of(conversation, 1)} has changed since; try again.")
            same = _count_same(stored.records, records)
            same_snapshots = _count_same(stored.snapshots, snapshots)
            newest = snapshots[-1] if snapshots and snapshots[-1][2] == len(wanted) + first_file - 1 else None
            values = {
                "id": conversation,
                "token": lease.token,
                "worker": self._leases.worker,
                "next": lines[-1].seq + 1,
                "bytes": sum(map(len, wanted)),
                "file_bytes": len(wanted[-1]),
                "snapshot_bytes": len(newest[1].encode()) + 1 if newest is not None else 0,
                "files": len(wanted) + first_file - 1,
            }

            async def put(connection: Connection) -> bool:
                async with connection.transaction():
                    cursor = await connection.execute(_PUT, values)
                    if not cursor.rowcount:
                        return False
                    last = records[same - 1][0] if same else 0
                    await connection.execute(_CUT_RECORDS, [conversation, last])
                    last = snapshots[same_snapshots - 1][2] if same_snapshots else 0
                    await connection.execute(_CUT_SNAPSHOTS, [conversation, last])
                    for start in range(same, len(records), CHUNK):
                        seqs, texts = zip(*records[start : start + CHUNK], strict=True)
                        await connection.execute(_PUT_RECORDS, [conversation, lease.token, list(seqs), list(texts)])
                    for seq, text, file in snapshots[same_snapshots:]:
                        await connection.execute(_PUT_SNAPSHOT, [conversation, file, seq, lease.token, text])
                return True

            if not await self._database.run(put, READING, is_doubted=True):
                raise StoreError(f"{self.place_of(conversation, 1)} has changed since; try again.")
        finally:
            await self._leases.give_back(lease)

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """See `RecordLog`.

        Raises:
            HeldElsewhere: a worker writes it.
        """
        folder = self._root / conversation
        if await asyncio.to_thread((folder / VIEW).exists):
            raise StoreError(f"{folder} exists. Nothing was changed. Move it away first.")
        if await self.files(conversation, 0, NEWEST):
            raise StoreError(f"{self.place_of(conversation, 1)} is there already. Nothing was changed.")
        await self.put(conversation, [], [CONVERSATION.encode_decisions(decisions)])

    async def renew(self, conversation: ConversationId, there: Remains, decisions: Sequence[Sequence[Record]]) -> Path:
        """See `RecordLog`; what there is is kept as files in the folder of the view.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: it has changed since, the disk did not take what is there, or the database cannot be used now;
                nothing was changed.
        """
        records = [record for decision in decisions for record in decision]
        state = fold(conversation, records)
        folder = self._root / conversation
        when = atomic.stamp(self._clock.now())
        aside = await self._disk.run(atomic_folder.set_aside, folder, there, when)
        contents = [content for content in there.values() if isinstance(content, bytes)]
        try:
            await self.put(conversation, contents, [CONVERSATION.encode_decisions(decisions)])
        except BaseException:
            await self._disk.run(shutil.rmtree, aside, ignore_errors=True)
            raise
        try:
            await self._disk.run(atomic_folder.remove_views, folder, state, decisions)
            await self._disk.change(write_view, folder, state, records)
        except OSError as fault:  # the journal is there, and who goes on with it writes the view
            log.warning("view.failed", conversation=conversation, reason=str(fault))
        return aside

    def daemon_records(self) -> PostgresDaemonRecords:
        """See `RecordLog`; all daemons share them."""
        return PostgresDaemonRecords(self._database, self._disk)

    async def _is_left_to_another_version(self) -> bool:
        """Whether a daemon of another version runs, as during an upgrade of one after the other."""
        with suppress(Unavailable):
            own = self._leases.version
            return any(worker.version != own and not worker.is_silent for worker in await self._leases.workers())
        return False

    async def _mark(self, conversation: str, why: str | None) -> None:
        async def mark(connection: Connection) -> None:
            await connection.execute(_MARK, [why, conversation])

        await self._database.run(mark)


class PostgresTail:
    """Follows a journal that a worker writes (`store.record_log.Tail`)."""

    def __init__(self, database: Database, disk: Disk, conversation: ConversationId, seq: int, place: str) -> None:
        self._database = database
        self._disk = disk
        self._conversation = conversation
        self._seq = seq
        self._place = place

    async def read(self) -> list[Record]:
        """See `Tail`."""
        rows = await self._database.rows(_NEWER, [self._conversation, self._seq])
        if not rows:
            return []
        data = "".join(f"{line}\n" for (line,) in rows).encode()
        place = self._place
        records = await self._disk.run(decode_file, data, CONVERSATION, place, self._seq + 1, may_be_torn=False)
        self._seq = records[-1].seq
        return records


class Rows(NamedTuple):
    """The rows of a journal, or of a part of it, in order."""

    records: Sequence[tuple[Any, ...]]
    """Of each the seq and the line."""
    snapshots: Sequence[tuple[Any, ...]]
    """Of each the same, and the number of the file that it begins."""


def _as_files(rows: Rows) -> dict[int, bytes]:
    """What the files would hold, by their number: each but the first begins with its snapshot."""
    lines: dict[int, list[str]] = {file: [line] for _, line, file in rows.snapshots}
    waiting = list(reversed(rows.snapshots))
    number = 1
    for seq, line in rows.records:
        while waiting and waiting[-1][0] < seq:
            number = waiting.pop()[2]
        lines.setdefault(number, []).append(line)
    return {file: "".join(f"{line}\n" for line in lines[file]).encode() for file in sorted(lines)}


def _count_same(stored: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]]) -> int:
    """How many rows at the beginning are in both."""
    pairs = zip(stored, wanted, strict=False)
    return next((number for number, (row, other) in enumerate(pairs) if row != other), min(len(stored), len(wanted)))


def _is_unreadable(view: Path) -> bool:
    """Whether a view is there that does not say what it covers."""
    try:
        return not covered_by(view)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _behind(root: Path, rows: Sequence[tuple[Any, ...]]) -> list[ConversationId]:
    behind = []
    for name, next_seq in rows:
        covered = 0
        with suppress(OSError):
            covered = covered_by(root / name / VIEW)
        if covered < next_seq - 1:
            behind.append(ConversationId(name))
    return behind
