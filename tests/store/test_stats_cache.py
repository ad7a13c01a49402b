"""The cache of figures: what it gives is what counting all gives, and nothing is read again that has not changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tenex.store.stats import Stats, count
from tenex.store.stats_cache import NAME, StatsCache
from tests.fakes.scenario import ID
from tests.kits.lived import lived

from .kit import StillClock


@pytest.mark.parametrize("seed", range(3))
def test_counting_on_gives_what_counting_all_gives(seed: int) -> None:
    records = lived(seed).records()
    whole = count(ID, records)
    for cut in range(0, len(records), 7):
        before = count(ID, records[:cut])
        assert count(ID, records, before) == whole, cut
        if cut:
            first = cut - cut // 2
            snapshot = StateSnapshot.of(fold(ID, records[:first]))
            assert count(ID, [snapshot, *records[first:]], before) == whole, cut


class Written:
    """A folder with one journal, and what a command counts in it."""

    def __init__(self, root: Path) -> None:
        self.disk = Disk()
        self.folder = ConversationFolder(root, self.disk, StillClock())

    async def append(self, records: list[Record], *, rotate: bool = False) -> None:
        journal, before = await self.folder.open(ID)
        await journal.append([[record] for record in records])
        if rotate:
            await journal.rotate(StateSnapshot.of(fold(ID, [*before, *records])))
        await journal.close()

    async def stats(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Stats, list[int]]:
        """What a command of its own says, and what it has read."""
        read: list[int] = []
        plain = Conversations.read_left

        async def read_left(folder: Conversations, name: ConversationId, since: int = 0) -> tuple[list[Record], str]:
            read.append(since)
            return await plain(folder, name, since)

        with monkeypatch.context() as patch:
            patch.setattr(Conversations, "read_left", read_left)
            cache = StatsCache(self.folder, "1")
            await cache.load()
            heads = await self.folder.heads()
            stats, missing = await cache.stats(ID, heads[ID])
            await cache.save(heads)
        assert not missing
        return stats, read


def _unsealed(records: list[Record]) -> list[Record]:
    return [record for record in records if not isinstance(record, StateSnapshot)]


async def test_only_what_was_appended_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = _unsealed(lived(1).records())
    middle = len(records) // 2
    written = Written(tmp_path)
    await written.append(records[:middle], rotate=True)
    assert await written.stats(monkeypatch) == (Stats.of(ID, records[:middle]), [0])
    assert await written.stats(monkeypatch) == (Stats.of(ID, records[:middle]), [])
    await written.append(records[middle:])
    assert await written.stats(monkeypatch) == (Stats.of(ID, records), [records[middle - 1].seq])
    assert await written.stats(monkeypatch) == (Stats.of(ID, records), [])


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": "another", "entries": {}}', b'{"entries": []}'])
async def test_a_file_of_no_use_is_replaced(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = _unsealed(lived(0).records())
    written = Written(tmp_path)
    await written.append(records)
    (tmp_path / NAME).write_bytes(content)
    assert await written.stats(monkeypatch) == (Stats.of(ID, records), [0])
    assert await written.stats(monkeypatch) == (Stats.of(ID, records), [])


async def test_another_journal_of_that_name_is_counted_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = _unsealed(lived(0).records())
    other = [replace(record, at=Millis(record.at + 1)) for record in _unsealed(lived(1).records())]
    written = Written(tmp_path)
    await written.append(records[:5])
    await written.stats(monkeypatch)
    for file in (tmp_path / ID).glob("journal*"):
        file.unlink()
    await written.append(other)
    stats, read = await written.stats(monkeypatch)
    assert (stats, read[-1]) == (Stats.of(ID, other), 0)


async def test_conversations_that_are_gone_leave_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path)
    await written.append(_unsealed(lived(0).records()))
    await written.stats(monkeypatch)
    assert ID in (tmp_path / NAME).read_text()
    cache = StatsCache(written.folder, "1")
    await cache.load()
    await cache.save({})
    assert ID not in (tmp_path / NAME).read_text()
