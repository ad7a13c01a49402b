"""Tools of one's own: what a file in `tools/` or a package imports, and how both are found, loaded and called.

    from tenex.plugins import tool

    @tool(access="read")
    def word_count(path: str) -> int:
        "Counts the words of a file."

`API_VERSION`, `ToolContext` and `tool` are for plugins and change only with that version; everything else is the
daemon's own. A plugin runs in the daemon's process, with all its rights (docs/tools.md).
"""

from .api import API_VERSION, ToolContext, tool

__all__ = ["API_VERSION", "ToolContext", "tool"]
