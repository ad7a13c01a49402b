"""The tools as which the core sees what an agent's program does: its own calls, and what it asks to be allowed.

Neither is offered to a model. The daemon's registry knows them by their rules; their calls are carried out by the
session of the run (`agents.AcpAgents`), and by nothing where there is none.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tenex.core.approvals.rules import COMMAND
from tenex.core.config import CallNeed, Replay
from tenex.core.messages import is_too_deep
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.settings import Settings
from tenex.tools.tool import Tool

from .prompts import SERVER
from .session_events import CallSeen, PermissionAsked

CALL: Final = "acp_call"
PERMISSION: Final = "acp_permission"
NAMES: Final = frozenset({CALL, PERMISSION})

LONGEST_TEXT: Final = 2_000
"""Characters of each text in the arguments of a call that is only seen: a whole file may be among them."""

UNUSUAL: Final = CallNeed(name="unusual", is_to="change its mode, or offer answers that the protocol does not have")
"""What no rule allows that is about permissions in general."""

_EFFECTS: Final = ("execute", "edit", "delete", "move", "fetch", "switch_mode")
"""Kinds of calls that are of the program's own tools."""

_OURS: Final = frozenset({"kind", "why", UNUSUAL.name})
"""Names of arguments that have a meaning here; a program's own of that name are shown apart from them."""

_ANY: Final = {"type": "object", "properties": {}}


def call_tool(_: Settings) -> Tool:
    """The tool of a call that the program makes by itself: it is seen, waited for, and never made here."""
    return Tool(
        name=CALL,
        description="A call that the program of an agent makes by itself.",
        parameters=_ANY,
        access=Access.READ,  # what it may change, the sandbox decides
        replay=Replay.ONCE,
        body=_without_session,
    )


def permission_tool(_: Settings) -> Tool:
    """The tool of a request of the program: a person allows it, or a rule does."""
    return Tool(
        name=PERMISSION,
        description="What the program of an agent asks to be allowed.",
        parameters=_ANY,
        access=Access.READ,
        replay=Replay.ONCE,
        body=_without_session,
        asks=True,
        why="the agent's own program asks for it",
        needs=(UNUSUAL,),
        is_exact=True,
    )


async def _without_session(_: Mapping[str, Any], __: ExecutionContext) -> ToolResult:
    return ToolResult(ok=False, content="Not done: there is no session of the agent's program here.")


def seen_arguments(call: CallSeen) -> dict[str, Any]:
    """What is recorded of a call that is seen: what the program says of it, long texts cut."""
    said = _said(call)
    return {name: _cut(value) for name, value in said.items()}


def asked_arguments(asked: PermissionAsked) -> dict[str, Any]:
    """What a person is asked about: all that identifies it, and nothing that differs when it is asked again."""
    said = _said(asked.call)
    if not asked.is_usual:
        said |= {UNUSUAL.name: True, "why": asked.call.title or "it does not say"}
    return said


def is_own_tool(call: CallSeen, tools: Iterable[str]) -> bool:
    """Whether a call is of a tool of ours over MCP, which is judged and recorded when it arrives.

    Agents name such a tool by its server and itself, in one of a few ways, as the title.
    """
    if call.kind in _EFFECTS:
        return False
    marks = (f"mcp__{SERVER}__", f"{SERVER}_", f"{SERVER}.", f"mcp.{SERVER}.")
    return any(call.title == f"{mark}{name}" for mark in marks for name in tools)


def _said(call: CallSeen) -> dict[str, Any]:
    if is_too_deep(call.arguments):
        return {"kind": call.kind, "title": call.title, "input": "(nested too deeply to be shown)"}
    arguments = dict(call.arguments)
    command = arguments.get(COMMAND)
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        arguments[COMMAND] = shlex.join(command)  # no other words give this line
    if not arguments:
        arguments = {"title": call.title, **({"paths": list(call.locations)} if call.locations else {})}
    if arguments.keys() & _OURS:
        return {"kind": call.kind, "input": arguments}
    return {"kind": call.kind, **arguments}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    if isinstance(value, Mapping):
        return {name: _cut(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(inner) for inner in value]
    return value
