"""Files of a conversation: what a list shows of its folder, and where a listed file is."""

import os
from pathlib import Path

from tenex.core.ids import Millis
from tenex.store.conversation_files import ConversationFiles, Listed


def test_a_list_has_the_ordinary_files_the_newest_first(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    assert ConversationFiles(folder).listed() == []
    secret = tmp_path / "secret"
    secret.write_text("secret")
    files = ConversationFiles(folder)
    assert files.add("a.pdf", b"first") == "a.pdf"
    assert files.add("b.pdf", b"second") == "b.pdf"
    for name, at in (("a.pdf", 2_000), ("b.pdf", 1_000)):
        os.utime(folder / name, ns=(0, at * 1_000_000))
    (folder / "link").symlink_to(secret)
    (folder / "folder").mkdir()
    (folder / ".c.pdf.12345678.tmp").write_text("half")
    assert files.listed() == [
        Listed(name="a.pdf", size=5, changed=Millis(2_000)),
        Listed(name="b.pdf", size=6, changed=Millis(1_000)),
    ]
    assert files.path_of("a.pdf") == folder / "a.pdf"
    for name in ("link", "folder", "../secret", str(secret), ".c.pdf.12345678.tmp", ""):
        assert files.path_of(name) is None
