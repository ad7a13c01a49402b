"""Checkpoints see every change with the real git, put each back, and leave the workspace's own repository alone.

Whatever was done to the shadow repository, or planted in its way, it is repaired or begun again. From its commits the
workspace is restored to what it was after a record; what has no copy is left.
"""

import os
import shutil
from pathlib import Path

import pytest

from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.phases import Access
from tenex.tools import snapshots
from tenex.tools.checkpoints import Checkpoints, call_lines
from tenex.tools.rollback import tree_after
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.workspace import Workspace
from tests.programs import needs_git

from .conftest import Bench, every_tool, git, put, subjects
from .undo_kit import CONVERSATION, REF, Work
from .undo_kit import work as work  # a fixture

pytestmark = needs_git


@pytest.fixture
def checkpoints(folder: Path, root: Path) -> Checkpoints:
    return Checkpoints(folder, root)


def fill(root: Path) -> None:
    """A workspace with everything that is awkward."""
    attributes = "* text=auto\n*.py eol=lf\n*.txt ident\nprivate filter=lfs working-tree-encoding=UTF-16\n"
    ignored = ("x.log", "build/out", "node_modules/m/i.js")
    put(root, dict.fromkeys(("src/b.py", "run.sh", "new\nline", "\udcff\udcfe", "grün.md", "-rf", ":(glob)*"), "x"))
    put(root, dict.fromkeys((*ignored, "private"), "x"))
    put(root, {"a.py": "print(1)\r\n", "src/deep/er/c": b"\0\xff", "empty": "", "id.txt": "$Id$"})
    put(root, {".gitignore": "*.log\nbuild/\n", ".gitattributes": attributes})
    (root / "run.sh").chmod(0o755)
    (root / "private").chmod(0o600)
    for name, target in {"link": "src/b.py", "away": "/etc", "dangling": "nowhere"}.items():
        (root / name).symlink_to(target)


