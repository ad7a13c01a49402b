"""The names of servers' tools as models call them, which every vendor takes: 64 characters of `A-Za-z0-9_-`."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from tenex.core.work.tool_names import SERVER_MARK

LONGEST: Final = 64
_HASH: Final = 8
"""Characters of the hash that tells apart names that were cut."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(prefix: str, tool: str) -> str:
    """A tool's name: `server__tool`, foreign characters replaced; a longer one is cut and ends with a hash."""
    name = f"{prefix}{SERVER_MARK}{_FOREIGN.sub('_', tool)}"
    if len(name) <= LONGEST:
        return name
    digest = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{digest}"


def tool_names(prefix: str, tools: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The tools of a server by the names models call them, sorted; and those that would share a name and have none."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        names.setdefault(tool_name(prefix, tool), []).append(tool)
    clear = {name: same[0] for name, same in sorted(names.items()) if len(same) == 1}
    refused = sorted(tool for same in names.values() if len(same) > 1 for tool in same)
    return clear, refused
