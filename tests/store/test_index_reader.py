"""The index as commands see it: right beside a daemon, after a killed one, and without any index at all."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Record, Waiting
from tenex.store import index_reader as catalogue_module
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.index_reader import open_catalogue
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.search_words import match_of

from .kit import StillClock, started
from .test_index import HARMS as HARMS_TO_INDEX
from .test_index import changed
from .test_index_row import wrote

ONE, TWO = (ConversationId(digit * 64) for digit in "12")


@pytest.fixture
async def folder(folder: ConversationFolder) -> ConversationFolder:
    """Two conversations that rest, and an index that knows them."""
    for name in (ONE, TWO):
        await grow(folder, name, [started(name), wrote(2, name), Waiting(seq=3, at=Millis(3), reason="user")])
    await indexed(folder)
    return folder


async def grow(folder: ConversationFolder, name: ConversationId, records: list[Record]) -> None:
    journal, _ = await folder.open(name)
    await journal.append([records])
    await journal.close()


async def indexed(folder: ConversationFolder) -> None:
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await index.close()


async def found(folder: ConversationFolder) -> list[tuple[str, int]]:
    """What a search for hello finds: the first digit of the id, and how many messages."""
    async with open_catalogue(folder) as catalogue:
        hits = await catalogue.search(match_of("hello"), Filter(), 20)
    return sorted((one.row.id[0], one.matches) for one in hits)


def reads(folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The conversations that are read from now on."""
    names: list[str] = []
    look = folder._look

    async def read(path: Path, work: Callable[[], Any]) -> Any:
        names.append(path.parent.name)
        return await look(path, work)

    monkeypatch.setattr(folder, "_look", read)
    return names


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def test_a_complete_index_is_believed(folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    names, before = reads(folder, monkeypatch), files(folder.root)
    assert await found(folder) == [("1", 1), ("2", 1)]
    async with open_catalogue(folder) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [ONE, TWO]
        assert (catalogue.fault, catalogue.unread) == ("", {})
    assert names == []
    assert files(folder.root) == before


async def test_what_is_not_indexed_is_read_from_journals(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed daemon had not written its last words into the index."""
    await grow(folder, TWO, [wrote(4, "4" * 64), Waiting(seq=5, at=Millis(5), reason="user")])
    new = ConversationId("3" * 64)
    await grow(folder, new, [started(new), wrote(2, new)])
    shutil.rmtree(folder.path(ONE))
    names, before = reads(folder, monkeypatch), files(folder.root)
    assert await found(folder) == [("2", 2), ("3", 1)]
    async with open_catalogue(folder) as catalogue:
        assert {row.id: row.status for row in await catalogue.rows(Filter())} == {TWO: "waiting", new: "active"}
    assert set(names) == {TWO, new}
    assert files(folder.root) == before


@pytest.mark.parametrize("had_daemon", [True, False])
async def test_beside_a_daemon_it_reads_what_is_written(folder: ConversationFolder, had_daemon: bool) -> None:
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await grow(folder, TWO, [wrote(4, "4" * 64), Waiting(seq=5, at=Millis(5), reason="user")])
    if had_daemon:
        await index.catch_up(folder)
        await index.flush()
    assert (folder.root / "index.sqlite-wal").exists()
    assert await found(folder) == [("1", 1), ("2", 2)]
    await index.close()


async def test_a_journal_growing_beside_is_not_read(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is at work: between our looks at the folder and at the index it goes on."""
    lengths = await folder.lengths()
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await grow(folder, TWO, [wrote(4, "4" * 64), Waiting(seq=5, at=Millis(5), reason="user")])
    await index.catch_up(folder)
    await index.flush()
    await grow(folder, TWO, [Waiting(seq=6, at=Millis(6), reason="user")])
    looks = iter([lengths, await folder.lengths()])

    async def look() -> dict[ConversationId, int]:
        return next(looks)

    monkeypatch.setattr(folder, "lengths", look)
    names = reads(folder, monkeypatch)
    assert await found(folder) == [("1", 1), ("2", 2)]
    assert names == []
    await index.close()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, Callable[[Path], object]] = {
    name: HARMS_TO_INDEX[name]
    for name in ("not a database", "cut at 0.5", "pragma user_version = 99", "drop table words")
} | {
    "only a search meets the damage": changed("delete from words_data where id > 10"),
    "a folder": _folder,
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_an_unusable_index_is_reported(folder: ConversationFolder, harm: Callable[[Path], object]) -> None:
    path = folder.root / "index.sqlite"
    harm(path)
    before = files(folder.root)
    async with open_catalogue(folder) as catalogue:
        assert len(await catalogue.search(match_of("hello"), Filter(), 20)) == 2
        assert len(await catalogue.rows(Filter())) == 2
        assert catalogue.fault.startswith(f"{path} is of no use: ")
    assert files(folder.root) == before


async def test_without_an_index_every_journal_is_read_and_shown(folder: ConversationFolder) -> None:
    (folder.root / "index.sqlite").unlink()
    seen: list[ConversationId] = []

    def shown(names: Sequence[ConversationId]) -> Iterator[ConversationId]:
        for name in names:
            seen.append(name)
            yield name

    async with open_catalogue(folder, shown) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [ONE, TWO]
        assert catalogue.fault == ""
    assert seen == [ONE, TWO]
    assert not (folder.root / "index.sqlite").exists()


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


async def test_a_journal_that_cannot_be_read_is_named_and_the_others_are_found(folder: ConversationFolder) -> None:
    journal = folder.path(TWO) / "journal.jsonl"
    damaged = bytearray(journal.read_bytes()) + b"x"
    damaged[20] ^= 1
    journal.write_bytes(damaged)
    (folder.root / "index.sqlite").unlink()
    async with open_catalogue(folder) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [ONE]
        assert list(catalogue.unread) == [TWO]
        assert "line 1" in catalogue.unread[TWO]


async def test_a_locked_index_is_no_obstacle(folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_module, "BUSY_MS", 1)
    held = "pragma locking_mode = exclusive; begin exclusive; create table mine (x);"
    code = (
        f"import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript({held!r}); print(1, flush=True); input()"
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(folder.root / "index.sqlite"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert await other.stdout.readline() == b"1\n"
    assert await found(folder) == [("1", 1), ("2", 1)]
    await other.communicate(b"\n")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs another user to be")
async def test_a_folder_that_may_only_be_read_is_enough(folder: ConversationFolder) -> None:
    """Another user, who may read all and write nothing, also where a killed daemon left its files beside the index."""
    index = Index(folder.root / "index.sqlite")
    index.set_cursor("wss://a", Millis(1))
    await index.flush()
    for suffix in ("", "-wal", "-shm"):  # as they are while it is open
        shutil.copy(f"{folder.root}/index.sqlite{suffix}", f"{folder.root}/copy{suffix}")
    await index.close()
    for suffix in ("", "-wal", "-shm"):
        (folder.root / f"copy{suffix}").rename(folder.root / f"index.sqlite{suffix}")
    # not below pytest's own folder, which is closed to others and stays so
    with tempfile.TemporaryDirectory(prefix="tenex-readable-") as place:
        root = Path(place) / "conversations"
        shutil.copytree(folder.root, root)
        for path in (root.parent, root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = files(root)
        assert await asked_by_another(root) == "[('1', 1), ('2', 1)]"
        assert files(root) == before


async def asked_by_another(root: Path) -> str:
    """What a user who owns nothing finds."""
    code = (
        "import asyncio, sys; from pathlib import Path; from tests.store import test_index_reader as t;"
        "from tenex.store.disk import Disk; from tenex.store.repository import ConversationFolder\n"
        "async def main():\n"
        "    print(await t.found(ConversationFolder(Path(sys.argv[1]), Disk(), t.StillClock())))\n"
        "asyncio.run(main())"
    )
    done = await asyncio.create_subprocess_exec(
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        sys.executable,
        "-c",
        code,
        str(root),
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await done.communicate()
    assert done.returncode == 0, errors.decode()
    return out.decode().strip()


async def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path, disk: Disk) -> None:
    async with open_catalogue(ConversationFolder(tmp_path / "none", disk, StillClock())) as catalogue:
        assert await catalogue.rows(Filter()) == []
        assert await catalogue.search(match_of("hello"), Filter(), 20) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [None, b"", bytes(512)], ids=["gone", "empty", "zeros"])
async def test_an_emptied_journal_is_no_new_conversation(folder: ConversationFolder, content: bytes | None) -> None:
    """Its view shows that there was more: it is reported, and not shown as an empty one of 1970."""
    path = folder.path(ONE)
    (path / "conversation.json").write_text('{"title": "it was about something"}')
    if content is None:
        (path / "journal.jsonl").unlink()
    else:
        (path / "journal.jsonl").write_bytes(content)
    (folder.root / "index.sqlite").unlink()
    async with open_catalogue(folder) as catalogue:
        assert [row.id for row in await catalogue.rows(Filter())] == [TWO]
    assert "though conversation.json is beside it" in catalogue.unread[ONE]
    for read in (folder.read, folder.read_left):
        with pytest.raises(StoreDamaged, match=r"journal\.jsonl .*though conversation\.json is beside it"):
            await read(ONE)
