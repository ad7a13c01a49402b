"""`/show` of a folder: names on a disk may hold any bytes."""

import os
from pathlib import Path
from typing import Any

from tenex.app.shown_files import ShownFiles
from tenex.core.effects import Key, Show, Work
from tenex.core.ids import ConversationId
from tenex.core.port_values import AttachedFile, FileDestination, ShowOutcome
from tenex.tools.inbox import Inboxes
from tenex.tools.sent_files import SentFiles
from tenex.tools.workspace import Workspace


async def test_a_name_is_a_line_of_a_list_and_half_written_files_are_none(tmp_path: Path) -> None:
    for name in (b"\xff.txt", b"a\nb.txt", "e\u202egpj.exe".encode(), b".tenex-half", b"plain.md"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    (tmp_path / "folder").mkdir()

    files = SentFiles(None, most=1_000, never=())
    show = Show(key=Key(Work.SHOW, 1), conversation=ConversationId("a" * 64), path=".", destination=FileDestination())
    outcome = await ShownFiles(Workspace(tmp_path), Inboxes(), lambda: files).show(show)
    assert outcome.text.split("\n") == [
        "In the workspace:",
        "folder/",
        "a\\nb.txt",
        "e\\u202egpj.exe",
        "plain.md",
        "\ufffd.txt",
    ]


class Sender:
    """Uploads files; where they are encrypted each is an event of its own."""

    key = ""

    async def send(self, data: bytes, **more: Any) -> AttachedFile:
        url = f"https://b.example/{more['name']}"
        return AttachedFile(name=more["name"], media_type=more["media_type"], size=len(data), url=url, key=self.key)


async def shown(folder: Path, sender: Sender, path: str) -> ShowOutcome:
    conversation = ConversationId("a" * 64)
    workspace = Workspace(folder / "workspace")
    files = SentFiles(sender, most=100_000, never=())
    show = Show(key=Key(Work.SHOW, 1), conversation=conversation, path=path, destination=FileDestination())
    return await ShownFiles(workspace, Inboxes(folder / "conversations"), lambda: files).show(show)


async def test_files_that_people_have_sent_are_shown_too(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    assert (await shown(tmp_path, Sender(), "/inbox")).text.startswith("/inbox is empty: no file was sent")
    inbox = tmp_path / "conversations" / ("a" * 64) / "inbox"
    inbox.mkdir(parents=True)
    (inbox / "notes.txt").write_text("Milk")
    (inbox / "scan.pdf").write_bytes(b"%PDF\0")
    assert (await shown(tmp_path, Sender(), "/inbox/notes.txt")).text == "/inbox/notes.txt:\n\nMilk"
    assert (await shown(tmp_path, Sender(), "/inbox")).text == "In /inbox/:\nnotes.txt\nscan.pdf"
    outcome = await shown(tmp_path, Sender(), "/inbox/scan.pdf")
    assert outcome.text == "/inbox/scan.pdf (5 bytes)"
    assert [file.name for file in outcome.files] == ["scan.pdf"]
    refused = (await shown(tmp_path, Sender(), "/inbox/../journal.jsonl")).text
    assert "contains `..`" in refused


async def test_a_file_that_is_an_event_of_its_own_comes_without_a_message_beside_it(tmp_path: Path) -> None:
    """In direct messages a phone rang twice."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "scan.pdf").write_bytes(b"%PDF\0")
    sender = Sender()
    sender.key = "0" * 64
    outcome = await shown(tmp_path, sender, "scan.pdf")
    assert outcome.text == ""
    assert [file.url for file in outcome.files] == ["https://b.example/scan.pdf"]
