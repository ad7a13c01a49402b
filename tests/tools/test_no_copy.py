"""Nothing is removed or overwritten of which no copy exists: what a checkpoint could not keep stays, and is named."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.config import Replay
from tenex.core.identity.state import Identity
from tenex.core.ids import CallId, Millis, RunId
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.record import Record
from tenex.core.records import ToolCallCompleted, ToolCallStarted
from tenex.core.rollback.whole import RolledBack
from tenex.core.state import State
from tenex.tools import restore, snapshots
from tenex.tools.checkpoints import Change, Checkpoints, PutBack
from tenex.tools.rollback import put_back, tree_after
from tenex.tools.snapshots import Snapshot
from tenex.tools.workspace import Workspace, digest
from tests.programs import needs_git

from . import conftest as kit
from .conftest import CHORES, VERIFICATION, Bench, contents, every_tool, git, make_context, names_in, put
from .test_checkpoints import CONVERSATION, REF, Work, spoil

pytestmark = needs_git

LARGE = b"row\n" * (11 * 1024 * 1024 // 4)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files over 100 bytes are not kept."""
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 100)


@pytest.fixture
def work(folder: Path, root: Path) -> Work:
    return Work(Checkpoints(folder, root), root)


def listed(folder: Path, commit: str = REF) -> dict[str, str]:
    """What a checkpoint says that it does not hold, with the reasons."""
    name = os.fsdecode(snapshots.NOT_KEPT)
    if not git(folder, "ls-tree", commit, "--", name):
        return {}
    lines = git(folder, "show", f"{commit}:{name}").splitlines()
    return {entry["path"]: entry["why"] for entry in map(json.loads, lines)}


# ---- the two that were reported, with files of 11 MB -----------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.VERIFICATION, Phase.CHORES])
async def test_a_large_file_that_was_renamed_in_verification_or_chores_is_there_and_named(
    recorded: Bench, root: Path, folder: Path, phase: Phase
) -> None:
    put(root, {"a.csv": LARGE})
    result = await recorded.run("mv a.csv b.csv", phase)
    assert (root / "b.csv").read_bytes() == LARGE
    assert (result.reverted, result.touched) == ((), ("a.csv", "b.csv"))
    reason = "a.csv (was 12 MB, not in the checkpoint), b.csv (may hold what was a.csv)"
    assert f"Could not be put back: {reason}; name this in your response." in result.content
    assert listed(folder, f"{REF}~1") == {"a.csv": "12 MB"}, "said before the command"


def test_a_rollback_leaves_alone_what_a_large_file_was_replaced_by_and_names_it(root: Path, work: Work) -> None:
    put(root, {"a.csv": LARGE})
    before = work.call(x="1")
    work.call(**{"a.csv": "tiny\n", "x": "2"})
    for expected in (("x",), ()):  # a second time too
        done = work.back(before)
        assert done.left == {"a.csv": "was 12 MB, not in the checkpoint"}
        assert done.changed == expected
        assert (root / "a.csv").read_text() == "tiny\n"


# ---- others of the kind ----------------------------------------------------------------------------------------------


BIG, OTHER = "b" * 200, "o" * 300

