"""The built-in tools: those that the modules of this package list in their `TOOLS`."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tenex import tools
from tenex.core.errors import InternalError
from tenex.core.phases import Access

from .ask_complete import ASK, COMPLETE
from .dependencies import ToolDependencies, ToolTable
from .tool import Tool

_ORDER: Final = (Access.READ, Access.CHANGE, Access.RUN, Access.SPEAK, Access.LEARN)


def _tables() -> Iterator[ToolTable]:
    for module in iter_modules(tools.__path__):
        yield getattr(import_module(f"{tools.__name__}.{module.name}"), "TOOLS", {})


def _joined() -> ToolTable:
    joined: dict[str, Callable[[ToolDependencies], Tool | None]] = {}
    for table in _tables():
        if twice := joined.keys() & table.keys():
            raise InternalError(f"there are two tools named {', '.join(sorted(twice))}")
        joined |= table
    return joined


_TOOLS: Final = _joined()

TOOL_NAMES: Final = frozenset({*_TOOLS, ASK.name, COMPLETE.name})
"""Every tool an agent's definition may name, with those that are switched off."""


def standard_tools(dependencies: ToolDependencies) -> tuple[Tool, ...]:
    """The built-in tools that are switched on, in the order in which models see them: what only reads is first."""
    made = (make(dependencies) for make in _TOOLS.values())
    return tuple(sorted(filter(None, made), key=lambda tool: _ORDER.index(tool.access)))
