"""Files that are whole or not there."""

import os
from pathlib import Path

from tenex.store import atomic

from .kit import mode_of, names


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
    assert names(path.parent) == ["file.json"]


def test_sweep_removes_what_a_killed_replace_left_and_nothing_else(tmp_path: Path) -> None:
    for name in (".view.json.abcd1234.tmp", ".lock", "view.json", "notes.tmp", ".hidden.tmp"):
        (tmp_path / name).write_text("x")
    atomic.sweep(tmp_path)
    assert names(tmp_path) == [".hidden.tmp", ".lock", "notes.tmp", "view.json"]
