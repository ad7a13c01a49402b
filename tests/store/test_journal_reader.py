"""Reading a journal: whole, torn, damaged, or no journal at all."""

import errno
import os
from pathlib import Path
from zlib import crc32

import pytest

from tenex.core.errors import AppendFailed, StoreDamaged, StoreOtherVersion
from tenex.store import atomic
from tenex.store.disk import FsyncTracker
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import MARK, UPGRADE, VIEW, Loaded, load, mark_of, peek
from tests.kits.journal_forms import FORMS

from .kit import asked, closed, decisions_of, encoded, fails, kind_of_conversation, names

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


@pytest.mark.parametrize("form", FORMS)
def test_a_journal_copied_in_text_mode_is_read_and_written_back_as_it_was(path: Path, form: str) -> None:
    records = [closed(1, "Grüße\r\n日本\u2028 👩‍💻"), *(asked(seq) for seq in range(2, 5))]
    data = encoded(*records)
    path.write_bytes(FORMS[form](data))
    (path.parent / VIEW).write_text("{}")
    changed = path.read_bytes()
    assert peek(path, CONVERSATION) == records
    assert path.read_bytes() == changed, "who only reads changes nothing"
    assert loaded(path).records == records
    assert path.read_bytes() == data
    assert names(path.parent) == [VIEW, path.name]


@pytest.mark.parametrize("form", FORMS)
def test_damage_in_a_copied_journal_is_refused_and_nothing_is_changed(path: Path, form: str) -> None:
    data = FORMS[form](encoded(asked(1), asked(3)))
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match=r"line 2 cannot be right .* its seq is 3 where 2 must follow"):
        loaded(path)
    assert path.read_bytes() == data


def test_of_a_torn_copy_every_byte_is_kept(path: Path) -> None:
    data = FORMS["CRLF"](encoded(asked(1))) + b'{"v":1,"se\rq'
    path.write_bytes(data)
    found = loaded(path)
    assert found.torn is not None
    assert (found.torn.read_bytes(), path.read_bytes()) == (data, encoded(asked(1)))


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
        assert (found.torn.read_bytes(), kind_of_conversation(found.torn)) == (tail, 0o600)


def test_a_torn_tail_that_cannot_be_copied_is_not_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(ONE + b"torn")
    monkeypatch.setattr(atomic, "write_all", fails(errno.ENOSPC))
    with pytest.raises(AppendFailed, match="No space left"):
        loaded(path)
    assert path.read_bytes() == ONE + b"torn"
    assert names(path.parent) == ["journal.jsonl"]


def test_what_another_version_wrote_waits_for_that_version_and_is_not_called_damaged(path: Path) -> None:
    body = b'{"v":1,"seq":2,"remaining":0,"at":2,"type":"MoodNoted","data":{}'
    newer = ONE + body + b',"crc":"%08x"}\n' % crc32(body)
    path.write_bytes(newer)
    with pytest.raises(StoreOtherVersion) as caught:
        loaded(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: line 2 was written by another version of tenex (byte {len(ONE)}): ")
    assert sentence.endswith(UPGRADE)
    assert REMEDY not in sentence
    assert mark_of(path.parent) == sentence
    assert path.read_bytes() == newer
    with pytest.raises(StoreOtherVersion, match="line 2 was written by another version"):
        peek(path, CONVERSATION)
    path.write_bytes(ONE)
    assert len(loaded(path).records) == 1
    assert names(path.parent) == ["journal.jsonl"], "the mark is gone"


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
    assert (names(path.parent), kind_of_conversation(path)) == (["journal.jsonl"], 0o600)
