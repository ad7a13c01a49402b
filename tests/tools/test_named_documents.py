"""Which documents name files that were changed."""

from pathlib import Path

import pytest

from tenex.tools import named_documents
from tenex.tools.named_documents import documents_naming
from tenex.tools.workspace import Workspace

FILES = {
    "src/parser.py": "",
    "src/a/util.py": "",
    "src/b/util.py": "",
    "src/my file.py": "",
    "bin/run": "",
    "lib/README.md": "",
    "README.md": "See [the guide](docs/guide.md). To run it, run it.",
    "docs/guide.md": "The parser is in `../src/parser.py`; it uses a/util.py.",
    "docs/more.rst": "Names src/my file.py, and parser.py.",
    "docs/none.md": "Names parser.pyc, xparser.py, other/parser.py and util.py.",
    "notes.txt": "src/parser.py",
    "node_modules/x/README.md": "src/parser.py",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Workspace(tmp_path)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ((), ()),
        (("src/parser.py",), ("docs/guide.md", "docs/more.rst")),
        (("src/a/util.py",), ("docs/guide.md",)),
        (("src/b/util.py",), ()),
        (("src/my file.py",), ("docs/more.rst",)),
        (("bin/run",), ()),
        (("docs/guide.md",), ("README.md",)),
        (("lib/README.md",), ()),
        (("other/parser.py",), ("docs/none.md",)),
    ],
    ids=["nothing", "path and name", "end of the path", "name of two", "spaces", "word", "document", "same", "deleted"],
)
def test_documents_that_name_a_changed_file_are_found(
    workspace: Workspace, changed: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert documents_naming(workspace, changed) == found


def test_a_document_that_names_only_itself_is_none(workspace: Workspace) -> None:
    (workspace.root / "alone.md").write_text("This is alone.md.")
    assert documents_naming(workspace, ("alone.md",)) == ()


def test_the_search_is_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(named_documents.FOUND + 5):
        (workspace.root / f"docs/x{number}.md").write_text("parser.py")
    assert len(documents_naming(workspace, ("src/parser.py",))) == named_documents.FOUND
    monkeypatch.setattr(named_documents, "READ", 0)
    assert documents_naming(workspace, ("src/parser.py",)) == ()
