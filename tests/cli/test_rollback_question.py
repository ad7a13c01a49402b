"""The question before going back, on a terminal: only a yes does it, and every other way out leaves all as it was."""

import os
import pty
import select
import signal
import sys
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.cli.main import main
from tenex.core.records import ConversationStarted
from tenex.core.state.rollback import RolledBack
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, peek

from .journals import ONE, changed, worked, write_conversations

ADDRESS = {
    "form": "threads",
    "root": ONE,
    "root_kind": 11,
    "root_author": "",
    "root_relay": "",
    "relays": [],
    "scope": [["E", ONE], ["K", "11"]],
}


def on_terminal(data: Path, *words: str, types: bytes) -> tuple[int, str]:
    """What a command shows on a terminal, where somebody types this at the question, and its exit code."""
    child, terminal = pty.fork()
    if child == 0:
        code = 70
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run with it ignored
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")  # not the test's
            code = main(["conversations", *words, "--data", str(data)])
            sys.stdout.flush()
        finally:
            os._exit(code)
    shown, typed, silences = b"", b"", 0
    try:
        while silences < 24:
            if not select.select([terminal], [], [], 5)[0]:
                silences += 1
                if typed == b"\x03":  # CPython loses a signal just before it reads: press again, as users do
                    os.write(terminal, typed)
                continue
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other end is gone
                break
            if not part:
                break
            shown += part
            if b"[y/N]: " in shown and types:
                os.write(terminal, types)
                types, typed = b"", types
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("types", "code", "expected"),
    [
        (b"y\n", 0, " conversations rollback 111111111111"),
        (b"what\nyes\n", 0, "back at record 5"),
        (b"n\n", 2, "Nothing was done."),
        (b"\n", 2, "Nothing was done."),
        (b"\x03", 130, "Nothing was done."),
        (b"\x04", 130, "Nothing was done."),
    ],
    ids=["yes", "nonsense, then yes", "no", "Enter", "Ctrl-C", "end of input"],
)
def test_only_a_yes_goes_back(tmp_path: Path, types: bytes, code: int, expected: str) -> None:
    prepare(tmp_path, None, [])
    write_conversations(tmp_path, {ONE: changed(worked(ONE), ConversationStarted, address=ADDRESS)})
    journal = tmp_path / "conversations" / ONE / JOURNAL
    before = journal.read_bytes()
    ended, shown = on_terminal(tmp_path, "rollback", "1", "--to", "5", types=types)
    assert "Go back? [y/N]: " in shown
    assert "undone: turn-1" in shown
    assert expected in shown
    assert ended == code
    assert "Traceback" not in shown
    is_back = any(isinstance(record, RolledBack) for record in peek(journal, CONVERSATION))
    assert is_back == (code == 0)
    assert code == 0 or journal.read_bytes() == before
