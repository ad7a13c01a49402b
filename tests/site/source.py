"""Lays out what the site is built from: the documents, each where it lies in the repository, and what they link to.

Links between documents need no change then. A link to a file of another kind leads to the file itself, and one to a
Markdown file that is no document, such as an agent, to its text. A link to a folder is left as words.
"""

import re
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import unquote

ROOT: Final = Path(__file__).resolve().parents[2]
AT_THE_ROOT: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
FILES: Final = (".toml", ".service", ".yaml", ".yml", ".example", ".json", ".py", ".md", ".svg", ".png", ".cast", "")
"""Endings of files that a page may link to."""

_FENCE: Final = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\[((?:[^\]\[\n]|\[[^\]\n]*\])*)\]\(([^)\s]+)\)")


def documents() -> list[Path]:
    """The documents of the site."""
    return [*(ROOT / name for name in AT_THE_ROOT), *sorted((ROOT / "docs").rglob("*.md"))]


def lay_out(folder: Path) -> None:
    """Write the documents and the files they link to into an empty folder."""
    known = set(documents())
    for document in known:
        target = folder / document.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_with_links(document, known, folder), "utf-8")


def _with_links(document: Path, known: set[Path], folder: Path) -> str:
    text = document.read_text("utf-8")
    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_rewritten(text[end : fence.start()], document, known, folder), fence[0]]
        end = fence.end()
    return "".join([*pieces, _rewritten(text[end:], document, known, folder)])


def _rewritten(text: str, document: Path, known: set[Path], folder: Path) -> str:
    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if target.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", target):
            return match[0]
        path = (document.parent / unquote(target.partition("#")[0])).resolve()
        if path in known or not path.exists():  # the generator reports the second
            return match[0]
        if not path.is_file() or path.suffix not in FILES:
            return words
        ending = ".txt" if path.suffix in (".md", "") else ""  # else a page is made of it, or it has no type
        copy = folder / path.relative_to(ROOT)
        copy = copy.with_name(copy.name + ending)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        return f"[{words}]({target}{ending})"

    return _LINK.sub(link, text)
