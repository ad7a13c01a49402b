"""Tools that come and go while the registry is in use: those of MCP servers."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from tenex.core.config import ToolRule

from .tool import Tool


class ToolSource(Protocol):
    """Where tools come from that are not there for the life of the registry."""

    def tools(self) -> Mapping[str, Tool]:
        """Those there are now by name, always in the same order; another mapping once they have changed."""

    async def wait_for(self, name: str) -> None:
        """Return once a tool is there, or is not expected to be any more: in bounded time."""


class RuleView(Mapping[str, ToolRule]):
    """The rules of tools as they are whenever it is read."""

    def __init__(self, registry: "HasRules") -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> ToolRule:
        return self._registry.current_rules()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.current_rules())

    def __len__(self) -> int:
        return len(self._registry.current_rules())


class HasRules(Protocol):
    """What a `RuleView` reads."""

    def current_rules(self) -> Mapping[str, ToolRule]:
        """The rules as they are now."""
