"""Nothing a model writes as a path leaves the workspace."""

import errno
import os
import resource
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.tools import restore
from tenex.tools.tool import Refusal
from tenex.tools.workspace import LONGEST_PATH, Workspace, is_documentation

from .conftest import fails, names_in

KIB = 1024


def test_paths_inside_are_taken_from_the_root_and_their_links_followed(workspace: Workspace) -> None:
    (workspace.root / "real").mkdir()
    (workspace.root / "link").symlink_to("real")
    for path, name in (
        ("src/app.py", "src/app.py"),
        ("./a//b", "a/b"),
        (".", "."),
        (f"{workspace.root}/a.txt", "a.txt"),
        ("link/a", "real/a"),
    ):
        assert workspace.resolve(path) == workspace.root / name


def test_a_root_is_known_by_both_its_names_and_by_no_prefix_of_another(tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "workspace-2").mkdir()
    with pytest.raises(Refusal, match="outside"):
        workspace.resolve(str(tmp_path / "workspace-2" / "a"))
    (tmp_path / "alias").symlink_to(workspace.root)
    alias = Workspace(tmp_path / "alias")
    assert alias.resolve(str(tmp_path / "alias" / "a")) == alias.resolve(str(workspace.root / "a"))
    alias.update(alias.resolve("a"), lambda _: b"x", KIB)
    assert (workspace.root / "a").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("\ud800", "control character"),
        ("../outside/secret.txt", "`..`"),
        ("a/../b", "`..`"),
        ("/etc/passwd", "outside the workspace"),
        ("x" * (LONGEST_PATH + 1), "longer than"),
        ("n" * 300, "too long"),
        (".git/config", "belongs to git"),
        ("sub/.GIT/hooks/post-commit", "belongs to git"),
    ],
)
def test_what_is_no_path_in_here_is_refused_with_a_reason(workspace: Workspace, path: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        workspace.update(workspace.resolve(path), lambda _: b"", KIB)


@pytest.mark.parametrize("path", ["out", "out/secret.txt", "deep/out/secret.txt", "file", "chain"])
def test_links_that_lead_outside_are_refused_wherever_they_are(tmp_path: Path, workspace: Workspace, path: str) -> None:
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    (workspace.root / "deep").mkdir()
    (workspace.root / "deep/out").symlink_to("../../outside")
    (workspace.root / "file").symlink_to(tmp_path / "outside/secret.txt")
    (workspace.root / "chain").symlink_to("file")
    with pytest.raises(Refusal, match="leads outside"):
        workspace.resolve(path)


@pytest.mark.parametrize("target", ["nowhere", "../outside/new.txt", "self"])
def test_dangling_links_are_refused(workspace: Workspace, target: str) -> None:
    (workspace.root / "self").symlink_to(target)
    with pytest.raises(Refusal, match=r"leads nowhere|leads outside"):
        workspace.resolve("self")
    with pytest.raises(Refusal, match=r"leads nowhere|leads outside"):
        workspace.resolve("self/below")


def test_pipes_sockets_and_devices_are_refused(tmp_path: Path, workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace.root / "socket"))
    for name in ("pipe", "socket"):
        with pytest.raises(Refusal, match="neither a file nor a folder"):
            workspace.resolve(name)
    (workspace.root / "null").symlink_to("/dev/null")
    with pytest.raises(Refusal, match="outside"):
        workspace.resolve("null")


