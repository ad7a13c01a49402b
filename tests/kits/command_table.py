"""Who may give which command, as docs/protocol.md says."""

import re

from tests.repository.tree import ROOT, text_of


def permitted_for() -> dict[str, str]:
    """The last column of the table of commands, by name; "the same" is replaced by what it refers to."""
    section = text_of(ROOT / "docs" / "protocol.md").partition("\n## Commands\n")[2]
    table: dict[str, str] = {}
    before = ""
    for names, who in re.findall(r"^\| (`/[^|]*) \|.*\| ([^|]+) \|$", section, re.MULTILINE):
        before = who.replace("the same", before)
        table |= dict.fromkeys(re.findall(r"`/(\w+)", names), before)
    return table
