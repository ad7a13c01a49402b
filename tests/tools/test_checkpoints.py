"""Checkpoints see every change with the real git, put each back, and leave the workspace's own repository alone."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tenex.tools import snapshots
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.workspace import Workspace

from .conftest import git, needs_git

pytestmark = needs_git

CONVERSATION = "c" * 64


@pytest.fixture
def root(workspace: Workspace) -> Path:
    return workspace.root


@pytest.fixture
def checkpoints(folder: Path, root: Path) -> Checkpoints:
    return Checkpoints(folder, root)


def fill(root: Path) -> None:
    """A workspace with everything that is awkward."""
    files = {
        b"a.py": b"print(1)\r\n",
        b"src/b.py": b"b",
        b"src/deep/er/c": b"\0\xff",
        b"run.sh": b"#!/bin/sh\n",
        b"new\nline": b"n",
        b"\xff\xfe": b"bytes",
        "grün.md".encode(): b"g",
        b"-rf": b"-",
        b"empty": b"",
        b".gitignore": b"*.log\nbuild/\n",
        b"x.log": b"ignored",
        b"build/out": b"ignored",
        b"id.txt": b"$Id$",
        b".gitattributes": b"* text=auto\n*.py eol=lf\n*.txt ident\nprivate filter=lfs working-tree-encoding=UTF-16\n",
        b"node_modules/m/i.js": b"ignored",
        b":(glob)*": b"magic",
        b"private": b"p",
    }
    for name, content in files.items():
        place = root / os.fsdecode(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    (root / "run.sh").chmod(0o755)
    (root / "private").chmod(0o600)
    (root / "link").symlink_to("src/b.py")
    (root / "away").symlink_to("/etc")
    (root / "dangling").symlink_to("nowhere")


def picture(root: Path) -> dict[bytes, object]:
    """Everything on disk: kind, permissions and content of each file and link; folders as long as they hold one."""
    return {
        os.fsencode(path): str(path.readlink()) if path.is_symlink() else (path.stat().st_mode, path.read_bytes())
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def havoc(root: Path, script: str) -> None:
    subprocess.run(["/bin/bash", "-ec", script], cwd=root, check=True)


HAVOC = {
    "edited": "echo more >> a.py",
    "same size, same time": "touch -r a.py ../ref; printf 'print(2)\\r\\n' > a.py; touch -r ../ref a.py",
    "deleted": "rm a.py src/b.py -- -rf",
    "all deleted": "find . -mindepth 1 -not -path './build*' -not -name '*.log' -not -path './node_modules*' -delete",
    "renamed": "mv src moved; mv a.py z.py",
    "new": "mkdir -p n/e/w; echo 1 > n/e/w/f; echo 2 > g; ln -s /etc n/etc",
    "executable": "chmod +x a.py; chmod -x run.sh",
    "permissions": "chmod 644 private; chmod 600 a.py",
    "set user": "chmod u+s run.sh",
    "unreadable": "chmod 000 a.py private",
    "shut": "chmod 000 src/deep",
    "file becomes folder": "rm a.py; mkdir a.py; echo 1 > a.py/x; mkdir a.py/build; echo 1 > a.py/build/y",
    "folder becomes file": "rm -r src; echo 1 > src",
    "folder becomes link": "mv src ../src; ln -s ../src src",
    "link becomes file": "rm link; cp a.py link",
    "file becomes link": "rm a.py; ln -s /etc/passwd a.py",
    "link leads elsewhere": "ln -sf a.py link; ln -sfn /usr away",
    "odd names": r"echo x > $'new\nline'; rm $'\xff\xfe'; echo y > $'other\nname'; echo z > ':(glob)*'",
    "ignored from now on": "echo '*' > .gitignore; echo 1 > secret.py",
    "no longer ignored": "rm .gitignore; echo 1 > other.log",
    "hidden by itself": "printf '*\\n' > src/.gitignore; echo 1 > src/secret.py",
    "line ends by attribute": "echo '* text=auto eol=lf' > .gitattributes; echo more >> a.py",
    "a repository inside": "git init -q sub; echo 1 > sub/f; mkdir -p sub/in; echo 2 > sub/in/g",
    "a repository with a commit": (
        "git init -q sub; echo 1 > sub/f; cd sub; git add f; git -c user.name=a -c user.email=a commit -qm m"
    ),
    "emptied": ": > a.py; : > $'new\\nline'",
}


@pytest.mark.parametrize("script", HAVOC.values(), ids=HAVOC.keys())
def test_whatever_happens_is_seen_and_put_back(
    checkpoints: Checkpoints, root: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but ignored files and the inside of `.git` is as it was, to the byte and the permission."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    fill(root)
    before, was = checkpoints.take(exact=True), visible(root)
    havoc(root, script)
    changes = checkpoints.changes(before, checkpoints.take(exact=True))
    assert changes
    hiding = [change for change in changes if change.path.rpartition(b"/")[2] == b".gitignore"]
    assert checkpoints.put_back(hiding) == []
    changes = checkpoints.changes(before, checkpoints.take(exact=True))
    assert checkpoints.put_back(changes) == []
    assert visible(root) == was
    after = checkpoints.take(exact=True)
    assert checkpoints.changes(before, after) == []
    assert after.tree == before.tree


def visible(root: Path) -> dict[bytes, object]:
    ignored = (b".log", b"/build/", b"/node_modules/", b"/.git/")
    return {path: what for path, what in picture(root).items() if not any(part in path for part in ignored)}


def changed(checkpoints: Checkpoints, root: Path, do: Callable[[], object]) -> set[tuple[bytes, bool, bool]]:
    before = checkpoints.take()
    do()
    return {(change.path, change.is_new, change.is_there) for change in checkpoints.changes(before, checkpoints.take())}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "rm a.py; echo 1 > src/b.py; echo 2 > new; touch empty",
            {(b"a.py", False, False), (b"src/b.py", False, True), (b"new", True, True)},
        ),
        ("touch a.py; echo 1 > y.log; mkdir empty_folder", set()),
    ],
)
def test_what_changed_is_named(
    checkpoints: Checkpoints, root: Path, script: str, expected: set[tuple[bytes, bool, bool]]
) -> None:
    fill(root)
    assert changed(checkpoints, root, lambda: havoc(root, script)) == expected


def test_folders_that_are_repositories_are_kept_like_others(checkpoints: Checkpoints, root: Path) -> None:
    """Submodules, linked worktrees and clones: with a commit, without one, one inside another, and emptied."""
    havoc(root, "mkdir a b; git init -q a; git init -q a/c; git init -q b; echo 1 > a/f; echo 2 > a/c/g; mkdir empty")
    git(root / "b", "commit", "-q", "--allow-empty", "-m", "m")
    havoc(root, "git init -q empty; mkdir linked; echo 'gitdir: /nowhere' > linked/.git; echo 3 > linked/h")
    checkpoints.take()
    seen = changed(checkpoints, root, lambda: havoc(root, "echo 9 > a/f; rm a/c/g; echo 3 > b/new; rm linked/h"))
    assert seen == {
        (b"a/f", False, True),
        (b"a/c/g", False, False),
        (b"b/new", True, True),
        (b"linked/h", False, False),
    }
    assert changed(checkpoints, root, lambda: havoc(root, "echo 1 > empty/first")) == {(b"empty/first", True, True)}


def test_the_workspaces_own_repository_is_left_alone(checkpoints: Checkpoints, root: Path) -> None:
    fill(root)
    git(root, "init", "-q")
    git(root, "add", "a.py")
    status, was = git(root, "status", "--porcelain"), {p: w for p, w in picture(root).items() if b"/.git/" in p}
    checkpoints.keep(checkpoints.take(exact=True), CONVERSATION, "m")
    (root / "a.py").write_text("other")
    checkpoints.keep(checkpoints.take(), CONVERSATION, "m")
    assert {p: w for p, w in picture(root).items() if b"/.git/" in p} == was
    assert git(root, "status", "--porcelain") != status  # a.py, by hand


def test_settings_hooks_and_filters_of_the_workspace_do_not_run(
    checkpoints: Checkpoints, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted where git would look: settings of the repository, of the person, of the environment; hooks; filters."""
    mark = tmp_path / "ran"
    planted = tmp_path / "planted"
    planted.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    planted.chmod(0o755)
    git(root, "init", "-q")
    for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.external", "core.editor"):
        git(root, "config", name, str(planted))
    (tmp_path / "gitconfig").write_bytes((root / ".git/config").read_bytes())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(planted))
    monkeypatch.setenv("GIT_DIR", str(root / ".git"))
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout"):
        shutil.copy(planted, root / ".git/hooks" / hook)
    before = checkpoints.take(exact=True)
    (root / "a").write_text("x\r\n")
    after = checkpoints.take(exact=True)
    checkpoints.keep(after, CONVERSATION, "m")
    assert checkpoints.put_back(checkpoints.changes(before, after)) == []
    assert not mark.exists()


