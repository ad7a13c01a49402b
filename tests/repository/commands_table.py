"""The table of slash commands in docs/protocol.md, as the code has it.

python -m tests.repository.commands_table    writes it into the document
"""

import re

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, which have commands of their own
from tenex.core.inbox.commands import slash_commands
from tenex.core.people.permissions import Decision

from .tree import ROOT, text_of

DOCUMENT = ROOT / "docs" / "protocol.md"
HEAD = "| command | effect | permitted for |\n|---|---|---|\n"
WHO = {
    None: "all permitted users",
    Decision.COMMAND: "owners; a member in a conversation they began",
    Decision.WAIVER: "owners; members with `gates.members_may_waive`",
    Decision.READING: "owners and members",
}


def table() -> str:
    """The rows, each with a line end."""
    rows = [
        f"| `/{f'{command.name} {command.usage}'.strip()}` | {command.help} | {WHO[command.needs]} |\n"
        for command in slash_commands().values()
    ]
    return HEAD + "".join(rows)


def table_in_document() -> str:
    """The table that the document has; empty for none."""
    match = re.search(rf"{re.escape(HEAD)}(?:\|.*\n)*", text_of(DOCUMENT))
    return match[0] if match else ""


if __name__ == "__main__":
    DOCUMENT.write_text(text_of(DOCUMENT).replace(table_in_document(), table()), "utf-8")