_SEGMENTS = st.sampled_from(
    ["a", "b", "..", ".", "", "out", "in", "loop", "gone", "file", "ROOT", "/", "~", "\0", "é", " ", "outside", ".git"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(segments=st.lists(_SEGMENTS | st.text(max_size=5), max_size=7), absolute=st.booleans())
def test_no_path_resolves_outside(tmp_path: Path, workspace: Workspace, segments: list[str], absolute: bool) -> None:
    """Holds for every mix of names, dots, links and roots; what is not inside is refused, never an error."""
    for name, target in (("out", "../outside"), ("in", "a"), ("loop", "loop"), ("gone", "nowhere")):
        if not (workspace.root / name).is_symlink():
            (workspace.root / "a").mkdir(exist_ok=True)
            (workspace.root / name).symlink_to(target)
    path = ("/" if absolute else "") + "/".join(segments).replace("ROOT", str(workspace.root))
    try:
        real = workspace.resolve(path)
    except Refusal:
        return
    assert Path(os.path.realpath(real)) == real
    assert real == workspace.root or workspace.root in real.parents


def test_a_link_put_in_after_the_check_is_not_followed(tmp_path: Path, workspace: Workspace) -> None:
    """Between `resolve` and the opening, a file and a folder become links to outside: both are refused."""
    (workspace.root / "dir").mkdir()
    (workspace.root / "dir/secret.txt").write_text("mine")
    (workspace.root / "file").write_text("mine")
    in_folder, file = workspace.resolve("dir/secret.txt"), workspace.resolve("file")
    (workspace.root / "dir").rename(workspace.root / "moved")
    (workspace.root / "dir").symlink_to(tmp_path / "outside")
    (workspace.root / "file").unlink()
    (workspace.root / "file").symlink_to(tmp_path / "outside/secret.txt")
    for real in (in_folder, file):
        with pytest.raises(Refusal, match="link"):
            workspace.read(real, KIB)
        with pytest.raises(Refusal, match="link"):
            workspace.update(real, lambda _: b"overwritten", KIB)
    assert (tmp_path / "outside/secret.txt").read_text() == "the secret\n"


def test_swapping_links_all_the_time_never_lets_a_read_out(tmp_path: Path, workspace: Workspace) -> None:
    """A thread swaps a folder for a link to outside as fast as it can; no read ever sees the secret."""
    inside, aside = workspace.root / "dir", workspace.root / "aside"
    inside.mkdir()
    (inside / "secret.txt").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            inside.rename(aside)
            inside.symlink_to(tmp_path / "outside")
            inside.unlink()
            aside.rename(inside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes] = set()
    refused = 0
    try:
        for n in range(100_000):
            if n > 3_000 and seen and refused:
                break
            try:
                seen.add(workspace.read(workspace.resolve("dir/secret.txt"), KIB))
            except Refusal:
                refused += 1
    finally:
        stop.set()
        swapper.join()
    assert seen == {b"mine"}
    assert refused


def test_a_pipe_that_takes_a_files_place_does_not_block(workspace: Workspace) -> None:
    (workspace.root / "a").write_text("x")
    real = workspace.resolve("a")
    real.unlink()
    os.mkfifo(real)
    with pytest.raises(Refusal, match="neither a file nor a folder"):
        workspace.read(real, KIB)


def test_reading_reports_what_is_missing_a_folder_or_too_large(workspace: Workspace) -> None:
    (workspace.root / "dir").mkdir()
    (workspace.root / "big").write_bytes(b"x" * (KIB + 1))
    (workspace.root / "full").write_bytes(b"x" * KIB)
    for path, message in (
        ("none", "no file none"),
        ("no/ne", "no file"),
        ("dir", "is a folder"),
        ("big", "larger than 1"),
    ):
        with pytest.raises(Refusal, match=message):
            workspace.read(workspace.resolve(path), KIB)
    with pytest.raises(Refusal, match="own folder"):
        workspace.read(workspace.resolve("."), KIB)
    assert len(workspace.read(workspace.resolve("full"), KIB)) == KIB
    with pytest.raises(Refusal, match="folder is missing"):
        Workspace(workspace.root / "gone").read(workspace.root / "gone/a", KIB)


def test_an_update_makes_folders_keeps_permissions_and_leaves_nothing_beside(workspace: Workspace) -> None:
    real = workspace.resolve("a/b/run.sh")
    workspace.update(real, lambda current: b"1" if current is None else b"?", KIB)
    real.chmod(0o4750)
    workspace.update(real, lambda current: (current or b"") + b"2", KIB)
    assert real.read_bytes() == b"12"
    assert real.stat().st_mode & 0o7777 == 0o750  # and no setuid
    assert list(workspace.walk(workspace.root)) == ["a/b/run.sh"]
    assert names_in(real.parent) == ["run.sh"]


def test_updates_of_one_file_wait_for_one_another(workspace: Workspace) -> None:
    """Eight threads add a line each, twenty times; none is lost."""
    real = workspace.resolve("log")

    def add() -> None:
        for _ in range(20):
            workspace.update(real, lambda current: (current or b"") + b"x\n", 64 * KIB)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert real.read_bytes() == b"x\n" * 160


def refuse(_: bytes | None) -> bytes:
    raise Refusal("No")


@pytest.mark.parametrize(
    ("code", "message"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "does not permit"), (errno.EIO, "Input/output error")],
)
def test_a_refused_update_changes_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    (workspace.root / "a").write_text("before")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails(code))
        with pytest.raises(Refusal, match=f"a cannot be used: .*{message}"):
            workspace.update(workspace.resolve("a"), lambda _: b"after", KIB)
    with pytest.raises(Refusal, match="No"):
        workspace.update(workspace.resolve("b/c"), refuse, KIB)
    assert (workspace.root / "a").read_text() == "before"
    assert names_in(workspace.root) == ["a"]