def test_what_is_too_large_is_watched_and_not_kept(
    checkpoints: Checkpoints, folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 1_000)
    (root / "big").write_bytes(b"x" * 5_000)
    (root / "grows").write_bytes(b"y" * 900)
    for name in ("shrinks", "goes", "mode"):
        (root / name).write_bytes(b"z" * 5_000)
    before = checkpoints.take(exact=True)
    assert set(before.unkept) == {b"big", b"shrinks", b"goes", b"mode"}
    assert checkpoints.changes(before, checkpoints.take(exact=True)) == []
    (root / "big").write_bytes(b"X" * 5_001)
    (root / "grows").write_bytes(b"y" * 9_000)
    (root / "shrinks").write_bytes(b"z")
    (root / "fresh").write_bytes(b"w" * 5_000)
    (root / "goes").unlink()
    (root / "mode").chmod(0o755)
    changes = checkpoints.changes(before, checkpoints.take(exact=True))
    assert {(change.path, change.is_new, change.is_there) for change in changes} == {
        (b"big", False, True),
        (b"fresh", True, True),
        (b"goes", False, False),
        (b"grows", False, True),
        (b"mode", False, True),
        (b"shrinks", False, True),
    }
    assert {change.path for change in checkpoints.put_back(changes)} == {b"big", b"goes", b"shrinks"}
    assert (root / "mode").stat().st_mode & 0o777 == 0o644
    assert (root / "grows").read_bytes() == b"y" * 900
    assert not (root / "fresh").exists()


