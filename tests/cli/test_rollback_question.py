"""The question before going back, on a terminal: only a yes does it, and every other way out leaves all as it was."""

import os
import pty
import select
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.cli.main import main
from tenex.core.ids import ConversationId
from tenex.core.records import ConversationStarted
from tenex.core.state.rollback import RolledBack
from tenex.nostr.keys import parse_public_key
from tenex.settings import load, resolve_paths
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, peek
from tests.store.test_stats import lived

from .journals import renamed, write_conversations

NAME = ConversationId("1" * 64)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A conversation that has come to its end, and no daemon."""
    prepare(tmp_path, None, [])
    first, *rest = renamed(NAME, lived(0).journal)
    began, *others = first
    assert isinstance(began, ConversationStarted)
    address = {
        "form": "threads",
        "root": NAME,
        "root_kind": 11,
        "root_author": "",
        "root_relay": "",
        "relays": [],
        "scope": [["E", NAME], ["K", "11"]],
    }
    write_conversations(tmp_path, {NAME: [(replace(began, address=address), *others), *rest]})
    return tmp_path


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
def test_only_a_yes_goes_back(data: Path, types: bytes, code: int, expected: str) -> None:
    journal = resolve_paths(load(None, data, parse_key=parse_public_key)).conversations / NAME / JOURNAL
    before = journal.read_bytes()
    ended, shown = on_terminal(data, "rollback", "1", "--to", "5", types=types)
    assert "Go back? [y/N]: " in shown
    assert "undone: turn-1" in shown
    assert expected in shown
    assert ended == code
    assert "Traceback" not in shown
    records = peek(journal, CONVERSATION)
    assert isinstance(records[0], ConversationStarted)
    assert any(isinstance(record, RolledBack) for record in records) == (code == 0)
    assert code == 0 or journal.read_bytes() == before
