"""What a record is for an editor: messages, what agents think, and their calls, as updates of a session.

The arguments of a call, and whether its message is a request for permission, stand in earlier records, so an instance
reads the records of one conversation in their order.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from acp.helpers import (
    SessionUpdate,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import ToolCallLocation, ToolKind

from tenex.core import records as r
from tenex.core.approvals.message import call_line, call_text
from tenex.core.ids import CallId, PublicKey, RunId
from tenex.core.messages import CallRequest
from tenex.core.totals.costs import run_agent

RESULT: Final = 20_000
"""Characters of a result that an editor is shown; `tenex conversations show` has the whole."""
_KINDS: Final[dict[str, ToolKind]] = {
    "read_file": "read",
    "list_files": "read",
    "search_files": "search",
    "search_conversation": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "move_file": "move",
    "delete_file": "delete",
    "shell": "execute",
    "shell_start": "execute",
    "check": "execute",
    "fetch": "fetch",
    "web_search": "fetch",
}
"""Our tools in the protocol's terms, by which an editor chooses a picture; others are `other`."""


def id_of_call(run: RunId, call: CallId) -> str:
    """A call's id in the protocol: a model may give the same to calls of two runs."""
    return f"{run}/{call}"


class Updates:
    """Makes the updates of one conversation's records."""

    def __init__(self, workspace: Path, project: PublicKey) -> None:
        self._workspace = workspace
        self._project = project
        self._asked: set[tuple[RunId, CallId]] = set()
        """Calls that wait for a person: an editor asks for these by itself."""

    def of(self, record: r.Record) -> Iterator[SessionUpdate]:
        """The updates of a record; none for what only the machinery needs."""
        match record:
            case r.MessageRecorded():
                yield update_user_message_text(record.text)
            case r.CommandGiven():
                yield update_user_message_text(f"/{record.command} {record.argument}".rstrip())
            case r.MessageSent() if record.is_published and not self._is_request(record):
                yield update_agent_message_text(self._said(record))
            case r.PhaseTransition() | r.HandedOff():
                yield update_agent_thought_text(f"\n{record.from_} → {record.to}: {record.reason}\n")
            case r.ModelResponded():
                if record.step.thinking:
                    yield update_agent_thought_text(f"\n{run_agent(record.run)}: {record.step.thinking}\n")
                for call in record.step.calls:
                    yield self._wanted(record.run, call)
            case r.ApprovalRequested():
                self._asked.update((record.run, asked.call) for asked in record.calls)
            case r.ToolCallStarted():
                yield update_tool_call(id_of_call(record.run, record.call), status="in_progress")
            case r.ToolCallRejected():
                yield self._ended(record.run, record.call, record.sentence, is_ok=False)
            case r.ToolCallCompleted():
                yield self._ended(record.run, record.call, record.content, is_ok=record.ok, touched=record.touched)
            case _:
                pass

    def _is_request(self, record: r.MessageSent) -> bool:
        return record.run is not None and record.call is not None and (record.run, record.call) in self._asked

    def _said(self, record: r.MessageSent) -> str:
        """The words of a message, under the name of the agent that speaks."""
        name = "" if record.speaker == self._project else f"**{record.name}**\n\n"
        return f"{name}{record.text}\n\n"

    def _wanted(self, run: RunId, call: CallRequest) -> SessionUpdate:
        arguments: dict[str, Any] = dict(call.arguments)
        return start_tool_call(
            id_of_call(run, call.id),
            f"{run_agent(run)}: {call_line(call.tool, arguments)}",
            kind=_KINDS.get(call.tool, "other"),
            status="pending",
            content=[tool_content(text_block(call_text(call.tool, arguments)[:RESULT]))],
            raw_input=arguments,
        )

    def _ended(
        self, run: RunId, call: CallId, text: str, *, is_ok: bool, touched: tuple[str, ...] = ()
    ) -> SessionUpdate:
        cut = text if len(text) <= RESULT else f"{text[:RESULT]}\n… ({len(text) - RESULT:,} characters more)"
        return update_tool_call(
            id_of_call(run, call),
            status="completed" if is_ok else "failed",
            content=[tool_content(text_block(cut))],
            locations=[ToolCallLocation(path=str(self._workspace / path)) for path in touched] or None,
        )
