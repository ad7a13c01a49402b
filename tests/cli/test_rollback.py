"""The question before going back, on a terminal: only a yes does it, and every other way out leaves all as it was."""

import io
import json
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.core.identity.records import ConversationStarted
from tenex.core.rollback.whole import RolledBack
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, peek
from tests.kits.commands import Tenex

from .journals import ONE, changed, worked, write_conversations

THREAD = {"form": "threads", "root": ONE, "root_kind": 11, "root_author": "", "root_relay": ""}
ADDRESS = {**THREAD, "relays": [], "scope": [["E", ONE], ["K", "11"]]}


class Keyboard:
    """A terminal on which somebody has typed this, or presses Ctrl-C."""

    def __init__(self, types: str) -> None:
        self._lines = io.StringIO(types)

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        line = self._lines.readline()
        if line == "^C":
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    ("types", "code", "expected"),
    [
        ("y\n", 0, " conversations rollback 111111111111"),
        ("what\nyes\n", 0, "back at record 5"),
        ("n\n", 2, "Nothing was done."),
        ("\n", 2, "Nothing was done."),
        ("^C", 130, "Nothing was done."),
        ("", 130, "Nothing was done."),
    ],
)
def test_only_a_yes_goes_back(
    data: Path, tenex: Tenex, monkeypatch: pytest.MonkeyPatch, types: str, code: int, expected: str
) -> None:
    prepare(data, None, [])
    write_conversations(data, {ONE: changed(worked(ONE), ConversationStarted, address=ADDRESS)})
    journal = data / "conversations" / ONE / JOURNAL
    before = journal.read_bytes()
    monkeypatch.setattr("sys.stdin", Keyboard(types))
    shown = "".join(tenex("conversations rollback 1 --to 5", code=code))
    for words in ("Go back? [y/N]:", "undone: turn-1", expected):
        assert words in shown
    is_back = any(isinstance(record, RolledBack) for record in peek(journal, CONVERSATION))
    assert is_back == (journal.read_bytes() != before) == (code == 0)


def test_a_fork_at_a_record_in_the_middle_of_a_decision_names_the_record_it_used(data: Path, tenex: Tenex) -> None:
    prepare(data, None, [])
    write_conversations(data, {ONE: changed(worked(ONE), ConversationStarted, address=ADDRESS)})
    moved = 0
    for at in range(1, 12):
        used = json.loads(tenex(f"conversations fork {ONE} --at {at} --json").out)["forkedFrom"]["seq"]
        out = tenex(f"conversations fork {ONE} --at {at}").out
        sentence = f"record {at} is in the middle of a decision, which counts as a whole: {used} is its last record"
        assert (sentence in out) == ("middle" in out) == (used != at)
        moved += used != at
    assert 0 < moved < 11