def test_walking_leaves_out_what_programs_made_and_follows_no_link(tmp_path: Path, workspace: Workspace) -> None:
    for path in ("a.py", "src/b.py", ".git/config", "node_modules/m/i.js", "src/__pycache__/b.pyc", ".venv/x", ".env"):
        (workspace.root / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / path).write_text("x")
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    (workspace.root / "again").symlink_to(".")
    (workspace.root / "shut").mkdir(mode=0)
    assert sorted(workspace.walk(workspace.root)) == [".env", "a.py", "src/b.py"]
    assert list(workspace.walk(workspace.resolve("src"))) == ["src/b.py"]
    with pytest.raises(Refusal, match="no folder none"):
        list(workspace.walk(workspace.resolve("none")))


DOCUMENTATION = (
    "README README.md readme.txt CHANGELOG.rst docs/conf.py docs/a/b.png src/notes.md LICENSE LICENSE-MIT "
    "pkg/README.txt CONTRIBUTING"
)


def test_documentation_is_known_by_name_or_folder() -> None:
    assert [path for path in DOCUMENTATION.split() if not is_documentation(path)] == []
    others = "src/app.py requirements.txt readme.py docs.py src/docs/a.py licensing"
    assert [path for path in others.split() if is_documentation(path)] == []


def test_walking_goes_as_deep_as_a_path_may_be_and_needs_few_handles(workspace: Workspace) -> None:
    """A program can make a folder that is deeper than our stack, and than the files we may have open."""
    here = os.open(workspace.root, os.O_RDONLY)
    for number in range(3_000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
        if number in (2, 2_990):
            os.close(os.open("f", os.O_CREAT, dir_fd=here))
    os.close(here)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        assert list(workspace.walk(workspace.root)) == ["d/d/d/f"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        restore.remove_tree(workspace.root, b"d")  # pytest cannot


def test_our_python_can_only_be_read(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written there runs as the daemon at its next start, outside every sandbox."""
    place = workspace.root / ".venv/lib/site.py"
    place.parent.mkdir(parents=True)
    place.write_text("ours")
    monkeypatch.setattr(sys, "prefix", str(workspace.root / ".venv"))
    ours = Workspace(workspace.root)
    real = ours.resolve(".venv/lib/site.py")
    assert ours.read(real, 100) == b"ours"
    for change in (
        lambda: ours.update(real, lambda _: b"theirs", 100),
        lambda: ours.update(ours.resolve(".venv/lib/x.pth"), lambda _: b"theirs", 100),
        lambda: ours.remove(real, lambda _: None, 100),
        lambda: ours.move(real, ours.entry("x")),
        lambda: ours.remove_folder(ours.entry(".venv/lib")),
    ):
        with pytest.raises(Refusal, match="belongs to the Python"):
            change()
    assert place.read_text() == "ours"
