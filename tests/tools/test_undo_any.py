"""Whatever an agent and a person do, an undo removes no content that is not the agent's own.

"As before" is said only where every file is as it was: its bytes, and its rights. What was there before the work and is
not as it was is named, also where git ignores it. Commands run in the sandbox, which sees what they write.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.port_values import UndoOutcome
from tenex.tools import snapshots
from tenex.tools.attribution import as_recorded
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.snapshots import folders_of
from tests.programs import needs_bubblewrap, needs_git

from .conftest import git, put
from .undo_kit import Work

pytestmark = [needs_bubblewrap, needs_git]

LIMIT = 100
PLACES = ["a", "a", "a", "d/e", "d/e", "d", "\udcff\n"]
IGNORED = ["out/x", "out/x", "c.log", "d/out/w"]
"""By `*.log` and `out/`. What one step did is to be what the next one meets, so there are few."""

SIZES = st.sampled_from([1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT])
places = st.sampled_from(PLACES)
hidden = st.sampled_from([*IGNORED, "out"])
everywhere = st.sampled_from([*PLACES, *IGNORED, "new", "new.log"])

moves = st.tuples(
    st.sampled_from(["rename", "steps", "carry", "copy", "symlink", "hardlink", "into", "swap"]), everywhere, everywhere
)
out_of_there = st.tuples(st.sampled_from(["rename", "steps", "carry", "swap"]), hidden, places)
edits = st.tuples(st.sampled_from(["write", "append", "truncate"]), everywhere, SIZES)
there = st.tuples(st.sampled_from(["write", "append", "truncate", "delete"]), hidden, SIZES)
others = st.tuples(st.sampled_from(["delete", "folder", "private", "program"]), everywhere, st.none())
rules = st.tuples(st.just("ignore"), st.sampled_from(["*", "*.log", "d/", ""]), st.none())
scripts = st.lists(st.one_of(moves, out_of_there, out_of_there, edits, edits, there, others), min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("program"), scripts),
    st.tuples(st.just("program"), rules.map(lambda one: [one])),
    st.tuples(st.just("both"), st.tuples(scripts, scripts)),
    st.tuples(st.just("tool"), st.tuples(st.sampled_from(["write", "edit", "delete"]), everywhere, SIZES)),
    st.tuples(st.just("tool"), st.tuples(st.sampled_from(["write", "edit", "delete"]), hidden, SIZES)),
    st.tuples(st.just("tool"), st.tuples(st.sampled_from(["move", "rewrite"]), everywhere, everywhere)),
    st.tuples(st.just("tool"), st.tuples(st.sampled_from(["move", "rewrite"]), hidden, places)),
    st.tuples(st.just("person"), scripts),
    st.tuples(st.just("person"), st.lists(edits, min_size=1, max_size=2)),
    st.tuples(st.just("undo"), st.none()),
    st.tuples(st.just("back"), st.integers(1, 20)),
)


class Session:
    """What was done, with contents that are all different, and those of them that are not the agent's."""

    def __init__(self, work: Work, folder: Path) -> None:
        self.work = work
        self.folder = folder
        self.root = work.root
        self.count = 0
        self.theirs: set[bytes] = set()
        self.first: dict[bytes, bytes] | None = None
        """All that was there before the first call."""
        self.others: set[bytes] = set()
        """Paths that somebody else changed since, or of which nobody saw who did."""
        self.linked: set[bytes] = set()
        """Files with a second name: by that a file changes of which nobody sees a write."""
        self.copies = False
        """Whether a file may have been copied: if a person removes it then, nobody sees that the copy is the last."""
        self.persons = False
        """Whether a person did something."""
        self.pictures: list[dict[bytes, object]] = []
        """Of the moments before calls."""

    def content(self, size: int, *, is_agents: bool) -> bytes:
        """Text that was never written; a very short one is no one's."""
        self.count += 1
        text = f"{self.count:08d}".encode()[-size:].rjust(size, b"x")
        if not is_agents and size > 1:
            self.theirs.add(text)
        return text

    def script(self, changes: list[tuple[str, str, Any]], *, is_agents: bool) -> str:
        """Changes as commands; some fail, as commands do."""
        return "; ".join(self._command(*change, is_agents=is_agents) for change in changes) + "; true"

    def _command(self, kind: str, one: str, two: Any, *, is_agents: bool) -> str:
        first = quoted(one)
        second = quoted(str(two))
        size = two if isinstance(two, int) else 0
        text = self.content(size, is_agents=is_agents).decode() if kind in ("write", "append") else ""
        commands = {
            "write": f"mkdir -p $(dirname {first}); printf %s {text} > {first}",
            "append": f"printf %s {text} >> {first}",
            "truncate": f"[ -f {first} ] && truncate -s {size} {first}",
            "rename": f"mkdir -p $(dirname {second}); mv -fT {first} {second}",
            "copy": f"cp -a {first} {second}",
            "symlink": f"ln -sfT {first} {second}",
            "hardlink": f"ln -f {first} {second}",
            "carry": f"[ -f {first} ] && cp -a {first} {second}; rm -f {first}",
            "steps": f"mv -fT {first} s1; mv -T s1 s2; mkdir -p $(dirname {second}); mv -fT s2 {second}",
            "into": f"mkdir -p {second}; mv -f {first} {second}/",
            "swap": f"mv -T {first} t; mv -T {second} {first}; mv -T t {second}",
            "delete": f"rm -rf {first}",
            "folder": f"rm -f {first}; mkdir {first}",
            "private": f"[ -f {first} ] && chmod 600 {first}",
            "program": f"[ -f {first} ] && chmod 755 {first}",
            "ignore": f"printf '%s\\n' {first} > .gitignore" if one else "rm -f .gitignore",
        }
        return f"{{ {commands[kind]}; }} || true"

    def do(self, kind: str, what: Any) -> None:
        calls = len(self.work.records)
        picture = self.picture()
        before = self.bytes_below()
        if kind in ("program", "both", "tool") and self.first is None:
            self.first = before
        self.carry_out(kind, what)
        after = self.bytes_below()
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if kind in ("person", "both") and self.first is not None:
            self.others |= changed
        self.linked |= {os.fsencode(path.relative_to(self.root)) for path in self.files() if path.stat().st_nlink > 1}
        if kind in ("program", "both", "tool") and len(self.work.records) > calls:
            self.pictures.append(picture)

    def carry_out(self, kind: str, what: Any) -> None:
        match kind:
            case "program":
                self.work.commands(f"set +e; {self.script(what, is_agents=True)}")
                self.copies = self.copies or any(change[0] in ("carry", "copy", "hardlink") for change in what)
            case "both":
                agent, person = (
                    self.script(part, is_agents=each) for part, each in zip(what, (True, False), strict=True)
                )
                self.work.runs(f"set +e; {agent}", person=f"set +e; {person}", witnessed=False)
                self.copies = self.persons = True
            case "person":
                self.persons = True
                self.work.person(f"set +e; {self.script(what, is_agents=False)}")
            case "tool":
                self.tool(*what)
            case "undo":
                self.check(lambda: self.work.undoes(), self.pictures, names_all=True)
            case "back" if self.work.records[1:]:
                to = 1 + what % len(self.work.records)
                self.check(lambda: self.work.goes_back(to), self.pictures[:1] if to == 1 else [], names_all=to == 1)

    def tool(self, kind: str, path: str, two: Any) -> None:
        """File tools of an agent that has read what it changes; some refuse, as for a name that is no text."""
        place = self.root / path
        shown = place.read_text() if place.is_file() else ""
        match kind:
            case "write":
                self.work.writes(path, self.content(two, is_agents=True).decode(), is_refused=True)
            case "edit" if shown:
                edits = [{"old": shown, "new": self.content(two, is_agents=True).decode()}]
                self.work.tool("edit_file", path, path=path, edits=edits, is_refused=True)
            case "delete":
                self.work.deletes(path, is_refused=True)
            case "move":
                self.work.moves(path, two, is_refused=True)
            case "rewrite" if shown:
                self.work.writes(two, shown, is_refused=True)
                if self.root.joinpath(two).is_file():
                    self.work.deletes(path, is_refused=True)

    def check(self, undo: Any, moments: list[dict[bytes, object]], *, names_all: bool) -> None:
        before = self.bytes_below()
        done: UndoOutcome = undo()
        there = {*self.bytes_below().values()}
        lost = {path: text for path, text in before.items() if text in self.theirs and text not in there}
        # nobody sees a copy out of a folder that git ignores; over a file that was there, the checkpoints have it
        kept = set(git(self.folder, "rev-list", "--objects", "--all").split()) if lost else set()
        is_seen = not (self.copies and self.persons)
        hidden = {text for path, text in (self.first or {}).items() if is_ignored(path)} if is_seen else set()
        removed = [
            path
            for path, text in lost.items()
            if text in hidden or not any(path in each for each in self.pictures) or blob_of(text) not in kept
        ]
        assert not removed, (removed, done)
        if names_all and self.first is not None:
            now = self.bytes_below()
            unknown = self.others | self.linked
            differing = [path for path, text in self.first.items() if now.get(path) != text]
            unnamed = [path for path in differing if path not in unknown and not is_named(path, done)]
            assert not unnamed, (unnamed, done)
            taken = [path for path in self.others if before.get(path) != now.get(path)]
            assert not taken, (taken, done)
        if done.is_as_before:
            assert not done.left
            assert not moments or self.picture() in moments

    def bytes_below(self) -> dict[bytes, bytes]:
        return {os.fsencode(path.relative_to(self.root)): path.read_bytes() for path in self.files()}

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def picture(self) -> dict[bytes, object]:
        """Every file and link that the first ignore file does not name."""
        found: dict[bytes, object] = {}
        for path in self.root.rglob("*"):
            name = path.relative_to(self.root)
            if is_ignored(os.fsencode(name)):
                continue
            if path.is_symlink():
                found[os.fsencode(name)] = path.readlink()
            elif path.is_file():
                found[os.fsencode(name)] = (path.stat().st_mode, path.read_bytes())
        return found


