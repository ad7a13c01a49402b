"""The workspace as it was after a record: found by the calls, and put back; what has no copy is left."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Replay
from tenex.core.errors import UsageError
from tenex.core.ids import CallId, ConversationId, Millis, RunId
from tenex.core.phases import Phase
from tenex.core.records import ToolCallCompleted, ToolCallStarted
from tenex.core.records.base import Record
from tenex.core.state.conversation import State
from tenex.core.state.rollback import RolledBack
from tenex.tools import snapshots
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.rollback import Returned, put_back, tree_after

from .conftest import needs_git, put, subjects

pytestmark = needs_git

NAME = ConversationId("c" * 64)


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
        tree = tree_after(self.checkpoints, NAME, self.records, to)
        done = put_back(self.checkpoints, self.root, NAME, tree, "test")
        self._add(
            RolledBack, to=to, by="x", reason="", state=State(id=NAME), restored_tree=done.tree, previous_tree=done.was
        )
        return done

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.root.iterdir()) if path.is_file()}

    def _add(self, kind: type[Record], **data: Any) -> None:
        self.records.append(kind(seq=len(self.records) + 1, at=Millis(1), **data))

    def _keep(self, moment: str, seq: int) -> None:
        message = f"{moment} t\n\nconversation: {NAME}\nkey: {NAME}:{seq}\nagent: x\n"
        self.checkpoints.keep(self.checkpoints.take(), NAME, message)


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
    work.records.append(RolledBack(seq=1, at=Millis(1), to=1, by="", reason="", state=State(id=NAME)))
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
    assert done.left == ("data", "kept", "tool")
    assert {name: (work.root / name).read_text() for name in mine} == mine
    assert done.changed == (".gitignore", "b")


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
        tree_after(work.checkpoints, NAME, [], 3)
    work.call(a="1")
    with pytest.raises(UsageError, match="No checkpoint"):
        tree_after(work.checkpoints, ConversationId("d" * 64), work.records, 2)
