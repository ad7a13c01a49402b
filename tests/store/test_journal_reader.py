"""Reading a journal: whole, torn, damaged, or no journal at all."""

import errno
import os
from pathlib import Path

import pytest

from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.store import atomic
from tenex.store.disk import FsyncTracker
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import MARK, VIEW, Loaded, load, mark_of

from .kit import asked, decisions_of, encoded, fails, mode_of, names

REMEDY = "Call the carpenter."
ONE = CONVERSATION.encode_decisions(decisions_of(1))


@pytest.fixture
def path(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    return path


def loaded(path: Path, flushed: FsyncTracker | None = None) -> Loaded:
    return load(path, CONVERSATION, "then", REMEDY, flushed)


def test_what_is_read_to_be_acted_on_is_durable_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that wrote the end may have died before its flush, or after one that failed: it is written again."""
    path.write_bytes(ONE)
    os.utime(path, ns=(0, 123_000))
    before = path.stat()
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    loaded(path)
    assert [file.name for file in synced[:1]] != [path.name], "flushed under another name"
    assert synced[1:] == [path.parent, path.parent.parent]
    assert path.stat().st_ino != before.st_ino
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (ONE, 123_000)


def test_what_this_process_has_flushed_is_not_copied_again(path: Path) -> None:
    flushed = FsyncTracker()
    path.write_bytes(ONE)

    def is_copied() -> bool:
        before = path.stat().st_ino
        loaded(path, flushed)
        return path.stat().st_ino != before

    assert (is_copied(), is_copied()) == (True, False)
    with path.open("ab") as file:
        file.write(encoded(asked(2)))
    assert is_copied(), "it is longer than it was then"
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    assert is_copied(), "it is another file"
    flushed.doubt(path)
    assert is_copied(), "a flush of it has failed since"
    bounded = FsyncTracker(most=2)
    for name in "abc":
        bounded.note(Path(name), path.stat())
    assert [bounded.proves(Path(name), path.stat()) for name in "abc"] == [False, True, True]


def test_a_missing_or_empty_journal_is_a_new_conversation(path: Path) -> None:
    assert loaded(path) == Loaded(records=[], length=0, exists=False)
    assert loaded(path.parent / "deeper" / "journal.jsonl").exists is False
    path.touch(mode=0o600)
    assert loaded(path) == Loaded(records=[], length=0, exists=True)


def test_a_torn_tail_is_moved_to_a_file_of_its_own(path: Path) -> None:
    for number, tail in enumerate((encoded(asked(2))[:-1], b"two"), start=1):
        path.write_bytes(ONE + tail)
        found = loaded(path)
        assert (len(found.records), found.length, path.read_bytes()) == (1, len(ONE), ONE)
        assert found.torn == path.parent / f"journal.torn-then-{number}"
        assert (found.torn.read_bytes(), mode_of(found.torn)) == (tail, 0o600)


def test_a_torn_tail_that_cannot_be_copied_is_not_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(ONE + b"torn")
    monkeypatch.setattr(atomic, "write_all", fails(errno.ENOSPC))
    with pytest.raises(AppendFailed, match="No space left"):
        loaded(path)
    assert path.read_bytes() == ONE + b"torn"
    assert names(path.parent) == ["journal.jsonl"]


def test_damage_changes_nothing_and_leaves_a_mark_until_the_journal_is_repaired(path: Path) -> None:
    lines = CONVERSATION.encode_decisions(decisions_of(1, 1, 1)).splitlines(keepends=True)
    broken = lines[0] + b"x" + lines[1] + lines[2]
    path.write_bytes(broken)
    with pytest.raises(StoreDamaged) as caught:
        loaded(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: line 2 cannot be right")
    assert sentence.endswith(REMEDY)
    assert path.read_bytes() == broken
    assert names(path.parent) == [MARK, "journal.jsonl"]
    assert mark_of(path.parent) == sentence
    path.write_bytes(b"".join(lines))
    path.chmod(0o666)
    (path.parent / f".{VIEW}.abcd1234.tmp").write_text("what a killed process left")
    assert len(loaded(path).records) == 3
    assert (names(path.parent), mode_of(path)) == (["journal.jsonl"], 0o600)
