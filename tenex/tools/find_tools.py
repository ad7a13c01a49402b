"""`find_tools`: an agent with many tools of MCP servers finds those that it needs now (`core.found_tools`)."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.ids import Slug
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.work.found_tools import line_of
from tenex.core.work.tool_names import FIND_TOOLS

from .tool import Refusal, Tool, object_schema, string

FOUND: Final = 8
"""Tools that one call finds: most work needs three to eight."""
NAMED: Final = 200
"""Tools named in the description; more than that are found by their words alone."""
LONG_SENTENCE: Final = 300
"""Characters of what a found tool does; its schema has the whole description."""

_ABOUT: Final = (
    "Finds tools of servers by words of their names and descriptions, or by exact names, and adds them to your tools. "
    "Find a tool before you call it."
)


def find_tools_tool(hidden: Callable[[Slug], Sequence[ToolSpec]]) -> Tool:
    """`find_tools` over the tools of servers that an agent is not shown in whole."""

    async def find(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        specs = hidden(context.agent)
        fitting = _search(arguments["query"], specs)
        if not fitting:
            raise Refusal(f"None of the {len(specs)} tools of servers has these words. Try others, or an exact name.")
        lines = "\n".join(line_of(spec, LONG_SENTENCE) for spec in fitting)
        return ToolResult(ok=True, content=f"You have these tools from now on:\n{lines}")

    return Tool(
        name=FIND_TOOLS,
        description=_ABOUT,
        parameters=object_schema({"query": string("Words, or names of tools.", min_length=1, max_length=500)}),
        access=Access.READ,
        replay=Replay.READ,
        body=find,
    )


def spec_naming(tool: Tool, hidden: Sequence[ToolSpec]) -> ToolSpec:
    """`find_tools` as an agent is shown it: with the tools that it finds."""
    lines = [line_of(spec) for spec in hidden[:NAMED]]
    if len(hidden) > NAMED:
        lines.append(f"and {len(hidden) - NAMED} more, which words find.")
    return replace(tool.spec, description=f"{tool.description} There are:\n" + "\n".join(lines))


def _search(query: str, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools that fit the words best: a rare word counts more, one of a name three times; exact names are first."""
    exact = set(re.findall(r"[A-Za-z0-9_-]+", query))
    words = _words(query)
    texts = [(_words(spec.name), _words(spec.description)) for spec in specs]
    counts = Counter(word for name, about in texts for word in name | about)
    scored: list[tuple[float, ToolSpec]] = []
    for spec, (name, about) in zip(specs, texts, strict=True):
        score = 1_000.0 if spec.name in exact else 0.0
        score += sum(3 / counts[word] for word in words & name) + sum(1 / counts[word] for word in words & about)
        if score:
            scored.append((score, spec))
    scored.sort(key=lambda pair: -pair[0])
    return [spec for _, spec in scored[:FOUND]]


def _words(text: str) -> set[str]:
    """Words in lower case, the parts of names among them; the plural of a word counts as the word."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+", text)
    return {part.lower().removesuffix("s") for part in parts if len(part) > 1 or part.isdigit()}
