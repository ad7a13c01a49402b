"""A workspace with a conversation's calls in it, each between two checkpoints, and the journal of them."""

import asyncio
import math
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Replay
from tenex.core.identity.state import Identity
from tenex.core.ids import CallId, ConversationId, Millis, RunId, Slug, TurnId
from tenex.core.phases import Access, Phase
from tenex.core.port_values import UndoOutcome
from tenex.core.ports import ToolResult
from tenex.core.record import Record
from tenex.core.records import FilesUndone, ToolCallCompleted, ToolCallStarted, UndoScope
from tenex.core.rollback.whole import RolledBack
from tenex.core.state import State
from tenex.core.undo import sentences
from tenex.core.work.records import TurnOpened
from tenex.tools.checkpoints import Checkpoints, call_lines
from tenex.tools.rollback import list_rollback, roll_back, undo
from tenex.tools.sandbox import RunPolicy
from tenex.tools.workspace import Workspace

from .conftest import every_tool, having_read, put

CONVERSATION = ConversationId("c" * 64)
REF = f"refs/tenex/{CONVERSATION}"


class Work:
    """Calls of an agent in a workspace, and what a person does in it."""

    def __init__(self, checkpoints: Checkpoints, root: Path) -> None:
        self.checkpoints = checkpoints
        self.root = root
        self.records: list[Record] = []

    def turn(self, number: int = 1) -> None:
        self._add(
            TurnOpened,
            turn_id=TurnId(f"turn-{number}"),
            phase=Phase.EXECUTE,
            agents=(Slug("x"),),
            reason="",
            handoff=None,
        )

    def runs(self, script: str, *, witnessed: bool = True, person: str = "", seen: Iterable[str] = ()) -> int:
        """A program runs, and a person writes at the same time: `seen` is what was seen to be theirs."""

        def call() -> tuple[str, ...]:
            self.person(person)
            self._bash(script)
            return ()

        others = [os.fsencode(path) for path in seen]
        return self._call(call, call_lines(Access.RUN, witnessed=witnessed, others=others))

    def commands(self, script: str) -> int:
        """An agent calls `shell`, in the real sandbox: who wrote, and what was lost, is what was seen."""
        return self.tool("shell", command=script)

    def writes(self, path: str, content: str, *, is_refused: bool = False) -> int:
        """An agent that has read a file calls `write_file`."""
        return self.tool("write_file", path, path=path, content=content, is_refused=is_refused)

    def moves(self, path: str, to: str, *, is_refused: bool = False) -> int:
        """An agent calls `move_file`."""
        return self.tool("move_file", path=path, to=to, is_refused=is_refused)

    def deletes(self, path: str, *, is_refused: bool = False) -> int:
        """An agent that has read a file calls `delete_file`."""
        return self.tool("delete_file", path, path=path, is_refused=is_refused)

    def tool(self, tool: str, read: str = "", *, is_refused: bool = False, **arguments: Any) -> int:
        """An agent calls a tool, after it has read a file; the number of the call's last record."""
        seq = self.begins(tool)
        real = (self.root / read).resolve()
        there = [real.relative_to(self.root).as_posix()] if real.is_file() else []
        context = having_read(self.root, *there, idempotency_key=f"{CONVERSATION}:{seq}")
        tools = every_tool(Workspace(self.root), self.checkpoints, RunPolicy.SANDBOXED)
        result = asyncio.run(tools.do(tool, context, **arguments))
        assert result.ok or is_refused, result.content
        return self.ends(seq, result)

    def begins(self, tool: str) -> int:
        """A call is permitted; the number of the record."""
        name = CallId(f"k{len(self.records) + 1}")
        self._add(ToolCallStarted, run=RunId("r"), call=name, tool=tool, replay=Replay.ONCE, phase=Phase.EXECUTE)
        return len(self.records)

    def ends(self, seq: int, result: ToolResult) -> int:
        """The call that was permitted by a record has ended; the number of its last record."""
        started = self.records[seq - 1]
        assert isinstance(started, ToolCallStarted)
        self._add(
            ToolCallCompleted,
            run=started.run,
            call=started.call,
            tool=started.tool,
            ok=result.ok,
            content=result.content,
            touched=result.touched,
        )
        return len(self.records)

    def calls(self, **files: str | None) -> int:
        """A program writes files; None removes one. The number of the call's last record."""

        def call() -> tuple[str, ...]:
            for name, content in files.items():
                if content is None:
                    (self.root / name).unlink()
                else:
                    put(self.root, {name: content})
            return ()

        return self._call(call, call_lines(Access.RUN, witnessed=True, others=()))

    def person(self, script: str) -> None:
        if script:
            self._bash(script)

    def lists(self, scope: UndoScope = "cycle") -> UndoOutcome:
        return undo(self.checkpoints, CONVERSATION, self.records, scope)

    def undoes(self, *paths: str, scope: UndoScope = "cycle", is_all: bool = False) -> UndoOutcome:
        """`/undo yes` after a list, or `/undo PATH` without one."""
        to = 0 if paths else self.lists(scope).to
        if not paths and not to:
            return UndoOutcome()
        done = undo(self.checkpoints, CONVERSATION, self.records, scope, to, paths, is_all)
        if done.restored_tree:
            self._add(
                FilesUndone,
                request=1,
                to=done.to,
                since=done.since,
                files=done.files,
                restored_tree=done.restored_tree,
                previous_tree=done.previous_tree,
            )
        return done

    def goes_back(self, to: int, *, is_all: bool = False) -> UndoOutcome:
        """`rollback --files`, as the daemon does it."""
        listed = list_rollback(self.checkpoints, CONVERSATION, self.records, to, is_all=is_all)
        done = roll_back(self.checkpoints, CONVERSATION, self.records, to, is_all=is_all)
        if not set(done.left) - set(listed.left):
            assert (listed.files, listed.left) == (done.files, done.left), "it is as it was listed"
        self._add(
            RolledBack,
            to=to,
            by="x",
            reason="",
            state=State(identity=Identity(id=CONVERSATION)),
            restored_tree=done.restored_tree,
            previous_tree=done.previous_tree,
        )
        return done

    def files(self) -> dict[str, str]:
        """The files on disk, but hidden folders."""
        return {
            path.relative_to(self.root).as_posix(): path.read_text(errors="replace")
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def _bash(self, script: str) -> None:
        subprocess.run(["/bin/bash", "-ec", script], cwd=self.root, check=True, capture_output=True)

    def _call(self, call: Any, lines: str) -> int:
        seq = len(self.records) + 1
        name = CallId(f"k{seq}")
        tool = "shell" if "access: run" in lines else "write_file"
        self._add(ToolCallStarted, run=RunId("r"), call=name, tool=tool, replay=Replay.ONCE, phase=Phase.EXECUTE)
        self._keep("before", seq)
        touched = call()
        self._keep("after", seq, lines)
        self._add(ToolCallCompleted, run=RunId("r"), call=name, tool=tool, ok=True, content="", touched=touched)
        return len(self.records)

    def _add(self, kind: type[Record], **data: Any) -> None:
        # a second ahead: that is the slack for what changed before the work, such as the files of the test
        at = Millis(math.ceil((time.time() + 1) * 1000))
        self.records.append(kind(seq=len(self.records) + 1, at=at, **data))

    def _keep(self, moment: str, seq: int, lines: str = "") -> None:
        message = f"{moment} t\n\nconversation: {CONVERSATION}\ncycle: 1\nkey: {CONVERSATION}:{seq}\nagent: x\n{lines}"
        self.checkpoints.keep(self.checkpoints.take(), CONVERSATION, message)


@pytest.fixture
def work(folder: Path, root: Path) -> Work:
    return Work(Checkpoints(folder, root), root)


def said(done: UndoOutcome) -> str:
    """What a user reads."""
    moment = f"before {done.since}"
    return sentences.done(done, moment) if done.restored_tree else sentences.listed(done, moment)
