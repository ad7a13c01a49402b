"""The tools of MCP servers as tools of ours: where they may be used, whether a person is asked, what they give back.

A server that is not trusted is believed nothing: its tools run programs, a call is never repeated, and a person is
asked. Of a trusted one the annotations count: what only reads may be used where reading may, and asks no one.

A call of a program in the sandbox that may change files is made, by phase,

    where changes are permitted: by the server, which writes to the workspace; what it wrote is seen (`tools.witness`)
    else: by one of its own in the view of the turn (`mcp_views`)

A server protects the repositories that were there when it was started. So it is started again before a call if there is
one that it does not protect; one that comes during a call is renamed after it (`tools.workspace_scan`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex.configuration.mcp_launch import SandboxedProgram
from tenex.core.answers.forms import Form, NoAnswer
from tenex.core.config import Replay
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId
from tenex.core.messages import cut
from tenex.core.phases import Access
from tenex.core.port_values import AttachedFile, QuestionReply
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.records import Record, RunEnded
from tenex.core.rollback.whole import RolledBack
from tenex.core.text.foreign import well_formed
from tenex.core.work.tool_names import server_of
from tenex.mcp.config import ServerConfig
from tenex.mcp.connection import (
    READY,
    START,
    Answer,
    CallFailed,
    CallTimedOut,
    ServerConnection,
    ServerLost,
    ServerUnavailable,
)
from tenex.mcp.questions import ServerQuestion, needs_input, question_in
from tenex.mcp.results import IMAGE, File, read_result
from tenex.mcp.servers import McpServers, NamedTool
from tenex.store.conversation_files import FOR_PEOPLE, FilesFull
from tenex.store.pictures import media_type
from tenex.tools import workspace_scan
from tenex.tools.process import decoded, plain_text
from tenex.tools.process import named as taken
from tenex.tools.sent_files import SENDING, SentFiles, described
from tenex.tools.tool import Refusal, Tool, digest_of_definition, run_uncancellable, with_remarks
from tenex.tools.turn_views import TOO_LARGE
from tenex.tools.witness import with_witness
from tenex.tools.write_policy import is_confined

from .mcp_views import McpViews

MOST_TEXT: Final = 32 * 1024
"""Characters of a result, as of a command: its beginning and its end."""
MOST_DESCRIPTION: Final = 2_000
"""Characters of a description: it is in every request."""
MOST_QUESTIONS: Final = 3
"""Questions of one call to a person: a form asks for several values at once."""

MOST_PICTURES: Final = 4
"""Pictures that go with one answer: a browser makes one for each step."""

MOST_RESTARTS: Final = 3
"""Of a server before a call: one is enough unless repositories come at that very moment."""

_PICTURE: Final = re.compile(r"image/[a-z0-9.+-]{1,40}")
_GIT_IS_READ_ONLY: Final = re.compile(r"\.git/[^\n]*Read-only file system")
_NO_WRITING_GIT: Final = (
    "Git repositories are read-only to MCP servers in the sandbox, so no tool of one commits or stages. Do not call it "
    "again; say in your response that a person has to."
)
_NO_ANSWER: Final = "That was no answer."
_LAST: Final = f"\nThis is question {MOST_QUESTIONS} of this call, and the last: another one is refused."


class _Asks(Exception):
    """A person has to answer first; the text is the question."""

    def __init__(self, text: str, form: Form) -> None:
        super().__init__(text)
        self.form = form


class _OutcomeUnknown(Exception):
    """Whether a call was carried out is not known; the text is for the model."""


Keep = Callable[[ConversationId, str, bytes], Awaitable[str]]
"""Keeps a file of a result for people, and returns the name that it has; raises `FilesFull`."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a tool."""

    access: Access
    replay: Replay
    asks: bool


def traits_of(named: NamedTool) -> Traits:
    """What a tool may do, by its annotations where its server is trusted, and by the settings."""
    config = named.config
    tool = named.tool
    only_reads = config.trust and tool.reads_only
    replay = Replay.ONCE
    if only_reads:
        replay = Replay.READ
    elif config.trust and tool.is_idempotent:
        replay = Replay.IDEMPOTENT
    said = config.replay.get(tool.name)
    return Traits(
        access=Access.READ if only_reads else Access.RUN,
        replay=Replay(said) if said else replay,
        asks=not only_reads,
    )


