"""`/show` of a folder: names on a disk may hold any bytes."""

import os
from pathlib import Path

from tenex.app.shown_files import ShownFiles
from tenex.core.effects import Key, Show, Work
from tenex.core.ids import ConversationId
from tenex.core.port_values import FileDestination
from tenex.tools.sent_files import SentFiles
from tenex.tools.workspace import Workspace


async def test_a_name_is_a_line_of_a_list_and_half_written_files_are_none(tmp_path: Path) -> None:
    for name in (b"\xff.txt", b"a\nb.txt", "e\u202egpj.exe".encode(), b".tenex-half", b"plain.md"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    (tmp_path / "folder").mkdir()

    files = SentFiles(None, most=1_000, never=())
    show = Show(key=Key(Work.SHOW, 1), conversation=ConversationId("a" * 64), path=".", destination=FileDestination())
    outcome = await ShownFiles(Workspace(tmp_path), lambda: files).show(show)
    assert outcome.text.split("\n") == [
        "In the workspace:",
        "folder/",
        "a\\nb.txt",
        "e\\u202egpj.exe",
        "plain.md",
        "\ufffd.txt",
    ]
