"""Checkpoints see every change with the real git, put each back, and leave the workspace's own repository alone.

Whatever was done to the shadow repository, or planted in its way, it is repaired or begun again. From its commits the
workspace is restored to what it was after a record; what has no copy is left.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Replay
from tenex.core.errors import UsageError
from tenex.core.identity.state import Identity
from tenex.core.ids import CallId, ConversationId, Millis, RunId, Slug, TurnId
from tenex.core.phases import Phase
from tenex.core.record import Record
from tenex.core.records import ToolCallCompleted, ToolCallStarted
from tenex.core.rollback.whole import RolledBack
from tenex.core.state import State
from tenex.core.work.records import TurnOpened
from tenex.tools import snapshots
from tenex.tools.checkpoints import Checkpoints, PutBack
from tenex.tools.rollback import Returned, put_back, tree_after, undo
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.workspace import Workspace
from tests.programs import needs_git

from .conftest import Bench, every_tool, git, put, subjects

pytestmark = needs_git

CONVERSATION = ConversationId("c" * 64)
REF = f"refs/tenex/{CONVERSATION}"


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
    "hidden by itself": "printf '*\\n' > src/.gitignore; echo 1 > src/secret.py",
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


@pytest.mark.parametrize("script", HAVOC.values(), ids=HAVOC.keys())
def test_whatever_happens_is_seen_and_put_back(
    checkpoints: Checkpoints, root: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but ignored files and the inside of `.git` is as it was, to the byte and the permission."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr("tenex.tools.checkpoints.PATIENCE", 1.0)
    fill(root)
    renamed = [b"a.py.replaced"] if "a.py/build" in script else []  # it has a file that is ignored
    before, was = checkpoints.take(exact=True), visible(root)
    subprocess.run(["/bin/bash", "-ec", script], cwd=root, check=True)
    after = checkpoints.take(exact=True)
    changes = checkpoints.changes(before, after)
    assert changes
    hiding = [change for change in changes if change.path.rpartition(b"/")[2] == b".gitignore"]
    assert checkpoints.put_back(hiding, before, after) == PutBack()
    after = checkpoints.take(exact=True)
    changes = checkpoints.drop_ignored(checkpoints.changes(before, after))
    done = checkpoints.put_back(changes, before, after, rename=True)
    assert done.left == {}
    assert [path.rpartition(b"-")[0] for path in done.renamed.values()] == renamed
    assert visible(root) == was
    assert checkpoints.changes(before, checkpoints.take(exact=True)) == []


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
    before = checkpoints.take(exact=True)
    put(root, {"a": "x\r\n"})
    after = checkpoints.take(exact=True)
    checkpoints.keep(after, CONVERSATION, "m")
    assert checkpoints.put_back(checkpoints.changes(before, after), before, after) == PutBack()
    assert not mark.exists()
    assert {path: what for path, what in picture(root).items() if b"/.git/" in path} == was


def test_what_is_too_large_is_watched_and_not_kept(
    checkpoints: Checkpoints, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 1_000)
    put(root, dict.fromkeys(("big", "shrinks", "goes", "mode"), b"z" * 5_000) | {"grows": b"y" * 900})
    before = checkpoints.take(exact=True)
    assert set(before.unkept) == {b"big", b"shrinks", b"goes", b"mode"}
    assert checkpoints.changes(before, checkpoints.take(exact=True)) == []
    put(root, {"big": b"X" * 5_001, "grows": b"y" * 9_000, "shrinks": b"z", "fresh": b"w" * 5_000})
    (root / "goes").unlink()
    (root / "mode").chmod(0o755)
    after = checkpoints.take(exact=True)
    changes = checkpoints.changes(before, after)
    assert [(change.path, change.is_new, change.is_there) for change in changes] == [
        (b"big", False, True),
        (b"fresh", True, True),
        (b"goes", False, False),
        (b"grows", False, True),
        (b"mode", False, True),
        (b"shrinks", False, True),
    ]
    done = checkpoints.put_back(changes, before, after, rename=True)
    assert done.left == {
        b"big": "was 5 kB, not in the checkpoint",
        b"fresh": "5 kB, not in the checkpoint",
        b"goes": "was 5 kB, not in the checkpoint",
        b"shrinks": "was 5 kB, not in the checkpoint",
    }
    assert (root / "mode").stat().st_mode & 0o777 == 0o644
    assert (root / "grows").read_bytes() == b"y" * 900
    assert (root / os.fsdecode(done.renamed[b"grows"])).read_bytes() == b"y" * 9_000, "what was in the way has no copy"
    sizes = {path.name: path.stat().st_size for path in root.iterdir() if "grows" not in path.name}
    assert sizes == {"big": 5_001, "fresh": 5_000, "mode": 5_000, "shrinks": 1}


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
    result = await every_tool(workspace, folder).run("echo 3 > a", Phase.VERIFICATION)
    assert result.reverted == ("a",)
    assert (root / "a").read_text() == "2\n"
    assert list(folder.rglob("*.lock")) == []
    aside = [path for path in folder.parent.iterdir() if path.name.startswith("checkpoints.broken-")]
    assert len(aside) == (damage in ("commit", "tree", "empty ref", "ref", "HEAD", "objects"))


async def test_unreadable_content_is_reported_and_the_rest_put_back(recorded: Bench, root: Path, folder: Path) -> None:
    put(root, {name: name for name in "abc"})
    await recorded.run("true")
    spoil(folder, git(folder, "rev-parse", f"{REF}:b").strip())
    result = await recorded.run("echo x | tee a b c", Phase.VERIFICATION)
    assert (result.reverted, result.touched) == (("a", "c"), ("b",))
    assert "Could not be put back: b (its copy cannot be read); name this in your response." in result.content
    assert [(root / name).read_text() for name in "ac"] == ["a", "c"]


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


class Work:
    """Calls that write files, each between two snapshots as the tools take them, and the journal of them."""

    def __init__(self, checkpoints: Checkpoints, root: Path) -> None:
        self.checkpoints, self.root = checkpoints, root
        self.records: list[Record] = []

    def call(self, **files: str | None) -> int:
        """One call: permitted, done, returned; None removes a file. The number of its last record."""
        seq = len(self.records) + 1
        name = CallId(f"k{seq}")
        self._add(ToolCallStarted, run=RunId("turn-1.x"), call=name, tool="t", replay=Replay.ONCE, phase=Phase.EXECUTE)
        self._keep("before", seq)
        for key, content in files.items():
            if content is None:
                (self.root / key).unlink()
            else:
                put(self.root, {key: content})
        self._keep("after", seq)
        self._add(ToolCallCompleted, run=RunId("turn-1.x"), call=name, tool="t", ok=True, content="")
        return len(self.records)

    def back(self, to: int) -> Returned:
        """Go back to a record with the files, as the daemon does."""
        tree = tree_after(self.checkpoints, CONVERSATION, self.records, to)
        done = put_back(self.checkpoints, CONVERSATION, tree, "test")
        self._add(
            RolledBack,
            to=to,
            by="x",
            reason="",
            state=State(identity=Identity(id=CONVERSATION)),
            restored_tree=done.tree,
            previous_tree=done.was,
        )
        return done

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.root.iterdir()) if path.is_file()}

    def _add(self, kind: type[Record], **data: Any) -> None:
        self.records.append(kind(seq=len(self.records) + 1, at=Millis(1), **data))

    def _keep(self, moment: str, seq: int) -> None:
        message = f"{moment} t\n\nconversation: {CONVERSATION}\nkey: {CONVERSATION}:{seq}\nagent: x\n"
        self.checkpoints.keep(self.checkpoints.take(), CONVERSATION, message)


@pytest.fixture
def work(folder: Path, root: Path) -> Work:
    return Work(Checkpoints(folder, root), root)


def test_at_every_record_the_files_are_those_of_then(work: Work) -> None:
    put(work.root, {"mine": "0"})
    expected: list[dict[str, str]] = [work.files()]
    for files in ({"a": "1"}, {}, {"a": "2", "b": "1"}, {"a": None}, {"mine": "1"}):
        work.call(**files)
        expected += [expected[-1], work.files()]
    for to in (*range(len(expected) - 1, 0, -1), *range(1, len(expected))):
        work.back(to)
        assert work.files() == expected[to], to


def test_before_the_first_call_the_files_are_what_that_call_found(work: Work) -> None:
    work.records.append(
        RolledBack(seq=1, at=Millis(1), to=1, by="", reason="", state=State(identity=Identity(id=CONVERSATION)))
    )
    put(work.root, {"mine": "0"})
    work.call(a="1")
    work.back(1)
    assert work.files() == {"mine": "0"}


def test_going_back_to_the_moment_before_going_back_brings_what_was_done_by_hand(work: Work, folder: Path) -> None:
    """It is kept by a commit of its own: git deletes what only a record names."""
    work.call(a="1")
    last = work.call(a="2", b="2")
    put(work.root, {"a": "by hand", "c": "by hand"})
    by_hand = work.files()
    assert work.back(2).changed == ("a", "b", "c")
    assert subjects(folder)[:2] == ["after going back", "before going back"]
    assert work.files() == {"a": "1"}
    assert work.back(last).changed == ("a", "b", "c")
    assert work.files() == by_hand
    assert work.back(len(work.records) - 1).changed == ("a", "b", "c")
    assert work.files() == {"a": "1"}
    assert work.back(last + 1).changed == ()
    work.call(a="3")
    assert work.back(last + 1).changed == ("a",)
    assert work.files() == {"a": "1"}, "the workspace after a record that put it back"


def test_what_has_no_copy_is_left_alone_and_named(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large to be kept, ignored by git by now, or a folder with such files in it."""
    seq = work.call(a="1", data="small", tool="was a file", kept="kept")
    work.call(b="2", kept=None)
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 100)
    (work.root / "tool").unlink()
    mine = {"data": "x" * 200, "large": "y" * 200, "tool/out.log": "ignored", "kept": "ignored and new"}
    put(work.root, {**mine, ".gitignore": "*.log\nkept\n"})
    done = work.back(seq)
    assert done.left == {
        "data": "200 bytes, not in the checkpoint",
        "kept": "changed since the checkpoint",
        "large": "200 bytes, not in the checkpoint",
        "tool": "directory not empty",
    }
    assert {name: (work.root / name).read_text() for name in mine} == mine
    assert done.changed == (".gitignore", "b")