COMMANDS: dict[str, tuple[str, dict[str, str | None]]] = {
    "large over small": ("mv large small", {"large": "was 200 bytes", "small": None}),
    "small over large": ("mv small large", {"large": "was 200 bytes"}),
    "packed": ("gzip large", {"large": "was 200 bytes", "large.gz": "may hold what was large"}),
    "packed with others": ("tar cf all.tar large other; rm large other", {"all.tar": "may hold what was large"}),
    "into a folder": ("mkdir d; mv large d/", {"d/large": "may hold what was large"}),
    "under a link": ("mv large moved; ln -s moved large", {"moved": "200 bytes"}),
    "a folder of its name": ("rm small; mkdir small; mv large small/", {"small/large": "may hold what was large"}),
    "in the place of a folder": (
        "rm -r src; mv large src",
        {"src": "may hold what was large", "src/a": "not a directory"},
    ),
    "cut": ("truncate -s 50 large", {"large": "was 200 bytes"}),
    "appended": ("echo more >> large", {"large": "was 200 bytes"}),
    "a hard link": ("ln large twin; rm large", {"twin": "may hold what was large"}),
    "swapped": ("mv large x; mv other large; mv x other", {"large": "was 200 bytes", "other": "was 300 bytes"}),
    "odd names": (r"mv large $'\xff'; mv other $'new\nline'", {"\ufffd": "may hold what was large"}),
    "other case": ("mv large LARGE", {"LARGE": "may hold what was large"}),
    "a new one": ("cp large new", {"new": "200 bytes, not in the checkpoint"}),
    "ignored by a new rule": ("mv large y.log; echo '*.log' > .gitignore", {"y.log": "may hold what was large"}),
    "a repository that is taken away": ("mkdir -p n/.git; mv large n/.git/", {"large": "was 200 bytes"}),
}


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("command", COMMANDS)
async def test_in_verification_what_has_no_copy_stays_and_is_named(recorded: Bench, root: Path, command: str) -> None:
    put(root, {"large": BIG, "other": OTHER, "small": "small", "src/a": "a"})
    script, reasons = COMMANDS[command]
    picture = root.parent / "picture"
    result = await recorded.run(f"{script}; cp -a . {picture}", Phase.VERIFICATION)
    assert result.ok, result.content
    there = bytes_below(root)
    assert {content for content in bytes_below(picture) if len(content) > 100} <= there
    for path, why in reasons.items():
        if why is not None:
            assert f"{path} ({why}" in result.content
            assert path in result.touched
    if reasons.get("small", "") is None:
        assert (root / "small").read_text() == "small"
        assert "There was no copy of what they replaced; it is renamed: small.replaced-" in result.content


def bytes_below(root: Path) -> set[bytes]:
    return {path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


async def test_ignored_files_and_empty_folders_outlive_the_rule_that_ignored_them(
    recorded: Bench, root: Path, folder: Path
) -> None:
    put(root, {"a.py": "1", ".gitignore": "*.log\n.env\n", "x.log": "log", ".env": "secret"})
    (root / "out/in/ner").mkdir(parents=True)
    result = await recorded.run("rm .gitignore; echo 1 > out/in/f; echo 2 > b.py", Phase.VERIFICATION)
    assert result.reverted == (".gitignore", "b.py", "out/in/f")
    assert names_in(root) == [".env", ".gitignore", "a.py", "out", "x.log"]
    assert (root / "out/in/ner").is_dir()
    ignored = dict.fromkeys((".env", "x.log"), "ignored")
    assert listed(folder) == ignored | dict.fromkeys(("out", "out/in", "out/in/ner"), "empty folder")
    assert (await recorded.run("echo more >> x.log", Phase.VERIFICATION)).reverted == (), "it is ignored again"


async def test_what_a_new_rule_hid_is_kept_before_it_is_removed(recorded: Bench, root: Path, folder: Path) -> None:
    await recorded.run("echo '*' > .gitignore; echo only > hidden.py", Phase.VERIFICATION)
    assert names_in(root) == []
    assert git(folder, "show", f"{REF}~1:hidden.py") == "only\n"


def test_what_a_person_writes_after_the_snapshot_stays(folder: Path, root: Path) -> None:
    put(root, dict.fromkeys(("edited", "gone"), "1"))
    checkpoints = Checkpoints(folder, root)
    before = checkpoints.take(exact=True)
    put(root, {"edited": "2", "new": "2", "goes": "2"})
    (root / "gone").unlink()
    after = checkpoints.take(exact=True)
    put(root, {"edited": "mine", "new": "mine", "gone": "mine"})
    changes = checkpoints.changes(before, after)
    done = checkpoints.put_back(changes, before, after, rename=True)
    assert done.left == dict.fromkeys((b"edited", b"gone", b"new"), "changed since the checkpoint")
    assert contents(root) == dict.fromkeys(("edited", "gone", "new"), "mine")


@pytest.mark.parametrize("at", ["rename", "link"])
@pytest.mark.parametrize("wanted", ["1", None])
def test_what_an_editor_saves_in_the_middle_of_putting_back_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, at: str, wanted: str | None
) -> None:
    """It replaces the file by another after it was compared, or makes one while its name is free."""
    put(root, {"f": "2", "draft": "mine"})
    real = getattr(os, at)

    def saves(*args: Any, **kwargs: Any) -> None:
        with suppress(FileNotFoundError):
            (root / "draft").replace(root / "f")
        real(*args, **kwargs)

    monkeypatch.setattr(os, at, saves)
    there = restore.Copy(0o644, b"2")
    with suppress(OSError):
        if wanted is None:
            restore.remove(root, b"f", there)
        else:
            restore.replace(root, b"f", restore.Copy(0o644, b"1"), there)
    assert b"mine" in bytes_below(root)
    if (root / "draft").exists():  # the call during which it would have been saved was not needed
        assert (at, wanted) == ("link", None)