class McpTools:
    """The tools of all servers: a `tools.changing.ToolSource`."""

    def __init__(
        self,
        servers: McpServers,
        views: McpViews,
        keep: Keep,
        root: Path,
        files: Callable[[], SentFiles] | None = None,
    ) -> None:
        """Take the servers, those in views, what keeps files, the workspace, and what sends pictures to people."""
        self._files = files
        self._servers = servers
        self._views = views
        self._keep = keep
        self._root = root
        self._seen: Mapping[str, NamedTool] | None = None
        self._tools: dict[str, Tool] = {}

    def tools(self) -> Mapping[str, Tool]:
        """The tools there are now, in order; another mapping once they have changed."""
        if self._servers.tools is not self._seen:
            self._seen = self._servers.tools
            self._tools = {name: self._tool(named) for name, named in self._seen.items()}
        return self._tools

    async def listed(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """`mcp_tools`, an order of the control socket: each server with its tools as agents may have them."""
        tools = self.tools().values()
        return [
            {
                "prefix": connection.config.prefix,
                "tools": [_listed(tool) for tool in tools if server_of(tool.name) == connection.config.prefix],
            }
            for connection in self._servers.connections
        ]

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Give up the calls of runs that have ended: no one answers any more what their servers ask."""
        ended = [f"{conversation.id} {record.run} " for record in records if isinstance(record, RunEnded)]
        if any(isinstance(record, RolledBack) for record in records):
            ended.append(f"{conversation.id} ")
        for holder in ended:
            for connection in self._servers.connections:
                connection.give_up_all(holder)
            self._views.give_up_all(holder)

    async def wait_for(self, name: str) -> None:
        """Return once a tool is there; at once where its server has a list of tools or is not configured."""
        server = self._servers.of(server_of(name))
        if server is None or name in self._servers.tools or server.tools:
            return
        try:
            await server.wait()
        except ServerUnavailable:
            return

    def _tool(self, named: NamedTool) -> Tool:
        traits = traits_of(named)
        tool = named.tool
        config = named.config
        changes = traits.access is Access.RUN
        is_sandboxed = config.is_program and config.sandbox

        async def answered(
            connection: ServerConnection, arguments: Mapping[str, Any], context: ExecutionContext
        ) -> ToolResult:
            call = _Call(connection, tool.name, arguments, context)
            try:
                result = await call.answered(traits.replay)
            except _OutcomeUnknown as unknown:
                return ToolResult(ok=False, content=str(unknown), has_outside_effect=changes)
            except _Asks as asks:
                return ToolResult(ok=False, content=str(asks), question=str(asks), form=asks.form.stored())
            shown = await self._shown(named, result, context)
            return replace(shown, has_outside_effect=changes)

        async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
            connection = named.connection
            if is_sandboxed and is_confined(context.phase) and (changes or self._views.has_other_files(context)):
                async with self._views.server(connection, context) as (view, connection):
                    result = await answered(connection, arguments, context)
                if changes and not view.can_write:
                    remark = f"The workspace was read-only to it: {TOO_LARGE}."
                    result = replace(result, content=with_remarks(result.content, [remark]))
                return result
            if is_sandboxed and changes:
                return await self._guarded(connection, lambda: answered(connection, arguments, context))
            return await answered(connection, arguments, context)

        return Tool(
            name=named.name,
            description=cut(" ".join(tool.description.split()), MOST_DESCRIPTION) or f"{tool.name} of {config.name}.",
            parameters=tool.schema,
            access=traits.access,
            replay=traits.replay,
            body=body,
            # its own deadlines come first, with a better message
            time_cap=2 * (config.timeout + READY) + START + 10 + SENDING,
            leaves_changes=config.is_program,
            is_contained=is_sandboxed and changes,
            asks=traits.asks,
            why="may change something" if config.trust else "is not trusted",
            about=tool.description,
            definition=digest_of_definition(
                config.name, tool.name, tool.description, tool.schema, tool.reads_only, tool.is_idempotent
            ),
        )

    async def _guarded(self, connection: ServerConnection, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """The result of a call whose program may write to the workspace, with what it wrote.

        What git would run of it is taken away.
        """
        before, program = await self._protecting(connection)
        program.witness.begin()
        settled = workspace_scan.Settled()
        try:
            result = await call()
        finally:
            settled = await run_uncancellable(partial(workspace_scan.settle, self._root, before))
        remarks = []
        if settled.removed:
            remarks.append(
                f"Taken away: {taken(decoded(settled.removed))}. It is renamed, with `.replaced-` and digits at "
                "the end. Tools make no repositories here and nothing that git runs; a person can."
            )
        if settled.lost:
            lost = taken(decoded(settled.lost))
            remarks.append(f"Lost, and cannot be restored: {lost}; name this in your response.")
        result = replace(result, content=with_remarks(result.content, remarks))
        if connection.program is not program:  # another one may have done a part of it
            return result
        program.witness.look()
        return with_witness(result, program.witness)

    async def _protecting(self, connection: ServerConnection) -> tuple[workspace_scan.Survey, SandboxedProgram]:
        """What is in the workspace, and the running program of a server, which cannot write to the repositories there.

        Raises:
            Refusal: the server does not run, or repositories come all the time.
        """
        try:
            for _ in range(MOST_RESTARTS):
                await connection.wait()
                before = await asyncio.to_thread(workspace_scan.take, self._root)
                program = connection.program  # it may have ended meanwhile
                if isinstance(program, SandboxedProgram) and program.protects(before):
                    return before, program
                await connection.restart()
        except ServerUnavailable as error:
            raise _refusal(error) from error
        raise Refusal(
            f"{connection.config.name} was not called: repositories appear in the workspace again and again, and it is "
            "started again for each. Try again later."
        )

    async def _shown(self, named: NamedTool, result: Any, context: ExecutionContext) -> ToolResult:
        reply = read_result(result)
        shown: list[str] = []
        sent: list[AttachedFile] = []
        for index, part in enumerate(reply.parts, 1):
            if isinstance(part, str):
                shown.append(part)
                continue
            key = context.idempotency_key.rpartition(":")[2]
            name = f"{named.name}-{key}-{index}{part.suffix}"
            attached, fault = await self._sent(part, name, index, context, len(sent))
            if attached is not None:
                sent.append(attached)
                shown.append(f"[{_described(part)} goes to the person with your answer]")
                continue
            why = f"; it was not sent: {fault}" if fault else ""
            try:
                kept = await self._keep(context.conversation_id, name, part.data)
            except FilesFull as full:
                shown.append(f"[{_described(part)} was dropped: {full}{why}]")
                continue
            shown.append(f"[{_described(part)} is kept for people: {FOR_PEOPLE}/{kept} of the conversation{why}]")
        hidden = named.config.hidden
        hide = hidden.taken_out if reply.ok else hidden
        text = hide(plain_text("\n".join(shown)))
        if not reply.ok and _GIT_IS_READ_ONLY.search(text):
            text = with_remarks(text, [_NO_WRITING_GIT])
        return ToolResult(ok=reply.ok, content=cut(text, MOST_TEXT) or "(It answered nothing.)", files=tuple(sent))

    async def _sent(
        self, part: File, name: str, index: int, context: ExecutionContext, sent: int
    ) -> tuple[AttachedFile | None, str]:
        """A picture as it goes with the agent's answer; None where it does not, and why where it could have."""
        if self._files is None or part.kind != IMAGE:
            return None, ""
        if context.destination.waiting + sent >= MOST_PICTURES:
            return None, f"{MOST_PICTURES} pictures go with your answer already"
        files = self._files()
        if len(part.data) > files.most:
            return None, "it is larger than `files.max_bytes`"
        attached, fault = await files.attached(
            described(name, part.data, media_type=_picture_type(part)),
            caption="",
            unique=f"{context.idempotency_key}:{index}",
            destination=context.destination,
            conversation=context.conversation_id,
        )
        return (None, fault) if fault else (attached, "")


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool, made by one server."""

    connection: ServerConnection
    tool: str
    arguments: Mapping[str, Any]
    context: ExecutionContext

    async def answered(self, replay: Replay) -> Any:
        """The result once the server has the answers that it asks for; each answers the question it was given to.

        Raises:
            _Asks: a person has to answer first.
            _OutcomeUnknown: it asks too often, or does not answer.
            Refusal: it asks what no person can answer, or does not run.
        """
        config = self.connection.config
        result = await self._made(replay)
        replies = iter(self.context.answers)
        while needs_input(result):
            question = question_in(result)
            if question is None:
                raise Refusal(f"{config.name} asks for something that cannot be given here; nothing was done.")
            try:
                values = _values_for(question, config, replies, _number(self.context.answers))
            except _OutcomeUnknown:
                self.connection.give_up(self.tool, self.arguments, self._holder)
                raise
            answer = Answer(key=question.key, values=values, state=result.request_state)
            result = await self._made(Replay.ONCE, answer)
        return result

    async def _made(self, replay: Replay, answer: Answer | None = None) -> Any:
        """The answer of the server; a call that was lost is made once more where that does no harm."""
        call = partial(self.connection.call, self.tool, self.arguments, holder=self._holder)
        try:
            return await call(answer, goes_on=bool(self.context.answers))
        except ServerLost as lost:
            if replay is Replay.ONCE:
                raise _OutcomeUnknown(f"unknown: {lost}; check before repeating") from lost
        except CallTimedOut as late:
            raise _OutcomeUnknown(f"unknown: {late}; check before repeating") from late
        except (ServerUnavailable, CallFailed) as error:
            raise _refusal(error) from error
        try:
            return await call()
        except (ServerLost, CallTimedOut) as error:
            raise _OutcomeUnknown(f"unknown: {error}, and before that too; check before repeating") from error
        except (ServerUnavailable, CallFailed) as error:
            raise _refusal(error) from error

    @property
    def _holder(self) -> str:
        """For whom it is made."""
        return f"{self.context.conversation_id} {self.context.run} {self.context.agent}"


def _picture_type(file: File) -> str:
    """What a picture is, by its beginning; else what its server calls it, where that names a picture."""
    named = file.mime.partition(";")[0].strip().lower()
    return media_type(file.data) or (named if _PICTURE.fullmatch(named) else "application/octet-stream")


def _described(file: File) -> str:
    return f"{file.kind} ({file.mime}, {len(file.data):,} bytes)"


def _refusal(error: ServerUnavailable | CallFailed) -> Refusal:
    """What a server refuses, or why it cannot be asked, as a sentence for the model."""
    return Refusal(f"{str(error).rstrip('.')}.")


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "access": tool.access.value,
        "replay": tool.replay.value,
        "asks": tool.asks,
    }


def _number(answers: Sequence[QuestionReply]) -> int:
    """The number in its call of a question that is asked next; a person who is asked for another answer counts once."""
    return 1 + sum(not reply.question.startswith(_NO_ANSWER) for reply in answers)


def _values_for(
    question: ServerQuestion, config: ServerConfig, replies: Iterator[QuestionReply], number: int
) -> dict[str, Any] | None:
    """The values of the next reply to exactly this question; what could not be read was asked for again.

    Raises:
        _Asks: there is none.
        _OutcomeUnknown: there is none, and the server has asked too often: one that words its question in another way
            each time would ask without end.
    """
    text = well_formed(plain_text(question.text(config.name, config.hidden.taken_out)))  # as it is recorded
    wanted = text
    for reply in replies:
        if reply.question.removesuffix(_LAST) != wanted:
            continue  # the server asked something else then
        try:
            return question.form.read(reply.text)
        except NoAnswer as fault:
            wanted = f"{_NO_ANSWER} {fault}\n{text}"
    if wanted != text:
        raise _Asks(wanted, question.form)
    if number > MOST_QUESTIONS:
        raise _OutcomeUnknown(
            f"unknown: {config.name} has asked {MOST_QUESTIONS} questions in this call and wanted to ask another one, "
            "which was refused. Do not call it again; say in your response that it asks too often."
        )
    raise _Asks(text + _LAST if number == MOST_QUESTIONS else text, question.form)
