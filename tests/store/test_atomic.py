"""Files that are whole or not there."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tenex.store import atomic

from .kit import fails


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_replace_makes_folders_and_file_with_their_modes_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    before = os.umask(0o077)
    try:
        atomic.replace(tmp_path / "shared", b"x", mode=0o644)
        os.umask(0)
        atomic.replace(path, b"one")
        atomic.replace(path, b"two")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert (mode_of(path), mode_of(tmp_path / "shared")) == (0o600, 0o644)
    assert mode_of(path.parent) == mode_of(path.parent.parent) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_a_file_in_a_folders_place_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"exists|Not a directory"):
            atomic.make_folder(folder)
    assert (tmp_path / "file").read_text() == "x"


def test_a_failed_replace_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic.replace(path, b"old")
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        atomic.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_sweep_removes_what_a_killed_replace_left_and_nothing_else(tmp_path: Path) -> None:
    for name in (".view.json.abcd1234.tmp", ".lock", "view.json", "notes.tmp", ".hidden.tmp"):
        (tmp_path / name).write_text("x")
    atomic.sweep(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden.tmp", ".lock", "notes.tmp", "view.json"]


def test_a_file_set_aside_never_overwrites_another(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    targets = []
    for content in ("first", "second"):
        path.write_text(content)
        targets.append(atomic.set_aside(path, "broken"))
        assert not path.exists()
    assert [target.name for target in targets] == ["settings.broken-1", "settings.broken-2"]
    assert [target.read_text() for target in targets] == ["first", "second"]


def test_a_folder_or_link_is_set_aside_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "thing.old-1").mkdir()
    target = atomic.set_aside(folder, "old")
    assert target.name == "thing.old-2"
    assert (target / "deep").is_dir()
    (tmp_path / "link").symlink_to(target)
    assert atomic.set_aside(tmp_path / "link", "odd").is_symlink()
    assert (target / "deep").is_dir()


def test_kept_bytes_get_a_name_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first, second = (atomic.keep(path, "torn-now", data) for data in (b"1", b"2"))
    assert (first.name, second.name) == ("journal.torn-now-1", "journal.torn-now-2")
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert mode_of(first) == 0o600