async def test_a_renamed_file_stays_where_its_copy_is_damaged(recorded: Bench, root: Path, folder: Path) -> None:
    put(root, {"a": "only"})
    await recorded.run("true")
    spoil(folder, git(folder, "rev-parse", f"{REF}:a").strip())
    result = await recorded.run("mv a b", Phase.VERIFICATION)
    assert contents(root) == {"b": "only"}
    assert "Could not be put back: a (its copy cannot be read), b (its copy cannot be read);" in result.content


async def test_what_a_killed_daemon_left_without_a_copy_is_named_at_the_next_call(
    recorded: Bench, root: Path, folder: Path
) -> None:
    put(root, {"large": LARGE, ".gitignore": "*.log\n"})
    command = "mv large moved; echo 1 > small; touch started.log; sleep 600"
    await kit.killed_daemon(root, command, "started.log", checkpoints=folder)
    result = await recorded.run("true")
    assert "[An earlier command had been cut off." in result.content
    assert "large (was 12 MB, not in the checkpoint), moved (may hold what was large)" in result.content
    assert (root / "moved").read_bytes() == LARGE
    assert "cut off" not in (await recorded.run("true")).content


@pytest.mark.usefixtures("small_limit")
async def test_what_a_stopped_command_left_without_a_copy_is_named_at_the_next_call(
    recorded: Bench, root: Path
) -> None:
    put(root, {"large": BIG})
    task = asyncio.create_task(recorded.run("mv large moved; sleep 600", VERIFICATION))
    await kit.until((root / "moved").exists, "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await recorded.run("true", CHORES)
    assert "An earlier command had been cut off. Could not be put back: large (was 200 bytes" in result.content


async def test_what_is_changed_without_a_checkpoint_is_said_after(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """They cannot be kept where they shall lie, as on a full disk."""
    put(root, {"a": "1", "b": "2"})
    put(folder.parent, {folder.name: "a file"})
    tools = every_tool(workspace, folder)
    said = "[There is no checkpoint of what was there before: what this changed cannot be brought back.]"
    assert said in (await tools.run("rm a")).content
    assert said in (await tools.do("move_file", path="b", to="c")).content
    assert said not in (await tools.do("move_file", path="b", to="c")).content, "it has changed nothing"
    assert said not in (await tools.run("rm c", Phase.VERIFICATION)).content
    assert contents(root) == {"c": "2"}


def test_a_full_disk_leaves_every_file_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, {"f": "2"})
    monkeypatch.setattr(os, "fchmod", kit.fails(28))
    with pytest.raises(OSError, match="No space"):
        restore.replace(root, b"f", restore.Copy(0o644, b"1"), restore.Copy(0o644, b"2"))
    assert contents(root) == {"f": "2"}


def test_a_rollback_gives_no_more_permissions_than_a_file_has(root: Path, work: Work) -> None:
    put(root, {"private": "1", "tool": "1"})
    for name, mode in (("private", 0o600), ("tool", 0o750)):
        (root / name).chmod(mode)
    before = work.call(x="1")
    work.call(private="2", tool="2")
    work.back(before)
    assert (root / "private").stat().st_mode & 0o777 == 0o600
    assert (root / "tool").stat().st_mode & 0o777 == 0o750


async def test_a_rollback_to_a_call_in_verification_is_to_what_was_put_back(
    recorded: Bench, root: Path, folder: Path
) -> None:
    put(root, {"a": "1"})
    session = Session(recorded, root, folder)
    await session.shell("echo 2 > a", Phase.VERIFICATION)
    assert (root / "a").read_text() == "1"
    to = len(session.records)
    await session.shell("echo 3 > a", Phase.EXECUTE)
    session.back(to)
    assert (root / "a").read_text() == "1"


def test_a_checkpoint_names_what_it_does_not_hold_and_why(
    root: Path, work: Work, folder: Path, small_limit: None
) -> None:
    put(root, {"large": BIG, ".gitignore": "*.log\nbuild/\n", "x.log": "1", "build/out": "1", "node_modules/m": "1"})
    put(root, {"\udcff\n": BIG, "nested/f": "1", snapshots.NOT_KEPT.decode(): "a person's"})
    (root / "empty/er").mkdir(parents=True)
    git(root, "init", "-q", "nested")
    work.call(a="1")
    assert listed(folder) == {
        "large": "200 bytes",
        "\udcff\n": "200 bytes",
        snapshots.NOT_KEPT.decode(): "its name is reserved",
        "x.log": "ignored",
        "build/": "ignored",
        "node_modules/": "ignored",
        "empty": "empty folder",
        "empty/er": "empty folder",
    }
    assert git(folder, "ls-tree", "-r", "--name-only", REF).split() == [
        ".gitignore",
        ".tenex-not-kept",
        "a",
        "nested/f",
    ]
    held = Checkpoints(folder, root).read(git(folder, "rev-parse", f"{REF}^{{tree}}").strip())
    assert held == Snapshot(tree=held.tree, unkept=held.unkept, empty=frozenset({b"empty", b"empty/er"}))
    assert held.unkept.keys() == {b"large", b"\xff\n", snapshots.NOT_KEPT}


def test_of_many_ignored_paths_the_list_says_how_many_it_leaves_out(
    root: Path, work: Work, folder: Path, monkeypatch: pytest.MonkeyPatch, small_limit: None
) -> None:
    monkeypatch.setattr(snapshots, "MOST_NAMED", 2)
    put(root, {".gitignore": "*.log\n", "large": BIG, **{f"{number}.log": "1" for number in range(5)}})
    work.call(a="1")
    lines = git(folder, "show", f"{REF}:.tenex-not-kept").splitlines()
    assert [json.loads(line).get("path") for line in lines] == ["large", "0.log", "1.log", None]
    assert json.loads(lines[-1]) == {"more": 3}
    assert work.checkpoints.read(f"{REF}^{{tree}}").unkept.keys() == {b"large"}


# ---- any sequence ----------------------------------------------------------------------------------------------------


LIMIT = 100
PLACES = ["a", "b.md", "c.log", "d", "d/e", "d/f.txt", "new\nline", "\udcff"]
SIZES = st.sampled_from([1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT])
SHUT = ["shut"] if os.geteuid() == 0 else []  # only root can look what is in such a file
places = st.sampled_from(PLACES)
phases = st.sampled_from([Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES])

changes_of_files = st.one_of(
    st.tuples(st.just("write"), places, SIZES),
    st.tuples(st.just("append"), places, SIZES),
    st.tuples(st.just("truncate"), places, SIZES),
    st.tuples(st.sampled_from(["rename", "copy", "symlink", "hardlink", "pack", "into", "swap"]), places, places),
    st.tuples(st.sampled_from(["delete", "gzip", "folder", *SHUT]), places, st.none()),
    st.tuples(st.just("ignore"), st.sampled_from(["*", "*.log", "d/", ""]), st.none()),
)
steps = st.one_of(
    st.tuples(st.just("shell"), phases, st.lists(changes_of_files, min_size=1, max_size=4)),
    st.tuples(st.just("shell"), phases, st.lists(changes_of_files, min_size=1, max_size=4)),
    st.tuples(
        st.just("beside"), st.sampled_from([Phase.VERIFICATION, Phase.CHORES]), st.lists(changes_of_files, max_size=3)
    ),
    st.tuples(st.just("tool"), phases, changes_of_files),
    st.tuples(st.just("person"), st.none(), changes_of_files),
    st.tuples(st.just("back"), st.none(), st.integers(0, 30)),
)


@dataclass
class Session:
    """Calls in a workspace with the journal of them, and its rollbacks; every content that is written is unique."""

    tools: Bench
    root: Path
    folder: Path
    records: list[Record] = field(default_factory=list)
    count: int = 0
    overwritten: list[bytes] = field(default_factory=list)
    """What a person has overwritten, which is theirs to do."""

    async def shell(self, command: str, phase: Phase) -> ToolResult:
        return await self.call("shell", phase, command=command)

    async def call(self, tool: str, phase: Phase, **arguments: Any) -> ToolResult:
        seq = len(self.records) + 1
        name = CallId(f"k{seq}")
        self._add(ToolCallStarted, run=RunId("r"), call=name, tool=tool, replay=Replay.ONCE, phase=phase)
        context = make_context(
            phase,
            idempotency_key=f"{CONVERSATION}:{seq}",
            touched=frozenset({"a", "d/e"}),
            read={place: digest(self.read(place)) for place in PLACES if (self.root / place).is_file()},
        )
        result = await self.tools.do(tool, context, **arguments)
        self._add(ToolCallCompleted, run=RunId("r"), call=name, tool=tool, ok=True, content="")
        return result

    def back(self, to: int) -> None:
        checkpoints = Checkpoints(self.folder, self.root)
        done = put_back(checkpoints, CONVERSATION, tree_after(checkpoints, CONVERSATION, self.records, to), "test")
        trees = {"restored_tree": done.tree, "previous_tree": done.was}
        self._add(RolledBack, to=to, by="x", reason="", state=State(identity=Identity(id=CONVERSATION)), **trees)

    def commits(self) -> list[tuple[str, str]]:
        """Names and subjects, the newest first."""
        if not (self.folder / "HEAD").exists() or not git(self.folder, "for-each-ref"):
            return []
        lines = git(self.folder, "log", "--format=%H %s", REF).splitlines()
        return [(name, subject) for name, _, subject in (line.partition(" ") for line in lines)]

    def read(self, place: str) -> bytes:
        with suppress(OSError):
            return (self.root / place).read_bytes()
        return b""

    def content(self, size: int) -> bytes:
        self.count += 1
        return f"{self.count:08d}".encode()[-size:].rjust(size, b"x")

    def script(self, kind: str, one: str, two: Any) -> str:
        """A change as a command; it may fail, as commands do."""
        first, second = quoted(one), quoted(str(two))
        size = two if isinstance(two, int) else 0
        text = self.content(size).decode() if size else ""
        return {
            "write": f"mkdir -p $(dirname {first}); printf %s {text} > {first}",
            "append": f"printf %s {text} >> {first}",
            "truncate": f"[ -f {first} ] && truncate -s {size} {first}",
            "rename": f"mv -fT {first} {second}",
            "copy": f"cp -a {first} {second}",
            "symlink": f"ln -sfT {first} {second}",
            "hardlink": f"ln -f {first} {second}",
            "pack": f"tar cf {second} {first} && rm -r {first}",
            "into": f"mkdir -p {second}; mv -f {first} {second}/",
            "swap": f"mv -T {first} t; mv -T {second} {first}; mv -T t {second}",
            "delete": f"rm -rf {first}",
            "gzip": f"gzip -f {first}",
            "folder": f"rm -f {first}; mkdir {first}",
            "shut": f"chmod 0 {first}",
            "ignore": f"printf '%s\\n' {first} > .gitignore" if one else "rm .gitignore",
        }[kind]

    def arguments(self, kind: str, one: str, two: Any) -> tuple[str, dict[str, str]]:
        """A change as a call of another tool."""
        if isinstance(two, int):
            return "write_file", {"path": one, "content": self.content(two).decode()}
        if isinstance(two, str):
            return "move_file", {"path": one, "to": two}
        return "delete_file", {"path": one or "a"}

    def lost(self, before: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """The paths of contents that neither the workspace nor a checkpoint has."""
        there = {content for _, content in files_below(self.root)}
        kept = set(git(self.folder, "rev-list", "--objects", "--all").split()) if self.folder.exists() else set()
        return {
            path: content
            for path, content in before
            if content not in there
            and content not in self.overwritten
            and hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest() not in kept
        }

    def _add(self, kind: type[Record], **data: Any) -> None:
        self.records.append(kind(seq=len(self.records) + 1, at=Millis(1), **data))


def quoted(place: str) -> str:
    """A word of bash, which no command could be with a byte that is no text."""
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(place)) + "'"


def files_below(root: Path) -> Iterator[tuple[str, bytes]]:
    """The path and content of each file that is not empty."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and (content := path.read_bytes()):
                yield str(path.relative_to(root)), content


@pytest.mark.parametrize("examples", [10, pytest.param(250, marks=pytest.mark.soak)])
def test_whatever_is_done_no_content_is_lost_that_was_not_listed_before(examples: int) -> None:
    """What there was before a call is there, or in a checkpoint, or was listed as not kept before the call ran.

    What a command left, what a person writes while it is put back, and what a rollback finds, has no such excuse.
    """
    files = st.lists(st.tuples(places, SIZES), min_size=2, max_size=5)
    # to shrink takes minutes: a step is ten processes
    few = settings(max_examples=examples, phases=[Stage.reuse, Stage.generate])
    few(given(files, st.lists(steps, min_size=1, max_size=6))(check_session))()


def check_session(first: list[tuple[str, int]], done: list[tuple[str, Any, Any]]) -> None:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(snapshots, "LARGEST_KEPT", LIMIT))
        top = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = top / "workspace"
        root.mkdir()
        session = Session(every_tool(Workspace(root), top / "checkpoints"), root, top / "checkpoints")
        for place, size in first:
            with suppress(OSError):
                put(root, {place: session.content(size)})
        for step in done:
            asyncio.run(carry_out(session, top, *step))


async def carry_out(session: Session, top: Path, actor: str, phase: Any, what: Any) -> None:
    root, picture = session.root, top / "picture"
    before, tip = list(files_below(root)), session.commits()
    if actor == "person":
        await asyncio.to_thread(
            subprocess.run, ["/bin/bash", "-c", session.script(*what)], cwd=root, capture_output=True
        )
        return
    if actor == "back":
        if tip:
            session.back(1 + what % len(session.records))
            assert session.lost(before) == {}
        return
    if actor == "tool":
        tool, arguments = session.arguments(*what)
        await session.call(tool, phase, **arguments)
    else:
        script = "; ".join(session.script(*change) for change in what) or "true"
        with ExitStack() as stack:
            if actor == "beside":
                stack.enter_context(mock.patch.object(Checkpoints, "put_back", beside(session)))
            result = await session.shell(f"({script}) 2>/dev/null; cp -a . {picture}", phase)
        assert result.ok, result.content
        assert session.lost(files_below(picture)) == {}, script
        shutil.rmtree(picture)
    made = session.commits()[: -len(tip) or None]
    then = made[-1:] if made and made[-1][1].startswith("before") else tip[:1]  # as it was before this call
    known = listed(session.folder, then[0][0]) if then else {}
    lost = [path for path in session.lost(before) if path not in known and path.partition("/")[0] + "/" not in known]
    assert lost == [], (known, what)


def beside(session: Session) -> Any:
    """Put back while a person saves a file, which has to stay."""
    real = Checkpoints.put_back

    def saves(self: Checkpoints, changes: Iterable[Change], *args: Any, **kwargs: Any) -> PutBack:
        changes = list(changes)
        place = os.fsdecode(changes[0].path) if changes else "unused"
        content = session.content(20 + session.count % 2 * LIMIT)
        session.overwritten.append(session.read(place))
        is_saved = False
        with suppress(OSError):  # a folder is there, or a file where a folder has to be
            put(session.root, {place: content})
            is_saved = True
        done = real(self, changes, *args, **kwargs)
        assert not is_saved or content in bytes_below(session.root), place
        return done

    return saves