def log(folder: Path, conversation: str = CONVERSATION) -> list[str]:
    return git(folder, "log", "--format=%s", f"refs/tenex/{conversation}").splitlines()


def test_each_conversation_has_its_own_chain(checkpoints: Checkpoints, folder: Path, root: Path) -> None:
    other = "d" * 64
    for number in range(3):
        (root / "a").write_text(f"{number}")
        checkpoints.keep(checkpoints.take(), CONVERSATION, f"call {number}\n\ncall: k{number}\n")
        checkpoints.keep(checkpoints.take(), CONVERSATION, "the same again")
        checkpoints.keep(checkpoints.take(), other, f"other {number}")
    assert log(folder) == ["call 2", "call 1", "call 0"]
    assert log(folder, other) == ["other 2", "other 1", "other 0"]
    assert git(folder, "show", f"refs/tenex/{CONVERSATION}~1:a") == "1"
    assert "call: k0" in git(folder, "log", "--format=%B", f"refs/tenex/{CONVERSATION}")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not (folder / "hooks").exists()


def test_it_continues_after_a_restart_and_packing(checkpoints: Checkpoints, folder: Path, root: Path) -> None:
    (root / "a").write_text("1")
    checkpoints.keep(checkpoints.take(), CONVERSATION, "one")
    git(folder, "gc", "-q")
    assert not (folder / "refs/tenex" / CONVERSATION).exists()
    again = Checkpoints(folder, root)
    again.keep(again.take(), CONVERSATION, "the same")
    (root / "a").write_text("2")
    again.keep(again.take(), CONVERSATION, "two")
    assert log(folder) == ["two", "one"]