def is_ignored(path: bytes) -> bool:
    """Whether the first ignore file names a path."""
    return any(part == b"out" or part.endswith(b".log") for part in path.split(b"/"))


def is_named(path: bytes, done: UndoOutcome) -> bool:
    """Whether a path, or a folder it lies in, is among what stays."""
    folders = {f"{as_recorded(folder)}/" for folder in folders_of(path)}
    return as_recorded(path) in done.left or bool(folders & done.left.keys())


def blob_of(content: bytes) -> str:
    """The name that git has for it."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def quoted(place: str) -> str:
    """A word of bash, which no command could be with a byte that is no text."""
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(place)) + "'"


@pytest.mark.parametrize("examples", [15, pytest.param(200, marks=pytest.mark.soak)])
def test_an_undo_removes_only_what_is_the_agents(examples: int) -> None:
    files = st.lists(st.tuples(st.sampled_from([*PLACES, *IGNORED]), SIZES), max_size=3)
    # to shrink takes minutes: a step is ten processes
    few = settings(max_examples=examples, phases=[Stage.reuse, Stage.generate], deadline=None)
    first = st.one_of(out_of_there.map(lambda one: [one]), scripts)
    few(given(files, first, st.lists(steps, min_size=1, max_size=3))(check_session))()


SHAPES: dict[str, tuple[list[tuple[str, str, Any]], list[tuple[str, Any]]]] = {
    "a person writes what the agent wrote": ([("write", "a", 99)], [("person", [("write", "a", 99)])]),
    "both write at the same time": ([("write", "a", 99)], [("both", ([("write", "a", 99)], [("write", "d/e", 99)]))]),
    "out of a folder over a file": ([("rename", "out/x", "a")], []),
    "out of a folder over a file in two calls": ([("rename", "out/x", "new")], [("program", [("rename", "new", "a")])]),
    "ignored no longer": ([("ignore", "", None)], []),
    "moved out by a tool": ([("write", "a", 99)], [("tool", ("move", "out/x", "new"))]),
    "copied out and removed": ([("carry", "out/x", "new")], []),
    "copied over a file and removed": ([("carry", "out/x", "a")], []),
    "copied over a file and removed in the next call": (
        [("copy", "out/x", "a")],
        [("program", [("delete", "out/x", None)])],
    ),
    "written over a file by tools, and deleted": ([("write", "d/e", 99)], [("tool", ("rewrite", "out/x", "a"))]),
    "given rights, and deleted": ([("program", "out/x", None)], [("program", [("delete", "out/x", None)])]),
    "deleted by a tool": ([("write", "a", 99)], [("tool", ("delete", "out/x", 1))]),
    "edited by a tool": ([("write", "a", 99)], [("tool", ("edit", "out/x", 99))]),
    "overwritten in a folder, while a file changes": ([("write", "out/x", 99), ("write", "a", 99)], []),
    "a folder renamed, and made again": ([("rename", "out", "new")], [("program", [("write", "out/x", 99)])]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_undo_of_what_is_met_often_removes_only_what_is_the_agents(shape: str) -> None:
    check_session([], *SHAPES[shape])


def check_session(
    first: list[tuple[str, int]], script: list[tuple[str, str, Any]], done: list[tuple[str, Any]]
) -> None:
    with mock.patch.object(snapshots, "LARGEST_KEPT", LIMIT), tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        root = top / "workspace"
        root.mkdir()
        work = Work(Checkpoints(top / "checkpoints", root), root)
        work.turn()
        session = Session(work, top / "checkpoints")
        put(root, {".gitignore": "*.log\nout/\n"})
        # what git ignores is lost most easily
        for place, size in [("c.log", 50), ("out/x", 50), ("out/k", 50), ("a", 50), ("d/e", 50), *first]:
            with suppress(OSError):
                put(root, {place: session.content(size, is_agents=False)})
        for kind, what in [("program", script), *done, ("undo", None), ("back", len(work.records) - 1)]:
            session.do(kind, what)