def test_an_undo_leaves_what_calls_changed_that_are_not_on_record(work: Work) -> None:
    """A rebuilt journal has other records at the numbers of those that were lost."""
    opened = TurnOpened(
        seq=1,
        at=Millis(0),
        turn_id=TurnId("turn-1"),
        phase=Phase.EXECUTE,
        agents=(Slug("x"),),
        reason="",
        handoff=None,
    )
    work.records.append(opened)
    work.call(a="1", both="1")
    rebuilt = work.records[:]
    work.call(b="2", both="2")
    listed = undo(work.checkpoints, CONVERSATION, rebuilt, "turn", 0)
    assert (listed.files, listed.left) == (("a",), {"both": "changed by somebody else too"})
    done = undo(work.checkpoints, CONVERSATION, rebuilt, "turn", listed.to)
    assert done.files == ("a",)
    assert not (work.root / "a").exists()
    assert {name: (work.root / name).read_text() for name in ("b", "both")} == {"b": "2", "both": "2"}


def test_a_link_in_the_way_is_not_followed(work: Work, outside: Path) -> None:
    put(work.root, {"folder/secret.txt": "ours"})
    seq = work.call(a="1")
    (work.root / "folder" / "secret.txt").unlink()
    (work.root / "folder").rmdir()
    (work.root / "folder").symlink_to(outside)
    work.call(a="2")
    work.back(seq)
    assert (outside / "secret.txt").read_text() == "the secret\n"
    assert not (work.root / "folder").is_symlink()
    assert (work.root / "folder" / "secret.txt").read_text() == "ours"


def test_where_nothing_was_ever_kept_it_is_refused(work: Work) -> None:
    with pytest.raises(UsageError, match="No checkpoint of conversation cccccccccccc"):
        tree_after(work.checkpoints, CONVERSATION, [], 3)
    work.call(a="1")
    with pytest.raises(UsageError, match="No checkpoint"):
        tree_after(work.checkpoints, ConversationId("d" * 64), work.records, 2)
