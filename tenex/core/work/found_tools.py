"""Tools of MCP servers that a model is shown by name first, and in whole once its agent has found them.

Fifty tools are 7,500 tokens in each request, and models choose badly among so many. So an agent with more than a few
has `find_tools` in their place, whose description names them. What it finds is offered from then on, at the end of
the list: a request still begins like the one before it, so providers read it from their cache. What was found is read
from the results of the calls, which are in the journal: after a restart the same tools are offered.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tenex.core.memory.window import BYTES_PER_TOKEN, weight
from tenex.core.messages import CallResult, Entry, ToolSpec
from tenex.core.work.tool_names import FIND_TOOLS, server_of

MOST_TOOLS: Final = 20
"""Tools of servers that are shown in whole: vendors report that choice suffers above 30 to 50."""
MOST_TOKENS: Final = 3_000
"""Estimated tokens of them, as much as all built-in tools take."""
SENTENCE: Final = 80
"""Characters of a tool's description that its line has."""

_LINE: Final = re.compile(r"^- ([A-Za-z0-9_-]{1,128}): ", re.MULTILINE)


def are_too_many(tools: Sequence[ToolSpec]) -> bool:
    """Whether these tools of servers are shown by name first."""
    size = sum(weight(tool.name) + weight(tool.description) + weight(tool.parameters) for tool in tools)
    return len(tools) > MOST_TOOLS or size > MOST_TOKENS * BYTES_PER_TOKEN


def line_of(tool: ToolSpec, characters: int = SENTENCE) -> str:
    """A tool in one line: its name and the beginning of what it does."""
    words = " ".join(tool.description.split())
    first = re.split(r"(?<=[.!?]) ", words, maxsplit=1)[0]
    return f"- {tool.name}: {first[:characters]}"


def split(tools: Sequence[ToolSpec], entries: Iterable[Entry]) -> tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]:
    """The tools that are offered from the start, and those of servers that calls have found since, in that order."""
    if all(tool.name != FIND_TOOLS for tool in tools):
        return tuple(tools), ()
    hidden = {tool.name: tool for tool in tools if server_of(tool.name)}
    listed = tuple(tool for tool in tools if tool.name not in hidden)
    results = (entry for entry in entries if isinstance(entry, CallResult) and entry.tool == FIND_TOOLS and entry.ok)
    names = dict.fromkeys(name for result in results for name in _LINE.findall(result.content))
    return listed, tuple(hidden[name] for name in names if name in hidden)
