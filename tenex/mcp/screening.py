"""Messages of a server before the SDK checks them: what one of its parts breaks is that part's, and not the server's.

The SDK refuses a list of tools for one tool in it that breaks the protocol, and it never sees an answer that is nested
too deeply to be read, so that its call waits until it is late.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self

MOST_DEPTH: Final = 100
"""Levels of a message: the SDK reads some more."""
TOO_DEEP: Final = f"its answer is nested more than {MOST_DEPTH} levels deep"
_INVALID: Final = -32700
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)

LeftOut = Callable[[str, str], None]
"""Takes the name of a tool and why it is left out."""


@asynccontextmanager
async def screened(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], left_out: LeftOut
) -> AsyncIterator[tuple[Any, Any]]:
    """A transport whose lists of tools hold only tools that the protocol permits."""
    async with transport as (read, write):
        yield _Screened(read, left_out), write


class _Screened:
    """A stream of messages, each screened."""

    def __init__(self, inner: Any, left_out: LeftOut) -> None:
        self._inner = inner
        self._left_out = left_out

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._passed(await self._inner.__anext__())

    async def receive(self) -> Any:
        """The next message."""
        return self._passed(await self._inner.receive())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _passed(self, message: Any) -> Any:
        result = getattr(getattr(message, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = [tool for listed in result["tools"] if (tool := permitted(listed, self._left_out))]
        return message


def permitted(listed: Any, left_out: LeftOut) -> dict[str, Any] | None:
    """What we use of a tool in a list, in the form that every version of the protocol permits; None if it has none."""
    if not isinstance(listed, Mapping):
        left_out("?", "it is no object")
        return None
    name = listed.get("name")
    if not isinstance(name, str) or not name:
        left_out("?", "it has no name")
        return None
    schema = listed.get("inputSchema")
    if not isinstance(schema, Mapping):
        left_out(name, "it has no schema of its arguments")
        return None
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        left_out(name, f"its schema is of the type {str(kind)[:40]}, and arguments are an object")
        return None
    tool: dict[str, Any] = {"name": name, "inputSchema": {**schema, "type": "object"}}
    for key in ("title", "description"):
        if isinstance(listed.get(key), str):
            tool[key] = listed[key]
    annotations = listed.get("annotations")
    if isinstance(annotations, Mapping):
        tool["annotations"] = {hint: annotations[hint] for hint in _HINTS if isinstance(annotations.get(hint), bool)}
    return tool


def flattened(line: bytes) -> bytes | None:
    """A message that is nested too deeply, without what lies too deep; None for any other."""
    depth = 0
    deepest = 0
    kept = bytearray()
    start = 0
    for match in _STRUCTURE.finditer(line):
        mark = match.group()
        if mark in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth == MOST_DEPTH:
                kept += line[start : match.end()]
        elif mark in b"]}":
            if depth == MOST_DEPTH:
                start = match.start()
            depth -= 1
    if deepest <= MOST_DEPTH:
        return None
    return bytes(kept + line[start:])


def too_deep(message: Any) -> Any:
    """A message that was nested too deeply, without what lay too deep: an answer is replaced by an error."""
    from mcp_types import ErrorData, JSONRPCError

    if not hasattr(message, "result"):
        return message
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=ErrorData(code=_INVALID, message=TOO_DEEP))
