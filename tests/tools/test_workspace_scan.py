"""What git does not report is seen, and in confined phases put right."""

import os
from pathlib import Path

import pytest

from tenex.tools import workspace_scan
from tenex.tools.workspace import Workspace

from .conftest import names_in


@pytest.fixture
def root(workspace: Workspace) -> Path:
    return workspace.root


def repository(place: Path) -> Path:
    (place / ".git").mkdir(parents=True)
    (place / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return place


def test_repositories_of_every_kind_are_seen(root: Path) -> None:
    repository(root)
    repository(root / "a/b")
    (root / "c").mkdir()
    (root / "c/.git").write_text("gitdir: ../elsewhere")
    (root / "d").mkdir()
    (root / "d/.git").symlink_to("../a/b/.git")
    for name in ("objects", "refs"):
        (root / "bare" / name).mkdir(parents=True)
    (root / "bare/HEAD").write_text("x")
    repository(root / "node_modules")
    repository(root / "node_modules/below")
    below = [b"node_modules/.git", b"node_modules/below/.git"]
    seen = workspace_scan.take(root)
    assert set(seen.repositories) == {b".git", b"a/b/.git", b"c/.git", b"d/.git", *below}
    assert seen.protected() == [b".git", b"a/b/.git", b"bare", b"c/.git", *below]


def test_what_was_there_stays(root: Path) -> None:
    repository(root / "a")
    (root / "d").mkdir()
    (root / "d/.git").symlink_to("../a/.git")
    os.mkfifo(root / "pipe")
    before = workspace_scan.take(root)
    assert workspace_scan.settle(root, before, confined=True) == workspace_scan.Settled()
    assert workspace_scan.take(root) == before


@pytest.mark.parametrize("confined", [True, False])
def test_a_folder_that_was_moved_takes_its_repository_along_unless_it_goes_back(root: Path, confined: bool) -> None:
    repository(root / "a")
    before = workspace_scan.take(root)
    (root / "a").rename(root / "b")
    repository(root / "a")
    (root / "a/.git/HEAD").write_text("another")
    settled = workspace_scan.settle(root, before, confined=confined)
    assert settled.lost == []
    assert settled.removed == [b"a/.git"]
    assert [path.name[:14] for path in (root / "a").glob(".git.*")] == [".git.replaced-"]
    assert (root / ("a" if confined else "b") / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert not (root / ("b" if confined else "a") / ".git").exists()


def test_a_link_to_a_repository_comes_back(root: Path) -> None:
    (root / ".git").symlink_to("../elsewhere")
    before = workspace_scan.take(root)
    (root / ".git").unlink()
    repository(root)
    assert workspace_scan.settle(root, before, confined=False).removed == [b".git"]
    assert (root / ".git").readlink() == Path("../elsewhere")


def test_a_repository_that_is_gone_is_reported(root: Path) -> None:
    repository(root / "a")
    before = workspace_scan.take(root)
    (root / "a/.git/HEAD").unlink()
    (root / "a/.git").rmdir()
    assert workspace_scan.settle(root, before, confined=True).lost == [b"a/.git"]


def test_where_nothing_may_stay_pipes_go_and_what_was_shut_is_opened(root: Path) -> None:
    (root / "shut before").mkdir(mode=0o500)
    before = workspace_scan.take(root)
    assert before.shut == {b"shut before"}
    (root / "shut").mkdir()
    (root / "shut/f").write_text("hidden")
    os.mkfifo(root / "pipe")
    (root / "shut").chmod(0)
    workspace_scan.settle(root, before, confined=True)
    assert (root / "shut").stat().st_mode & 0o700 == 0o700
    assert (root / "shut before").stat().st_mode & 0o777 == 0o500
    assert names_in(root) == ["shut", "shut before"]


def test_elsewhere_only_a_pipe_that_git_would_read_goes(root: Path) -> None:
    before = workspace_scan.take(root)
    for name in ("pipe", ".gitignore"):
        os.mkfifo(root / name)
    workspace_scan.settle(root, before, confined=False)
    assert names_in(root) == ["pipe"]


def test_pipes_that_git_would_wait_for_are_found_wherever_they_are(root: Path) -> None:
    repository(root / "a")
    (root / "a/.git/HEAD").unlink()
    for name in ("a/.git/HEAD", "a/.git/odd", "HEAD", "a/.gitattributes", "mine"):
        os.mkfifo(root / name)
    assert workspace_scan.remove_pipes(root) == 4
    assert names_in(root) == ["a", "mine"]
    assert names_in(root / "a/.git") == []


def test_a_path_that_is_too_long_ends_the_look_and_breaks_nothing(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    before = workspace_scan.take(root)
    assert workspace_scan.settle(root, before, confined=True) == workspace_scan.Settled()
