"""A registry with one tool, which its one agent has."""

from dataclasses import replace

from tenex.core.ids import Slug
from tenex.tools.registry import ToolRegistry
from tenex.tools.tool import Tool
from tests.tools.conftest import ROSTER


def offering(tool: Tool) -> ToolRegistry:
    """A registry in which the executor has this tool."""
    executor = replace(ROSTER[Slug("executor")], tools=frozenset({tool.name}))
    return ToolRegistry([tool], {executor.slug: executor}.get)
