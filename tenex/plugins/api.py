"""What a plugin uses: the decorator of a tool, and what a tool is given about the call that it serves."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeVar

from tenex.core.errors import ConfigurationError, UsageError

API_VERSION: Final = 1
"""Of these names; a plugin that needs another one says so by `TENEX_API` in its module, and is left out."""

MARK: Final = "__tenex_plugin__"
TIMEOUT: Final = 30.0
"""Seconds a call may take unless the decorator sets another limit; the daemon's own tools have as many."""
_NEEDS: Final = "TENEX_API"
"""The name by which a plugin's module says which version it needs."""

F = TypeVar("F", bound=Callable[..., Any])

AccessName = Literal["read", "change", "run"]
ReplayName = Literal["read", "idempotent", "once"]
ApproveName = Literal["never", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginMark:
    """The arguments of the decorator; unchecked."""

    access: Any
    replay: Any
    approve: Any
    timeout: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The call that a tool serves. A function whose first parameter has this type is given it; no model sees it."""

    conversation: str
    """The id of the conversation."""
    agent: str
    """The slug of the agent that calls."""
    phase: str
    """The conversation's phase, such as `execute`."""
    workspace: Path
    """The folder that the agents work on."""
    call: str
    """Names the call; the same when it runs again after a restart."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the result is no longer wanted: a function in a thread cannot be ended, and should look at it."""


def tool(
    function: None = None,
    /,
    *,
    access: AccessName | None = None,
    replay: ReplayName = "once",
    approve: ApproveName = "never",
    timeout: float = TIMEOUT,
) -> Callable[[F], F]:
    """Let agents call a function. Its docstring is what a model reads, with the texts of `Args:` for its parameters.

    What it returns is the result: a text, or any value that JSON can hold. What it raises is a failed result. An
    `async` function runs in an event loop beside the daemon's, any other in a thread.

    Args:
        function: left out; `@tool` without parentheses is refused.
        access: what it does to the world, and so in which phases it may be used: `read`, `change` or `run`. Needed.
        replay: what may happen where its result was lost: `read` and `idempotent` run again, `once` never does.
        approve: `ask` has a person asked before each call, unless a rule of the operator allows it.
        timeout: seconds a call may take.

    Raises:
        UsageError: `access` is left out, or a function or a description is given.
    """
    given: object = function  # user code may not check types
    if isinstance(given, str):
        raise UsageError(
            "@tool of tenex.plugins takes no description: the docstring is it. For a method of an agent: "
            "`from tenex import tool`."
        )
    if access is None or given is not None:
        name = getattr(given, "__name__", "a function")
        raise UsageError(f'@tool on {name} needs `access`, such as @tool(access="read").')

    def mark(marked: F) -> F:
        setattr(marked, MARK, PluginMark(access=access, replay=replay, approve=approve, timeout=timeout))
        return marked

    return mark


def check_version(module: ModuleType | None) -> None:
    """Refuse a plugin's module that needs another version of `tenex.plugins`.

    Raises:
        ConfigurationError: it does.
    """
    wanted = getattr(module, _NEEDS, API_VERSION)
    if wanted != API_VERSION:
        raise ConfigurationError([f"it needs version {wanted} of tenex.plugins, and this is {API_VERSION}."])
