"""Which names a tool of one's own may have."""

import re
from typing import Final

from tenex.workflows.agents.blueprint import TAKEN

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What every provider takes as the name of a tool."""
_SUBAGENT: Final = "ask_"
_SERVER: Final = "__"
"""Between the names of a server and its tool."""

RESERVED: Final = frozenset({*TAKEN, "hand_over"})
"""Tools that agents have in some kinds of conversation."""


def fault_of_name(name: str) -> str:
    """Why a tool cannot be called so, as the rest of a sentence; empty if it can."""
    if not _NAME.fullmatch(name):
        return "cannot be called so: begin with a letter, use letters, digits, `_` and `-`, 64 at most."
    if name in RESERVED or name.startswith(_SUBAGENT):
        return "cannot be called so: agents have a tool of that name in some conversations. Call it by another name."
    if _SERVER in name:
        return "cannot be called so: `__` is kept for tools of servers. Call it by another name."
    return ""
