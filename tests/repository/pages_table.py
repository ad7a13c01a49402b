"""The table of pages in docs/web.md, as the code has it.

python -m tests.repository.pages_table    writes it into the document
"""

import re

from tests.kits.pages import PAGES

from .tree import ROOT, text_of

DOCUMENT = ROOT / "docs" / "web.md"
HEAD = "| page | what it shows | as the command |\n|---|---|---|\n"


def table() -> str:
    """The rows, each with a line end."""
    rows = [
        f"| {page.title} | {page.shows} | {', '.join(f'`tenex {command}`' for command in page.commands)} |\n"
        for page in PAGES
    ]
    return HEAD + "".join(rows)


def table_in_document() -> str:
    """The table that the document has; empty for none."""
    match = re.search(rf"{re.escape(HEAD)}(?:\|.*\n)*", text_of(DOCUMENT))
    return match[0] if match else ""


if __name__ == "__main__":
    DOCUMENT.write_text(text_of(DOCUMENT).replace(table_in_document(), table()), "utf-8")
