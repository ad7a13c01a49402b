"""Reading a journal: whole, torn, damaged, or no journal at all."""

import errno
import os
from pathlib import Path

import pytest

from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.store import atomic
from tenex.store.disk import FsyncTracker
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import MARK, VIEW, Loaded, load, mark_of, peek

from .kit import asked, decisions_of, fails

REMEDY = "Call the carpenter."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / ("c" * 64)
    folder.mkdir()
    return folder / "journal.jsonl"


def loaded(path: Path) -> Loaded:
    return load(path, CONVERSATION, "then", REMEDY)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_what_is_read_to_be_acted_on_is_durable_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that wrote the end may have died before its flush, or after one that failed: it is written again."""
    path.write_bytes(CONVERSATION.encode_decisions(decisions_of(1)))
    os.utime(path, ns=(0, 123_000))
    before, content = path.stat(), path.read_bytes()
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    loaded(path)
    assert [file.name for file in synced[:1]] != [path.name], "flushed under another name"
    assert synced[1:] == [path.parent, path.parent.parent]
    assert path.stat().st_ino != before.st_ino
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, 123_000), "it went on no later than it did"


def test_what_this_process_has_flushed_is_not_copied_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = FsyncTracker()
    path.write_bytes(CONVERSATION.encode_decisions(decisions_of(1)))
    load(path, CONVERSATION, "then", REMEDY, flushed)
    before = path.stat().st_ino
    synced: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced.append)
        load(path, CONVERSATION, "then", REMEDY, flushed)
    assert (synced, path.stat().st_ino) == ([], before)
    with path.open("ab") as file:
        file.write(CONVERSATION.encode_decisions([[asked(2)]]))
    load(path, CONVERSATION, "then", REMEDY, flushed)
    assert path.stat().st_ino != before, "it is longer than it was then"
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    before = path.stat().st_ino
    load(path, CONVERSATION, "then", REMEDY, flushed)
    assert path.stat().st_ino != before, "it is another file"
    flushed.doubt(path)
    before = path.stat().st_ino
    load(path, CONVERSATION, "then", REMEDY, flushed)
    assert path.stat().st_ino != before, "a flush of it has failed since"


def test_what_is_known_to_be_durable_is_bounded(path: Path) -> None:
    flushed = FsyncTracker(most=2)
    path.touch()
    for name in "abc":
        flushed.note(Path(name), path.stat())
    assert [flushed.proves(Path(name), path.stat()) for name in "abc"] == [False, True, True]


def test_a_missing_or_empty_journal_is_a_new_conversation(path: Path) -> None:
    assert loaded(path) == Loaded(records=[], length=0, exists=False)
    assert loaded(path.parent / "deeper" / "journal.jsonl").exists is False
    path.touch(mode=0o600)
    assert loaded(path) == Loaded(records=[], length=0, exists=True)


def test_every_offset_of_the_last_append_gives_whole_decisions_and_keeps_the_rest_aside(path: Path) -> None:
    before = CONVERSATION.encode_decisions(decisions_of(1))
    data = before + CONVERSATION.encode_decisions(decisions_of(1, 3, first=2))
    for cut in range(len(before), len(data) + 1):
        path.write_bytes(data[:cut])
        found = loaded(path)
        assert len(found.records) in (1, 2, 5)
        assert path.read_bytes() == data[: found.length]
        if found.length == cut:
            assert found.torn is None
        else:
            assert found.torn is not None
            assert found.torn.read_bytes() == data[found.length : cut]
            found.torn.unlink()
        assert loaded(path) == Loaded(records=found.records, length=found.length, exists=True)


def test_torn_tails_of_the_same_second_are_all_kept(path: Path) -> None:
    good = CONVERSATION.encode_decisions(decisions_of(1))
    for tail in (b"one", b"two"):
        path.write_bytes(good + tail)
        loaded(path)
    assert names(path) == ["journal.jsonl", "journal.torn-then-1", "journal.torn-then-2"]
    assert (path.parent / "journal.torn-then-2").read_bytes() == b"two"


def test_a_torn_tail_that_cannot_be_copied_is_not_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(CONVERSATION.encode_decisions(decisions_of(1)) + b"torn")
    before = path.read_bytes()
    monkeypatch.setattr(atomic, "write_all", fails(errno.ENOSPC))
    with pytest.raises(AppendFailed, match="No space left"):
        loaded(path)
    assert path.read_bytes() == before
    assert names(path) == ["journal.jsonl"]


def test_damage_changes_nothing_and_leaves_a_mark_that_goes_when_the_journal_is_well(path: Path) -> None:
    lines = CONVERSATION.encode_decisions(decisions_of(1, 1, 1)).splitlines(keepends=True)
    broken = lines[0] + b"x" + lines[1] + lines[2]
    path.write_bytes(broken)
    with pytest.raises(StoreDamaged) as caught:
        loaded(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: line 2 cannot be right")
    assert sentence.endswith(REMEDY)
    assert path.read_bytes() == broken
    assert names(path) == [MARK, "journal.jsonl"]
    assert mark_of(path.parent) == sentence
    path.write_bytes(b"".join(lines))
    assert len(loaded(path).records) == 3
    assert mark_of(path.parent) is None


def test_a_view_without_its_journal_is_damage_and_no_new_conversation(path: Path) -> None:
    (path.parent / VIEW).write_text("{}")
    with pytest.raises(StoreDamaged, match="it is missing, though"):
        loaded(path)
    for content in (b"", b"\0" * 500):
        path.write_bytes(content)
        with pytest.raises(StoreDamaged, match="no whole decision, though"):
            loaded(path)
        assert path.read_bytes() == content


def test_a_folder_a_pipe_or_a_link_in_the_journals_place_is_damage(path: Path, tmp_path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreDamaged, match="Is a directory"):
        loaded(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(StoreDamaged, match="it is no file"):
        loaded(path)
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(b"")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreDamaged, match="symbolic links"):
        loaded(path)
    assert mark_of(path.parent) is not None


def test_loading_closes_the_file_to_others_and_removes_what_a_killed_replace_left(path: Path) -> None:
    path.write_bytes(CONVERSATION.encode_decisions(decisions_of(1)))
    path.chmod(0o666)
    (path.parent / f".{VIEW}.abcd1234.tmp").write_text("half")
    assert len(loaded(path).records) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(path) == ["journal.jsonl"]


def test_a_disk_that_fails_for_now_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(CONVERSATION.encode_decisions(decisions_of(1)))
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(AppendFailed, match="Input/output error"):
        loaded(path)
    assert names(path) == ["journal.jsonl"]


def test_peeking_changes_nothing(path: Path) -> None:
    good = CONVERSATION.encode_decisions(decisions_of(2))
    path.write_bytes(good + b"being written")
    assert len(peek(path, CONVERSATION)) == 2
    assert path.read_bytes() == good + b"being written"
    path.write_bytes(b"x" + good)
    with pytest.raises(StoreDamaged, match="line 1 cannot be right"):
        peek(path, CONVERSATION)
    assert names(path) == ["journal.jsonl"]
