"""The index as commands see it: right beside a daemon, after a killed one, and without any index at all."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.index_reader import open_catalogue
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.search_words import match_of
from tests.kits.damage import harm

from .kit import Seen, StillClock, encoded, started, stored, waits, wrote

ONE, TWO = (ConversationId(digit * 64) for digit in "12")


@pytest.fixture
async def folder(folder: ConversationFolder) -> ConversationFolder:
    """Two conversations that rest, and an index that knows them."""
    for name in (ONE, TWO):
        await stored(folder, name, started(name), wrote(2, name), waits(3))
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await index.close()
    return folder


async def found(folder: ConversationFolder, *read: ConversationId) -> list[tuple[str, int]]:
    """What a search for hello finds, having read these journals: the first digit of the id, and how many messages."""
    seen = Seen()
    async with open_catalogue(folder, seen) as catalogue:
        hits = await catalogue.search(match_of("hello"), Filter(), 20)
    assert {*seen} == {*read}
    return sorted((one.row.id[0], one.matches) for one in hits)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def test_a_complete_index_is_believed(folder: ConversationFolder) -> None:
    before = files(folder.root)
    assert await found(folder) == [("1", 1), ("2", 1)]
    async with open_catalogue(folder) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [ONE, TWO]
        assert (catalogue.fault, catalogue.unread) == ("", {})
    assert files(folder.root) == before


async def test_what_is_not_indexed_is_read_from_journals(folder: ConversationFolder) -> None:
    """A killed daemon had not written its last words into the index."""
    await stored(folder, TWO, wrote(4, "4" * 64), waits(5))
    new = ConversationId("3" * 64)
    await stored(folder, new, started(new), wrote(2, new))
    shutil.rmtree(folder.path(ONE))
    before = files(folder.root)
    assert await found(folder, TWO, new) == [("2", 2), ("3", 1)]
    async with open_catalogue(folder) as catalogue:
        assert {row.id: row.status for row in await catalogue.rows(Filter())} == {TWO: "waiting", new: "active"}
    assert files(folder.root) == before


@pytest.mark.parametrize("had_time", [True, False])
async def test_beside_a_daemon_or_files_of_a_killed_one_it_reads_what_is_written(
    folder: ConversationFolder, had_time: bool
) -> None:
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await stored(folder, TWO, wrote(4, "4" * 64), waits(5))
    if had_time:
        await index.catch_up(folder)
        await index.flush()
    assert (folder.root / "index.sqlite-wal").exists()
    killed = folder.root.with_name("killed")
    shutil.copytree(folder.root, killed)
    for root in (folder.root, killed):
        there = await found(ConversationFolder(root, Disk(), StillClock()), *([] if had_time else [TWO]))
        assert there == [("1", 1), ("2", 2)]
    assert await found(ConversationFolder(folder.root / "missing", Disk(), StillClock())) == []
    await index.close()


@pytest.mark.parametrize(
    "how",
    [b"no database", "pragma user_version = 99", "drop table words", "delete from words_data where id > 10", None],
)
async def test_an_unusable_index_is_reported(folder: ConversationFolder, how: bytes | str | None) -> None:
    """Also where only a search meets the damage, or a folder has its name."""
    path = folder.root / "index.sqlite"
    if how is None:
        path.unlink()
        path.mkdir()
    else:
        harm(path, how)
    before = files(folder.root)
    async with open_catalogue(folder) as catalogue:
        assert len(await catalogue.search(match_of("hello"), Filter(), 20)) == 2
        assert len(await catalogue.rows(Filter())) == 2
        assert catalogue.fault.startswith(f"{path} is of no use: ")
    assert files(folder.root) == before


@pytest.mark.parametrize("is_in_wal_mode", [False, True])
async def test_an_index_just_being_made_is_none_yet(folder: ConversationFolder, is_in_wal_mode: bool) -> None:
    """Between the file and its tables lie some ms: a reader then uses the journals, and reports no damage."""
    path = folder.root / "index.sqlite"
    path.write_bytes(b"")
    maker = sqlite3.connect(path)
    if is_in_wal_mode:
        maker.execute("pragma journal_mode = wal")
    async with open_catalogue(folder) as catalogue:
        assert len(await catalogue.search(match_of("hello"), Filter(), 20)) == 2
        assert catalogue.fault == ""
    maker.close()


@pytest.mark.parametrize("content", [None, b"", bytes(512), b"x\n" + encoded(started(ONE))])
async def test_without_an_index_every_journal_is_read_and_one_that_cannot_be_is_named(
    folder: ConversationFolder, content: bytes | None
) -> None:
    """An emptied journal, beside a view that shows that there was more, is no new conversation of 1970."""
    path = folder.path(ONE)
    (path / "conversation.json").write_text('{"title": "it was about something"}')
    if content is None:
        (path / "journal.jsonl").unlink()
    else:
        (path / "journal.jsonl").write_bytes(content)
    (folder.root / "index.sqlite").unlink()
    seen = Seen()
    async with open_catalogue(folder, seen) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [TWO]
        assert catalogue.fault == ""
    why = "line 1 cannot be right" if content and content[0] else "though conversation.json is beside it"
    assert why in catalogue.unread[ONE]
    assert seen == [ONE, TWO]
    assert not (folder.root / "index.sqlite").exists()
    for read in (folder.read, folder.read_left):
        with pytest.raises(StoreDamaged, match=rf"journal\.jsonl.*{why}"):
            await read(ONE)
