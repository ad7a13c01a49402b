"""The real program with journals that go on in another file at every moment of rest: no one notices."""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.core.state.snapshot import StateSnapshot
from tenex.store import segments
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, NEWEST, peek
from tenex.store.view import render

from .kit import FULL_CYCLE, ROOT, environment, phases, tenex_here

SHORT = """
import sys
import tenex.store.repository, tenex.store.journal
tenex.store.repository.FILE_BYTES = tenex.store.journal.FILE_BYTES = 1
tenex.store.journal.PER_CHECKPOINT = 0
from tenex.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The program itself, for which every file is long."""


async def demo(data: Path, message: str) -> Path:
    """Hold a conversation to its end; its folder."""
    ran = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SHORT, "demo", "--data", str(data), "--message", message),
        cwd=ROOT,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(ran.communicate(), 90)
    assert ran.returncode == 0, out.decode()
    return only_one(data)


def only_one(data: Path) -> Path:
    (folder,) = {file.parent for file in data.glob("conversations/*/conversation.json")}
    return folder


async def run_conversations(data: Path, *words: str) -> str:
    code, out, err = await tenex_here("conversations", *words, "--data", data)
    assert code == 0, err
    return out


async def test_a_conversation_of_many_files_is_shown_counted_and_resumed_as_one(tmp_path: Path) -> None:
    folder = await demo(tmp_path, "Write hello.py that prints hello")
    name = ConversationId(folder.name)
    files = segments.numbers(folder)
    assert len(files) > 1
    records = peek(folder / JOURNAL, CONVERSATION)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    newest = peek(folder / JOURNAL, CONVERSATION, NEWEST)
    assert isinstance(newest[0], StateSnapshot)
    assert fold(name, newest) == fold(name, records)
    view = (folder / "conversation.json").read_text()
    assert view == render(fold(name, records))
    shown: dict[str, Any] = json.loads(view)
    assert phases(shown) == FULL_CYCLE

    with closing(sqlite3.connect(tmp_path / "conversations" / "index.sqlite")) as index:
        ((length,),) = index.execute("select bytes from conversations").fetchall()
    assert length == segments.stat_all(str(folder))[0], "a start would read it once more"

    story = await run_conversations(tmp_path, "show", name)
    places = [story.index(turn["completions"][0]["text"].splitlines()[0]) for turn in shown["orchestratorTurns"]]
    assert places == sorted(places), "all files are shown, in order"
    stats = json.loads(await run_conversations(tmp_path, "stats", name, "--json"))
    assert stats["turns"] == sum(isinstance(record, r.TurnOpened) for record in records)
    assert stats["usage"]["calls"] == shown["usage"]["calls"]
    assert json.loads(await run_conversations(tmp_path, "show", name, "--json")) == shown
    (row,) = json.loads(await run_conversations(tmp_path, "list", "--json"))
    assert (row["id"], row["status"]) == (name, "ended")
