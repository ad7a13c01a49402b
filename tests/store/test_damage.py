"""Damage of every kind, at every place: found or harmless, never believed, and never another conversation's business.

What loading does with the end of a file is in `test_loading`, what each line proves in `test_format`; here a whole
folder of conversations is opened as a daemon opens it.
"""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, load, peek
from tenex.store.repository import ConversationFolder
from tests.fakes.scenario import ID

from .kit import asked, started
from .test_stats import lived

REMEDY = "Call the carpenter."
NAMES = [ConversationId(digit * 64) for digit in "abc"]


def short() -> list[list[Record]]:
    """The first decisions of a real conversation: small enough to spoil at every byte."""
    decisions = [list(decision) for decision in lived(0).journal]
    return decisions[:2]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that flushes nothing: what is durable when is tested elsewhere, and here thousands of files are made."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def states_of(decisions: list[list[Record]]) -> list[Conversation]:
    """Every state a prefix of whole decisions leads to."""
    records: list[Record] = []
    states = [fold(ID, [])]
    for decision in decisions:
        records += decision
        states.append(fold(ID, records))
    return states


@pytest.mark.usefixtures("hasty")
def test_a_flipped_bit_at_any_byte_is_found_or_costs_the_last_decision(tmp_path: Path) -> None:
    """On disk: damage leaves every byte where it is, and a tail that is cut off is kept."""
    decisions = short()
    good = CONVERSATION.encode_decisions(decisions)
    states = states_of(decisions)
    last = len(good) - len(CONVERSATION.encode_decisions(decisions[-1:]))
    path = tmp_path / ID / JOURNAL
    path.parent.mkdir()
    found = {"damage": 0, "torn": 0}
    for place in range(len(good)):
        broken = bytearray(good)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        try:
            loaded = load(path, CONVERSATION, "then", REMEDY)
        except StoreDamaged:
            found["damage"] += 1
            assert path.read_bytes() == broken
            assert (path.parent / MARK).read_text().startswith(f"{path}: line ")
            continue
        found["torn"] += 1
        assert place >= last - 1  # the line end before it belongs to both
        assert fold(ID, loaded.records) in states
        assert loaded.torn is not None
        assert path.read_bytes() + loaded.torn.read_bytes() == broken
        loaded.torn.unlink()
    assert min(found.values()) > 100


@pytest.mark.usefixtures("hasty")
def test_a_tail_of_zeroes_costs_no_more_than_the_decision_it_is_in(tmp_path: Path) -> None:
    """What a file system leaves that had grown the file and not written the page; then the journal goes on."""
    decisions = short()
    good = CONVERSATION.encode_decisions(decisions)
    before = CONVERSATION.encode_decisions(decisions[:-1])
    path = tmp_path / ID / JOURNAL
    path.parent.mkdir()
    for cut in (*range(len(before), len(good), 7), len(good) - 1):
        path.write_bytes(good[:cut] + bytes(len(good) - cut))
        loaded = load(path, CONVERSATION, "then", REMEDY)
        assert loaded.length == len(before)
        path.write_bytes(path.read_bytes() + CONVERSATION.encode_decisions(decisions[-1:]))
        assert peek(path, CONVERSATION) == [record for decision in decisions for record in decision]


# ---- beside other conversations -----------------------------------------------------------------------------------


