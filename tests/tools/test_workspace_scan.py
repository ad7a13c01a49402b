"""What git does not report is seen, and in confined phases put right."""

import os
from pathlib import Path

import pytest

from tenex.tools import workspace_scan
from tenex.tools.workspace_scan import Settled, settle, take

from .conftest import make_deep, names_in, put

HEAD = "ref: refs/heads/main\n"


def test_repositories_of_every_kind_are_seen_and_stay(root: Path) -> None:
    folders = ("", "a/b/", "node_modules/", "node_modules/below/")
    put(root, {f"{folder}.git/HEAD": HEAD for folder in folders})
    put(root, {"c/.git": "gitdir: ../elsewhere", "bare/HEAD": "x", "bare/objects/x": "", "bare/refs/x": "", "d/x": ""})
    (root / "d/.git").symlink_to("../a/b/.git")
    os.mkfifo(root / "pipe")
    below = [b"node_modules/.git", b"node_modules/below/.git"]
    seen = take(root)
    assert set(seen.repositories) == {b".git", b"a/b/.git", b"c/.git", b"d/.git", *below}
    assert seen.protected() == [b".git", b"a/b/.git", b"bare", b"c/.git", *below]
    assert settle(root, seen, confined=True) == Settled()
    assert take(root) == seen


@pytest.mark.parametrize("confined", [True, False])
def test_a_folder_that_was_moved_takes_its_repository_along_unless_it_goes_back(root: Path, confined: bool) -> None:
    put(root, {"a/.git/HEAD": HEAD})
    before = take(root)
    (root / "a").rename(root / "b")
    put(root, {"a/.git/HEAD": "another"})
    assert settle(root, before, confined=confined) == Settled(removed=[b"a/.git"])
    assert [path.name[:14] for path in (root / "a").glob(".git.*")] == [".git.replaced-"]
    assert (root / ("a" if confined else "b") / ".git/HEAD").read_text() == HEAD
    assert not (root / ("b" if confined else "a") / ".git").exists()


def test_a_link_to_a_repository_comes_back_and_one_that_is_gone_is_reported(root: Path) -> None:
    (root / ".git").symlink_to("../elsewhere")
    put(root, {"a/.git/HEAD": HEAD})
    before = take(root)
    (root / ".git").unlink()
    (root / "a/.git/HEAD").unlink()
    (root / "a/.git").rmdir()
    put(root, {".git/HEAD": HEAD})
    assert settle(root, before, confined=False) == Settled(removed=[b".git"], lost=[b"a/.git"])
    assert (root / ".git").readlink() == Path("../elsewhere")


@pytest.mark.parametrize("confined", [True, False])
def test_where_nothing_may_stay_pipes_go_and_what_was_shut_is_opened(root: Path, confined: bool) -> None:
    """Elsewhere only a pipe that git would read goes."""
    (root / "shut before").mkdir(mode=0o500)
    before = take(root)
    assert before.shut == {b"shut before"}
    put(root, {"shut/f": "hidden"})
    for name in ("pipe", ".gitignore"):
        os.mkfifo(root / name)
    (root / "shut").chmod(0o500)
    settle(root, before, confined=confined)
    assert (root / "shut").stat().st_mode & 0o777 == (0o700 if confined else 0o500)
    assert (root / "shut before").stat().st_mode & 0o777 == 0o500
    assert names_in(root) == [*([] if confined else ["pipe"]), "shut", "shut before"]


def test_pipes_that_git_would_wait_for_are_found_wherever_they_are(root: Path) -> None:
    put(root, {"a/.git/x": HEAD})
    for name in ("a/.git/HEAD", "a/.git/odd", "HEAD", "a/.gitattributes", "mine"):
        os.mkfifo(root / name)
    assert workspace_scan.remove_pipes(root) == 4
    assert names_in(root) == ["a", "mine"]
    assert names_in(root / "a/.git") == ["x"]


def test_a_path_that_is_too_long_ends_the_look_and_breaks_nothing(root: Path) -> None:
    make_deep(root, 30, "d" * 200)
    assert settle(root, take(root), confined=True) == Settled()
