"""Files are put back as they were, and never through a link."""

import errno
import os
from pathlib import Path

import pytest

from tenex.tools import restore

from .conftest import fails, make_deep, names_in, put


@pytest.fixture
def secret(root: Path, outside: Path) -> Path:
    """A file outside, to which the link `x` leads as if it were a folder of the workspace."""
    (root / "x").symlink_to(outside)
    return outside / "secret.txt"


def test_a_file_comes_back_with_its_folders_content_and_permissions(root: Path) -> None:
    for content, mode, permissions in ((b"was\0here", 0o640, 0o640), (b"again", 0o104755, 0o755)):
        restore.write(root, b"x/y/a", content, mode)
        assert (root / "x/y/a").read_bytes() == content
        assert (root / "x/y/a").stat().st_mode & 0o7777 == permissions
    assert names_in(root / "x/y") == ["a"]


def test_a_link_in_the_place_of_a_folder_is_not_followed(root: Path, secret: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's choice
        restore.permit(root, b"x/secret.txt", 0o600)
    restore.remove(root, b"x/secret.txt")
    restore.remove_tree(root, b"x/secret.txt")
    restore.write(root, b"x/secret.txt", b"ours", 0o644)
    assert secret.read_text() == "the secret\n"
    assert not (root / "x").is_symlink()
    assert (root / "x/secret.txt").read_text() == "ours"


def test_removing_takes_the_folders_it_empties_and_no_others(root: Path) -> None:
    put(root, {"x/y/z/a": "", "x/b": ""})
    restore.remove(root, b"x/y/z/a")
    assert names_in(root / "x") == ["b"]
    for path in (b"x/y/z/a", b"gone", b"x/b"):
        restore.remove(root, path)
    for name in (b"\xff\xfe", b"new\nline", "grün".encode()):
        restore.write(root, b"x/" + name, b"1", 0o644)
        restore.remove(root, b"x/" + name)
    assert names_in(root) == []


def test_permissions_are_given_to_files_and_not_through_links(root: Path, secret: Path) -> None:
    put(root, {"a": ""})
    (root / "a").chmod(0)
    restore.permit(root, b"a", 0o6755)
    assert (root / "a").stat().st_mode & 0o7777 == 0o755
    (root / "l").symlink_to(secret)
    mode = secret.stat().st_mode
    restore.permit(root, b"l", 0o777)
    assert secret.stat().st_mode == mode


def test_a_failed_write_leaves_nothing_half_done(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, {"a": "now"})
    monkeypatch.setattr(os, "fchmod", fails(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        restore.write(root, b"a", b"was", 0o644)
    assert names_in(root) == ["a"]
    assert (root / "a").read_text() == "now"


def test_a_folder_deeper_than_our_stack_gives_way(root: Path, secret: Path) -> None:
    """In the place of a file: a program can make it in a second, and the file must come back all the same."""

    def awkward(number: int, here: int) -> None:
        if number % 500 == 0:
            os.symlink(secret.parent, "out", dir_fd=here)
            os.mkdir("shut", 0, dir_fd=here)

    (root / "a").mkdir()
    make_deep(root / "a", 3_000, at=awkward)
    restore.write(root, b"a", b"was", 0o644)
    assert (root / "a").read_text() == "was"
    assert names_in(root) == ["a", "x"]
    assert secret.read_text() == "the secret\n"
