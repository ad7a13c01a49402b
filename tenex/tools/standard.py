"""The tools that ship with the daemon, in the order in which a model sees them.

Never: a tool's work; this is the list.
"""

from pathlib import Path
from typing import Final

from .changing import edit_file_tool, write_file_tool
from .check import CheckPolicy, check_tool
from .memory import Lessons, learn_tool
from .reading import list_files_tool, read_file_tool
from .searching import search_files_tool
from .speaking import ASK, COMPLETE
from .tool import Tool
from .workspace import Workspace

TOOL_NAMES: Final = frozenset(
    ("read_file", "list_files", "search_files", "write_file", "edit_file", "check", "learn", ASK.name, COMPLETE.name)
)
"""Every tool an agent's definition may name, those that are switched off too."""


def standard_tools(
    workspace: Workspace, lessons: Lessons, *, check: CheckPolicy = CheckPolicy.OFF, scratch: Path | None = None
) -> tuple[Tool, ...]:
    """Every tool of ours over one workspace; `check` only where the policy lets programs run."""
    running = () if check is CheckPolicy.OFF else (check_tool(workspace, check, scratch=scratch),)
    return (
        read_file_tool(workspace),
        list_files_tool(workspace),
        search_files_tool(workspace),
        write_file_tool(workspace),
        edit_file_tool(workspace),
        *running,
        learn_tool(lessons),
    )