@pytest.mark.parametrize("name", [".gitignore", "src/.gitignore", ".gitattributes"])
def test_a_pipe_does_not_block_git(
    checkpoints: Checkpoints, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Planted by a command, it would keep anybody from seeing what else that command did."""
    monkeypatch.setattr("tenex.tools.checkpoints.PATIENCE", 1.0)
    fill(root)
    before = checkpoints.take(exact=True)
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    (root / "new.py").write_text("1")
    (root / "a.py").write_text("2")
    changes = checkpoints.changes(before, checkpoints.take(exact=True))
    assert {b"new.py", b"a.py"} <= {change.path for change in changes}
    assert checkpoints.put_back(changes) == []
    assert checkpoints.take(exact=True).tree == before.tree


def test_two_over_one_folder_do_not_believe_old_trees(checkpoints: Checkpoints, folder: Path, root: Path) -> None:
    """After a reload the old one may still be finishing; they take turns, and each sees what is there."""
    other = Checkpoints(folder, root)
    (root / "a").write_text("1")
    first = checkpoints.take()
    (root / "a").write_text("2")
    second = other.take()
    assert checkpoints.take().tree == second.tree != first.tree


@pytest.mark.parametrize("damage", ["locked", "broken index", "no index"])
def test_what_a_killed_git_left_is_repaired(checkpoints: Checkpoints, folder: Path, root: Path, damage: str) -> None:
    (root / "a").write_text("1")
    tree = checkpoints.take().tree
    if damage == "locked":
        (folder / "index.lock").write_text("")
        (root / "a").write_text("1 and more")
        tree = ""
    else:
        (folder / "index").unlink()
        (folder / "index").write_bytes(b"DIRC" + b"\0" * 50 if damage == "broken index" else b"")
    taken = checkpoints.take().tree
    assert taken == tree or not tree
    assert not (folder / "index.lock").exists()


def test_without_git_or_its_folder_there_is_an_error_that_names_it(
    checkpoints: Checkpoints, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointFailed, match="file/checkpoints"):
        Checkpoints(tmp_path / "file" / "checkpoints", root).take()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckpointFailed, match="git is not installed"):
        checkpoints.take()


def test_ten_thousand_files_are_read_once(checkpoints: Checkpoints, root: Path) -> None:
    """The second look opens none of them: git's index knows them by size and time."""
    for number in range(10_000):
        if number % 100 == 0:
            (root / f"d{number}").mkdir()
        (root / f"d{number - number % 100}" / f"{number}").write_text("x")
    first = checkpoints.take()
    os.utime(root / "d0/1", ns=(1, 1))
    assert checkpoints.take().tree == first.tree
    (root / "d0/2").write_text("other")
    assert [change.path for change in checkpoints.changes(first, checkpoints.take())] == [b"d0/2"]


def test_a_new_repository_appears_whole(
    tmp_path: Path, folder: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tenex doctor` beside the daemon, and a start after a kill, never see one that `git init` has half written."""
    seen, path = tmp_path / "seen", os.environ["PATH"]
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "git"
    wrapper.write_text(
        f'#!/bin/sh\nPATH="{path}"\ngit "$@" || exit\n[ "$1" = init ] && ls -A "{folder}" >"{seen}"\nexit 0\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{path}")
    checkpoints.take()
    assert seen.read_text() == ""
    assert (folder / "HEAD").exists()
    assert not folder.with_name("checkpoints.new").exists()
