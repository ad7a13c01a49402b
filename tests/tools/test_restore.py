"""Files are put back as they were, and never through a link."""

import errno
import os
from pathlib import Path

import pytest

from tenex.tools import restore

from .conftest import fails, names_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("not ours")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_file_comes_back_with_its_folders_content_and_permissions(root: Path) -> None:
    restore.write(root, b"x/y/a", b"was\0here", 0o640)
    assert (root / "x/y/a").read_bytes() == b"was\0here"
    assert (root / "x/y/a").stat().st_mode & 0o777 == 0o640
    restore.write(root, b"x/y/a", b"again", 0o100755)
    assert (root / "x/y/a").read_bytes() == b"again"
    assert (root / "x/y/a").stat().st_mode & 0o7777 == 0o755
    assert names_in(root / "x/y") == ["a"]


def test_a_link_comes_back_as_a_link(root: Path) -> None:
    restore.write(root, b"l", b"../outside/a", restore.LINK)
    assert (root / "l").readlink() == Path("../outside/a")
    restore.write(root, b"l", b"a file now", 0o644)
    assert not (root / "l").is_symlink()
    assert (root.parent / "outside/a").read_text() == "not ours"


def test_a_link_in_the_place_of_a_folder_is_not_followed(root: Path) -> None:
    (root / "x").symlink_to(root.parent / "outside")
    restore.write(root, b"x/a", b"ours", 0o644)
    assert (root.parent / "outside/a").read_text() == "not ours"
    assert not (root / "x").is_symlink()
    assert (root / "x/a").read_text() == "ours"
    (root / "z").symlink_to(root.parent / "outside")
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's choice
        restore.permit(root, b"z/a", 0o600)
    restore.remove(root, b"z/a")
    assert (root.parent / "outside/a").read_text() == "not ours"


def test_a_folder_in_the_place_of_a_file_gives_way(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/ignored").write_text("x")
    (root / "a/link").symlink_to(root.parent / "outside")
    restore.write(root, b"a", b"a file", 0o644)
    assert (root / "a").read_text() == "a file"
    assert (root.parent / "outside/a").read_text() == "not ours"


def test_removing_takes_the_folders_it_empties_and_no_others(root: Path) -> None:
    for path in ("x/y/z/a", "x/b"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    restore.remove(root, b"x/y/z/a")
    assert names_in(root / "x") == ["b"]
    restore.remove(root, b"x/y/z/a")
    restore.remove(root, b"gone")
    restore.remove(root, b"x/b")
    assert names_in(root) == []
    for name in (b"\xff\xfe", b"new\nline", "grün".encode()):
        restore.write(root, b"x/" + name, b"1", 0o644)
        restore.remove(root, b"x/" + name)
    assert names_in(root) == []


def test_permissions_are_given_to_files_only(root: Path) -> None:
    (root / "a").write_text("")
    (root / "a").chmod(0)
    restore.permit(root, b"a", 0o6755)
    assert (root / "a").stat().st_mode & 0o7777 == 0o755
    (root / "l").symlink_to("../outside/a")
    mode = (root.parent / "outside/a").stat().st_mode
    restore.permit(root, b"l", 0o777)
    assert (root.parent / "outside/a").stat().st_mode == mode


def test_a_failed_write_leaves_nothing_half_done(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("now")
    monkeypatch.setattr(os, "fchmod", fails(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        restore.write(root, b"a", b"was", 0o644)
    assert names_in(root) == ["a"]
    assert (root / "a").read_text() == "now"


def test_a_folder_deeper_than_our_stack_gives_way(root: Path) -> None:
    """In the place of a file: a program can make it in a second, and the file must come back all the same."""
    (root / "a").mkdir()
    here = os.open(root / "a", os.O_RDONLY)
    for number in range(3_000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
        if number % 500 == 0:
            os.symlink("/etc", "out", dir_fd=here)
            os.mkdir("shut", 0, dir_fd=here)
    os.close(here)
    restore.write(root, b"a", b"was", 0o644)
    assert (root / "a").read_text() == "was"
    assert names_in(root) == ["a"]
    assert Path("/etc/passwd").exists()


def test_a_whole_folder_is_removed_and_nothing_a_link_leads_to(root: Path) -> None:
    (root / "x/y").mkdir(parents=True)
    (root / "x/l").symlink_to(root.parent / "outside")
    (root / "x/y/f").write_text("1")
    restore.remove_tree(root, b"x")
    restore.remove_tree(root, b"gone/x")
    assert names_in(root) == []
    assert (root.parent / "outside/a").read_text() == "not ours"