def middle(path: Path) -> None:
    data = bytearray((path / JOURNAL).read_bytes())
    data[len(data) // 3] ^= 4
    (path / JOURNAL).write_bytes(data)


def as_folder(name: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        (path / name).mkdir()

    return spoil


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no folder")


def pipe(path: Path) -> None:
    (path / JOURNAL).unlink()
    os.mkfifo(path / JOURNAL)


def doubled(path: Path) -> None:
    lines = (path / JOURNAL).read_bytes().splitlines(keepends=True)
    (path / JOURNAL).write_bytes(b"".join([*lines, lines[-1]]))


def emptied(path: Path) -> None:
    (path / JOURNAL).write_bytes(b"")


def zeroed(path: Path) -> None:
    (path / JOURNAL).write_bytes(bytes((path / JOURNAL).stat().st_size))


def removed(path: Path) -> None:
    (path / JOURNAL).unlink()


SPOILERS: dict[str, Callable[[Path], None]] = {
    "a bit": middle,
    "a folder for the journal": as_folder(JOURNAL),
    "a file for the folder": file_for_folder,
    "a pipe for the journal": pipe,
    "the last line twice": doubled,
    "an empty journal": emptied,
    "a journal of zeroes": zeroed,
    "no journal": removed,
}


@pytest.fixture
async def folder(folder: ConversationFolder) -> AsyncIterator[ConversationFolder]:
    """Three conversations with their views."""
    for name in NAMES:
        journal, _ = await folder.open(name)
        await journal.append([[started(name)], [asked(2), asked(3)]])
        (folder.path(name) / VIEW).write_text("{}")
    await folder.close()
    yield folder
    await folder.close()


@pytest.mark.parametrize("what", SPOILERS)
async def test_one_damaged_conversation_is_refused_and_the_others_go_on(folder: ConversationFolder, what: str) -> None:
    """Opened, written to, listed and indexed as ever; the damaged one as it was, and named."""
    one, *others = NAMES
    SPOILERS[what](folder.path(one))
    before = _all_of(folder.path(one))
    index = Index(folder.root / "index.sqlite")
    unfinished = await index.catch_up(folder)
    await index.close()
    with pytest.raises(StoreDamaged) as caught:
        await folder.open(one)
    assert str(folder.path(one)) in str(caught.value)
    assert _all_of(folder.path(one)) == before
    for name in others:
        journal, records = await folder.open(name)
        await journal.append([[asked(4)]])
        assert [record.seq for record in [*records, *await folder.read(name)]] == [1, 2, 3, 1, 2, 3, 4]
    assert set(others) <= set(await folder.lengths())
    assert set(others).isdisjoint(await folder.quarantined())
    assert set(others) <= set(unfinished) | set(await folder.lengths())
    await folder.behind()


def _all_of(path: Path) -> dict[str, object]:
    """All files at a path and below, but for the mark."""
    paths = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    return {
        str(each): each.read_bytes() if each.is_file() and not each.is_symlink() else stat.S_IFMT(each.lstat().st_mode)
        for each in paths
        if each.name != MARK
    }


async def test_a_link_that_leads_nowhere_is_not_filled(folder: ConversationFolder, tmp_path: Path) -> None:
    """A disk that is not mounted today: nothing of the conversation is begun in its place."""
    path = folder.path(NAMES[0])
    shutil.rmtree(path)
    path.symlink_to(tmp_path / "unmounted")
    journal, _ = await folder.open(NAMES[0])
    with pytest.raises(AppendFailed):
        await journal.append([[started(NAMES[0])]])
    assert path.is_symlink()
    assert not (tmp_path / "unmounted").exists()


async def test_a_folder_in_the_views_place_costs_nothing_but_the_view(folder: ConversationFolder) -> None:
    as_folder(VIEW)(folder.path(NAMES[0]))
    _, records = await folder.open(NAMES[0])
    assert len(records) == 3


OTHER_USER = """
import asyncio, os, sys
from pathlib import Path
from tenex.store.disk import Disk
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId
from tenex.store.repository import ConversationFolder
from tests.store.kit import StillClock, decisions_of
from tenex.store.format import CONVERSATION
CONVERSATION.decode_lines(CONVERSATION.encode_decisions(decisions_of(1)))  # imports what only root may read here
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
async def main():
    folder = ConversationFolder(Path(sys.argv[1]), Disk(), StillClock())
    print(len(await folder.lengths()), len(await folder.behind()), len(await folder.quarantined()))
    for name in sys.argv[2:]:
        try:
            journal, records = await folder.open(ConversationId(name))
            print("opened", len(records))
        except StoreDamaged as fault:
            print("refused", fault)
asyncio.run(main())
"""


async def test_a_folder_we_may_not_enter_is_named_and_the_others_open(folder: ConversationFolder) -> None:
    """In a process without root's powers, for which no permission is wrong."""
    if os.getuid() == 0:
        for path in (folder.root, *folder.root.rglob("*")):
            os.chown(path, 65534, 65534)
    for above in folder.root.parents:
        above.chmod(above.stat().st_mode | 0o055)
        if above.name.startswith("pytest-of"):
            break
    folder.path(NAMES[0]).chmod(0)
    try:
        ran = subprocess.run(  # noqa: ASYNC221 - nothing else is at work here
            [sys.executable, "-c", OTHER_USER, str(folder.root), *NAMES],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
    finally:
        folder.path(NAMES[0]).chmod(0o700)
    refused, *opened = [line for line in ran.stdout.splitlines() if line.startswith(("refused", "opened"))]
    assert "it cannot be opened (Permission denied)" in refused
    assert "Look who owns it" in refused
    assert opened == ["opened 3", "opened 3"]