def picture(root: Path) -> dict[bytes, object]:
    """Kind, permissions and content of each file and link on disk; folders as long as they hold one."""
    return {
        os.fsencode(path): str(path.readlink()) if path.is_symlink() else (path.stat().st_mode, path.read_bytes())
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def visible(root: Path) -> dict[bytes, object]:
    ignored = (b".log", b"/build/", b"/node_modules/", b"/.git/")
    return {path: what for path, what in picture(root).items() if not any(part in path + b"/" for part in ignored)}


HAVOC = {
    "edited": "echo more >> a.py",
    "same size, same time": "touch -r a.py ../ref; printf 'print(2)\\r\\n' > a.py; touch -r ../ref a.py",
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
    "odd names": r"echo x > $'new\nline'; rm $'\xff\xfe' -- -rf; echo y > $'other\nname'; echo z > ':(glob)*'",
    "ignored from now on": "echo '*' > .gitignore; echo 1 > secret.py",
    "no longer ignored": "rm .gitignore; echo 1 > other.log",
    "line ends by attribute": "echo '* text=auto eol=lf' > .gitattributes; echo more >> a.py",
    "repositories inside": "git init -q sub; git init -q sub/in; echo 1 > sub/f; echo 2 > sub/in/g",
    "a linked worktree": "mkdir linked; echo 'gitdir: /nowhere' > linked/.git; echo 3 > linked/h",
    # git would wait for ever for what it reads there, and the rest of its work would not be seen
    "pipe to ignore": "rm .gitignore; mkfifo .gitignore; echo 1 > new.py; echo 2 > a.py",
    "pipe to ignore below": "mkfifo src/.gitignore; echo 1 > new.py",
    "pipe of attributes": "rm .gitattributes; mkfifo .gitattributes; echo 2 > a.py",
    "a repository with a commit": (
        "git init -q sub; echo 1 > sub/f; cd sub; git add f; git -c user.name=a -c user.email=a commit -qm m"
    ),
}


LEFT: dict[str, dict[str, str]] = {
    # a file in it is ignored, so it is not put away for the old one
    "file becomes folder": {"a.py": "directory not empty", "a.py/x": "new; may hold what was a.py"},
    "ignored from now on": {"secret.py": "was ignored by git until now"},
}


@pytest.mark.parametrize("havoc", HAVOC)
def test_whatever_a_program_does_is_seen_and_undone(
    work: Work, root: Path, havoc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but ignored files and the inside of `.git` is as it was, to the byte and the permission."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr("tenex.tools.checkpoints.PATIENCE", 1.0)
    fill(root)
    was = visible(root)
    work.turn()
    work.runs(HAVOC[havoc])
    done = work.undoes()
    assert done.files or done.left
    assert done.left == LEFT.get(havoc, {})
    assert (visible(root) == was) == done.is_as_before == (not done.left)


def test_the_workspaces_own_repository_is_left_alone_and_nothing_in_it_runs(
    checkpoints: Checkpoints, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted where git would look: settings of the repository, of the person, of the environment; hooks; filters."""
    mark, planted = tmp_path / "ran", tmp_path / "planted"
    planted.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    planted.chmod(0o755)
    git(root, "init", "-q")
    put(root, {"a": "1"})
    git(root, "add", "a")
    for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.external", "core.editor"):
        git(root, "config", name, str(planted))
    shutil.copy(root / ".git/config", tmp_path / "gitconfig")
    environment = {"GIT_CONFIG_GLOBAL": tmp_path / "gitconfig", "GIT_EXTERNAL_DIFF": planted, "GIT_DIR": root / ".git"}
    for name, value in {**environment, "HOME": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    put(root, {".gitattributes": "* filter=evil diff=evil\n"})
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout"):
        shutil.copy(planted, root / ".git/hooks" / hook)
    was = {path: what for path, what in picture(root).items() if b"/.git/" in path}
    before = checkpoints.take()
    put(root, {"a": "x\r\n"})
    after = checkpoints.take()
    checkpoints.keep(after, CONVERSATION, "m")
    assert checkpoints.put_back(checkpoints.changes(before, after), before, after) == {}
    assert not mark.exists()
    assert {path: what for path, what in picture(root).items() if b"/.git/" in path} == was


def test_what_is_too_large_is_watched_and_not_kept(
    checkpoints: Checkpoints, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 1_000)
    put(root, dict.fromkeys(("big", "shrinks", "goes", "mode"), b"z" * 5_000) | {"grows": b"y" * 900})
    before = checkpoints.take()
    assert set(before.unkept) == {b"big", b"shrinks", b"goes", b"mode"}
    assert checkpoints.changes(before, checkpoints.take()) == []
    put(root, {"big": b"X" * 5_001, "grows": b"y" * 9_000, "shrinks": b"z", "fresh": b"w" * 5_000})
    (root / "goes").unlink()
    (root / "mode").chmod(0o755)
    after = checkpoints.take()
    changes = checkpoints.changes(before, after)
    assert [(change.path, change.is_new, change.is_there) for change in changes] == [
        (b"big", False, True),
        (b"fresh", True, True),
        (b"goes", False, False),
        (b"grows", False, True),
        (b"mode", False, True),
        (b"shrinks", False, True),
    ]
    lost = "was 5 kB and is not in the checkpoints"
    unseen = "changed since the checkpoint"
    left = checkpoints.put_back(changes, before, after)
    assert left == {
        b"big": lost,
        b"fresh": "new; may hold what was big",
        b"goes": lost,
        b"grows": unseen,
        b"shrinks": lost,
    }
    assert (root / "mode").stat().st_mode & 0o777 == 0o644
    sizes = {path.name: path.stat().st_size for path in root.iterdir()}
    assert sizes == {"big": 5_001, "fresh": 5_000, "grows": 9_000, "mode": 5_000, "shrinks": 1}


def test_permissions_are_part_of_a_snapshot_where_they_are_unusual(checkpoints: Checkpoints, root: Path) -> None:
    put(root, {"n/private": "1", "n/run.sh": "1", "plain": "1"})
    modes = {"n/private": 0o600, "n/run.sh": 0o755, "plain": 0o644, "n": 0o750}
    for path, mode in modes.items():
        (root / path).chmod(mode)
    before = checkpoints.take()
    assert before.permissions == {b"n/private": 0o600, b"n": 0o750}
    assert checkpoints.read(before.tree) == [before]
    (root / "plain").chmod(0o664)
    (root / "n").chmod(0o755)
    changes = checkpoints.changes(before, checkpoints.take())
    assert {change.path: change.permissions for change in changes} == {b"n": 0o750, b"plain": 0o644}


def test_another_object_over_the_same_folder_does_not_leave_an_old_list(
    checkpoints: Checkpoints, folder: Path, root: Path
) -> None:
    put(root, {".gitignore": "*.log\n", "a": "1"})
    before = checkpoints.take()
    put(root, {"x.log": "1"})
    Checkpoints(folder, root).take()
    (root / "x.log").unlink()
    assert checkpoints.take().tree == before.tree


def test_who_changed_what_is_in_the_message_of_a_commit(checkpoints: Checkpoints, root: Path) -> None:
    others = [b"new\nline", b"\xff", b'quoted"']
    for number, lines in enumerate(
        (
            "",
            call_lines(Access.CHANGE, witnessed=False, others=()),
            call_lines(Access.RUN, witnessed=True, others=others),
        )
    ):
        put(root, {"a": str(number)})
        checkpoints.keep(checkpoints.take(), CONVERSATION, f"after x\n\nkey: {CONVERSATION}:{number}\n{lines}")
    known = [(each.call, each.access, each.is_witnessed, each.others) for each in checkpoints.commits(CONVERSATION)]
    assert known == [
        (0, None, False, frozenset()),
        (1, Access.CHANGE, False, frozenset()),
        (2, Access.RUN, True, frozenset(others)),
    ]


def test_a_reader_leaves_the_locks_and_files_of_who_is_at_work(
    checkpoints: Checkpoints, folder: Path, root: Path
) -> None:
    assert list(Checkpoints(folder, root, reads_only=True).commits(CONVERSATION)) == []
    assert not folder.exists()

    put(root, {"a": "1"})
    checkpoints.keep(checkpoints.take(), CONVERSATION, f"after x\n\nkey: {CONVERSATION}:1\n")
    locks = [folder / "index.lock", folder / f"{REF}.lock"]
    for lock in locks:
        lock.touch()
    before = picture(folder)
    assert [each.call for each in Checkpoints(folder, root, reads_only=True).commits(CONVERSATION)] == [1]
    assert picture(folder) == before

    (folder / "HEAD").write_text("nothing")
    with pytest.raises(CheckpointFailed):
        Checkpoints(folder, root, reads_only=True).commits(CONVERSATION)
    assert [path.name for path in folder.parent.glob("*.broken-*")] == []


def test_each_conversation_has_its_own_chain_after_a_restart_and_packing_too(
    checkpoints: Checkpoints, folder: Path, root: Path
) -> None:
    other = "d" * 64
    for number in range(3):
        put(root, {"a": f"{number}"})
        checkpoints.keep(checkpoints.take(), CONVERSATION, f"call {number}\n\ncall: k{number}\n")
        checkpoints.keep(checkpoints.take(), CONVERSATION, "the same again")
        checkpoints.keep(checkpoints.take(), other, f"other {number}")
    git(folder, "gc", "-q")
    assert not (folder / REF).exists(), "it is packed"
    again = Checkpoints(folder, root)
    again.keep(again.take(), CONVERSATION, "the same")
    put(root, {"a": "3"})
    tree = again.take().tree
    again.keep(again.take(), CONVERSATION, "call 3")
    assert checkpoints.take().tree == tree, "two over one folder do not believe old trees"
    assert subjects(folder) == ["call 3", "call 2", "call 1", "call 0"]
    assert git(folder, "log", "--format=%s", f"refs/tenex/{other}").splitlines() == ["other 2", "other 1", "other 0"]
    assert git(folder, "show", f"{REF}~2:a") == "1"
    assert "call: k0" in git(folder, "log", "--format=%B", REF)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not (folder / "hooks").exists()


def test_without_git_or_its_folder_there_is_an_error_that_names_it(
    checkpoints: Checkpoints, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"file": ""})
    with pytest.raises(CheckpointFailed, match="file/checkpoints"):
        Checkpoints(tmp_path / "file" / "checkpoints", root).take()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckpointFailed, match="git is not installed"):
        checkpoints.take()


def test_a_new_repository_appears_whole(
    tmp_path: Path, folder: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tenex doctor` beside the daemon, and a start after a kill, never see one that `git init` has half written."""
    seen, path = tmp_path / "seen", os.environ["PATH"]
    wrapper = f'#!/bin/sh\nPATH="{path}"\ngit "$@" || exit\n[ "$1" = init ] && ls -A "{folder}" >"{seen}"\nexit 0\n'
    put(tmp_path, {"bin/git": wrapper})
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{path}")
    checkpoints.take()
    assert seen.read_text() == ""
    assert (folder / "HEAD").exists()
    assert not folder.with_name("checkpoints.new").exists()


# ---- a shadow repository that was damaged --------------------------------------------------------------------------


def spoil(folder: Path, name: str) -> None:
    """Empty the file of an object, as a machine without power leaves it."""
    place = folder / "objects" / name[:2] / name[2:]
    place.chmod(0o600)
    place.write_text("")


@pytest.mark.parametrize(
    "damage",
    ["commit", "tree", "empty ref", "ref", "HEAD", "objects", "config", "index", "index.lock", f"{REF}.lock"],
)
async def test_an_unreadable_repository_is_replaced_and_other_damage_repaired(
    workspace: Workspace, root: Path, folder: Path, damage: str
) -> None:
    """The work goes on, and what was kept is not thrown away."""
    put(root, {"a": "1"})
    await every_tool(workspace, folder).run("echo 2 > a")
    match damage:
        case "commit" | "tree":
            commit = (folder / REF).read_text().strip()
            spoil(folder, git(folder, "rev-parse", commit + ("^{tree}" if damage == "tree" else "")).strip())
        case "empty ref" | "ref":
            (folder / REF).write_text("" if damage == "empty ref" else "x" * 40)
        case "objects":
            shutil.rmtree(folder / "objects")
        case "index":
            (folder / damage).unlink()
            (folder / damage).write_bytes(b"DIRC" + b"\0" * 50)
        case name:
            (folder / name).write_text("")
    result = await every_tool(workspace, folder).run("echo 3 > a")
    assert result.touched == ("a",)
    assert list(folder.rglob("*.lock")) == []
    aside = [path for path in folder.parent.iterdir() if path.name.startswith("checkpoints.broken-")]
    assert len(aside) == (damage in ("commit", "tree", "empty ref", "ref", "HEAD", "objects"))


@pytest.mark.parametrize(
    ("command", "touched"),
    [
        ("echo '!node_modules' > .gitignore; mkdir node_modules; echo 1 > node_modules/x", {".gitignore"}),
        # repositories deep in one another
        (
            "d=.; for i in 1 2 3 4 5 6 7 8 9 10 11; do d=$d/n; git init -q $d; echo 1 > $d/f; done; echo 1 > a",
            {"a", "n/f", "n/n/n/n/n/n/n/f"},
        ),
        # without a sandbox repositories stay, and git opens what leads to their commits
        ("mkdir -p s/.git/objects s/.git/refs; mkfifo s/.git/HEAD; echo 1 > a", {"a"}),
    ],
)
async def test_nothing_planted_brings_in_what_is_never_kept_or_blocks_a_snapshot(
    recorded: Bench, monkeypatch: pytest.MonkeyPatch, command: str, touched: set[str]
) -> None:
    monkeypatch.setattr("tenex.tools.checkpoints.PATIENCE", 1.0)
    found = set((await recorded.run(command)).touched)
    assert found >= touched
    assert not {path for path in found if "node_modules" in path or ".git/" in path}


# ---- going back to a record ------------------------------------------------------------------------------------------


def test_at_every_record_the_files_are_those_of_then(work: Work, root: Path) -> None:
    put(root, {"mine": "0"})
    expected = [work.files()]
    for files in ({"a": "1"}, {}, {"a": "2", "b": "1"}, {"a": None}, {"mine": "1"}):
        work.calls(**files)
        expected += [expected[-1], work.files()]
    for to in (*range(len(expected) - 1, 0, -1), *range(1, len(expected))):
        assert work.goes_back(to).is_as_before
        assert work.files() == expected[to], to


def test_before_the_first_call_the_files_are_what_that_call_found(work: Work, root: Path) -> None:
    work.turn()
    put(root, {"mine": "0"})
    work.calls(a="1")
    work.goes_back(1)
    assert work.files() == {"mine": "0"}


def test_going_back_can_be_undone_and_leaves_what_was_done_by_hand(work: Work, root: Path, folder: Path) -> None:
    work.calls(a="1")
    last = work.calls(a="2", b="2", d="2")
    put(root, {"a": "by hand", "c": "by hand"})
    by_hand = work.files()
    done = work.goes_back(2)
    assert done.files == ("b", "d")
    assert done.left == {"a": "changed by somebody else too", "c": "changed by somebody else"}
    assert subjects(folder)[:2] == ["after going back", "before going back"]
    assert work.files() == {"a": "by hand", "c": "by hand"}
    put(root, {"d": "by hand"})
    forward = work.goes_back(last)
    assert (forward.files, forward.left) == (("b",), {"d": "changed by somebody else too"})
    assert work.files() == by_hand | {"d": "by hand"}
    assert work.goes_back(len(work.records) - 1).files == ("b",)


def test_going_back_that_was_not_recorded_is_done_again(work: Work, root: Path) -> None:
    """The daemon ended when the files were back and the record was not yet written."""
    work.calls(a="1")
    last = work.calls(a="2", b="2")
    work.goes_back(2)
    work.records.pop()
    assert work.goes_back(2).is_as_before
    assert work.files() == {"a": "1"}
    assert work.goes_back(last).is_as_before
    assert work.files() == {"a": "1"}, "it is what the second time found"


def test_what_has_no_copy_is_left_alone_and_named(work: Work, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large to be kept, ignored by git by now, or a folder with such files in it."""
    seq = work.calls(a="1", data="small", tool="was a file", kept="kept")
    work.calls(kept=None)
    work.writes("b", "2")
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 100)
    work.runs(
        "rm tool; printf '*.log\\nkept\\n' > .gitignore; for f in data large; do printf 'y%.0s' {1..200} > $f; done"
    )
    work.runs("mkdir tool; echo ignored > tool/out.log; echo mine > kept")
    there = work.files()
    done = work.goes_back(seq)
    assert done.left == {
        "data": "is 200 bytes and is not in the checkpoints",
        "kept": "is ignored by git and is not in the checkpoints",
        "large": "is 200 bytes and is not in the checkpoints",
        "tool": "directory not empty",
        ".gitignore": "new; may hold what was tool",
    }
    assert done.files == ("b",), "that one was written by a file tool"
    assert work.files() == {path: text for path, text in there.items() if path not in done.files}


def test_an_undo_leaves_what_calls_changed_that_are_not_on_record(work: Work, root: Path) -> None:
    """A rebuilt journal has other records at the numbers of those that were lost."""
    work.turn()
    work.calls(a="1", both="1")
    rebuilt = work.records[:]
    work.calls(b="2", both="2")
    work.records[:] = rebuilt
    done = work.undoes()
    assert (done.files, done.left) == (("a",), {"both": "changed by somebody else too"})
    assert work.files() == {"b": "2", "both": "2"}


def test_a_link_in_the_way_is_not_followed(work: Work, root: Path, outside: Path) -> None:
    put(root, {"folder/secret.txt": "ours"})
    seq = work.calls(a="1")
    work.runs(f"rm -r folder; ln -s {outside} folder")
    work.goes_back(seq)
    assert (outside / "secret.txt").read_text() == "the secret\n"
    assert not (root / "folder").is_symlink()
    assert (root / "folder" / "secret.txt").read_text() == "ours"


def test_unreadable_content_is_named_and_the_rest_put_back(work: Work, root: Path, folder: Path) -> None:
    """A new file stays then: it may be all that there is of the old one."""
    put(root, {name: name for name in "abc"})
    work.turn()
    work.runs("echo x | tee a c; gzip b")
    spoil(folder, git(folder, "rev-parse", f"{REF}~1:b").strip())
    done = work.undoes()
    assert done.files == ("a", "c")
    assert done.left == {"b": "its copy cannot be read", "b.gz": "new; may hold what was b"}
    assert (root / "b.gz").exists()


def test_where_nothing_was_ever_kept_it_is_refused(work: Work) -> None:
    with pytest.raises(UsageError, match="No checkpoint of conversation cccccccccccc"):
        tree_after(work.checkpoints, CONVERSATION, [], 3)
    work.calls(a="1")
    with pytest.raises(UsageError, match="No checkpoint"):
        tree_after(work.checkpoints, ConversationId("d" * 64), work.records, 2)


def test_what_an_older_version_noted_as_lost_is_read(checkpoints: Checkpoints, root: Path) -> None:
    lost = '{"path": "build/x", "count": 1, "was": [33188, 1, 2, 3]}'
    checkpoints.keep(checkpoints.take(), "c", f"after shell\n\naccess: run\nwitnessed: yes\nlost: {lost}\n")
    (commit,) = checkpoints.commits("c")
    (read,) = commit.displaced.lost
    assert (read.path, read.was, read.files) == (b"build/x", (33188, 1, 2, 3), {})
