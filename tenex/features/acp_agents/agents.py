"""The agents of a daemon that are programs: which runs have one, and when their processes end.

It stands before the daemon's model and before its tools, and passes on what is of other agents. As an `Observer` it
ends the process of a run that has ended, however that was.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenex.core.agent_phases.decide import offered
from tenex.core.config import AgentKind
from tenex.core.conversation import Conversation
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId, ConversationId, PublicKey, RunId, Slug
from tenex.core.messages import Entry, ModelRequest, ModelStep, ToolSpec
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, Model, OnText, ToolResult, Tools, ignore_text
from tenex.core.records import Record, RunEnded
from tenex.log import get_logger
from tenex.prompting.agents import AcpProgram
from tenex.tools.restore import clear_away
from tenex.tools.shared_namespaces import SharedNamespaces

from .agent_run import AgentRun
from .changes import Changes
from .launch import Launcher
from .tools import CALL, NAMES, call_tool, permission_tool

if TYPE_CHECKING:
    from tenex.app import Application

    from .links import Links

FOLDER: Final = "acp"
"""The folder of the data folder that has the home folders, a folder for each conversation."""

_Key = tuple[ConversationId, RunId]
_log = get_logger(__name__)


class AcpAgents:
    """The runs of agents that are programs. Belongs to one event loop."""

    def __init__(self, app: "Application") -> None:
        self._app = app
        self._runs: dict[_Key, AgentRun] = {}
        self._open: set[_Key] = set()
        """Those that the state of their conversation has had."""
        self._ending: set[asyncio.Task[None]] = set()
        self._tools = {tool.name: tool for tool in (call_tool(app.settings), permission_tool(app.settings))}

    # ---- before the model and the tools ----

    def model(self, behind: Model) -> Model:
        """A model that answers for agents that are programs."""
        return _FrontModel(self, behind)

    def tools(self, behind: Tools) -> Tools:
        """Tools of which the two of programs are carried out here."""
        return _FrontTools(self, behind)

    def program_of(self, agent: Slug) -> AcpProgram | None:
        """The program that an agent is now; None for an agent that a model answers for."""
        return self._app.current.now.programs.get(agent)

    async def step(self, program: AcpProgram, request: ModelRequest, on_text: OnText) -> ModelStep:
        """A step of a run whose agent is a program, within the time that it has.

        Raises:
            ModelUnavailable: it cannot be started, has ended, or its time is up.
            ModelRefused: it answers with an error, or it is asked outside of a run.
        """
        if not request.run or not request.conversation:
            raise ModelRefused("this agent is a program, which works in conversations of the daemon alone")
        context = _context_of(request)
        await asyncio.to_thread(_load)
        run = self._run((context.conversation_id, context.run), program, context.agent)
        limit = asyncio.timeout(request.time_left)
        try:
            async with limit:
                return await run.step(request, context, on_text)
        except asyncio.CancelledError:
            run.interrupted(request)
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ModelUnavailable("its program has not come to an end in time") from error

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """A call of one of the two tools."""
        run = self._runs.get((context.conversation_id, context.run))
        if name == CALL:
            if run is None:
                return ToolResult(ok=False, content="unknown: the program's process is gone; check before repeating")
            return await run.see_call(context)
        if run is None:
            program = self.program_of(context.agent)
            if program is None:
                return ToolResult(ok=False, content=f"Not done: {context.agent} is no program any more.")
            await asyncio.to_thread(_load)
            run = self._run((context.conversation_id, context.run), program, context.agent)
        entries, tools = self._of_run(context)
        return await run.allow(arguments, context, entries, tools)

    # ---- the runs ----

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """End the processes of runs that have ended (`core.ports.Observer`)."""
        ended = {record.run for record in records if isinstance(record, RunEnded)}
        there = conversation.work.runs
        for key in [key for key in self._runs if key[0] == conversation.id]:
            if key[1] in there:
                self._open.add(key)
            elif key[1] in ended or key in self._open:  # a step may begin before its run is durable
                self._end(key)

    async def close(self) -> None:
        """End all of them, as the daemon does."""
        for key in list(self._runs):
            self._end(key)
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def forget_homes(self) -> None:
        """Remove the home folders of conversations that are gone."""
        await asyncio.to_thread(_forget_homes, self._top, self._app.places.conversations)

    @property
    def _top(self) -> Path:
        return self._app.places.data / FOLDER

    def _run(self, key: _Key, program: AcpProgram, agent: Slug) -> AgentRun:
        if key not in self._runs:
            parts = self._app.current.now.parts
            if parts.programs is None:
                raise ModelUnavailable(
                    "its program runs in the sandbox only, and programs are switched off here", needs_operator=True
                )
            from .session import Session

            member = self._app.policy.roster.get(agent)
            self._runs[key] = AgentRun(
                program=program,
                is_expert=member is not None and member.kind is AgentKind.EXPERT,
                folder=self._top / key[0] / agent,
                launcher=Launcher(programs=parts.programs),
                new_session=partial(Session, self._app.clock),
                new_changes=partial(Changes, parts.workspace, parts.checkpoints),
                open_links=self._open_links,
                tools=self._tools,
            )
        return self._runs[key]

    async def _open_links(
        self, shared: SharedNamespaces, context: ExecutionContext, tools: Sequence[ToolSpec], run: AgentRun
    ) -> "Links":
        from .links import open_links

        return await open_links(self._app, shared, run.program, context, tools, run.ask_tool)

    def _of_run(self, context: ExecutionContext) -> tuple[Sequence[Entry], Sequence[ToolSpec]]:
        """The entries of a run as they are now, and the tools that it is offered."""
        conversation = self._app.coordinator.conversation(context.conversation_id)
        run = conversation.work.runs.get(context.run) if conversation is not None else None
        if conversation is None or run is None:
            return (), ()
        current = self._app.current
        return run.entries, offered(conversation, run, self._app.policy, current.specs)

    def _end(self, key: _Key) -> None:
        run = self._runs.pop(key)
        self._open.discard(key)
        task = asyncio.create_task(run.end(), name=f"end of acp agent {key[1]}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        self._app.static.background.add_ending(task)


class _FrontModel:
    def __init__(self, agents: AcpAgents, behind: Model) -> None:
        self._agents = agents
        self._behind = behind

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """A step of the program, or of the model behind."""
        program = self._agents.program_of(request.agent) if request.purpose == "work" else None
        if program is None:
            return await self._behind.step(request, on_text)
        return await self._agents.step(program, request, on_text)


class _FrontTools:
    def __init__(self, agents: AcpAgents, behind: Tools) -> None:
        self._agents = agents
        self._behind = behind

    def specs(self, phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        """What the tools behind offer."""
        return self._behind.specs(phase, agent)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Carry out a call of the two tools here, every other one behind."""
        if name in NAMES:
            return await self._agents.call(name, arguments, context)
        return await self._behind.call(name, arguments, context)


def _context_of(request: ModelRequest) -> ExecutionContext:
    return ExecutionContext(
        conversation_id=ConversationId(request.conversation),
        cycle=request.cycle,
        turn=request.turn,
        phase=Phase(request.phase),
        previous_phase=None,
        handoff=None,
        agent=request.agent,
        idempotency_key=request.idempotency_key,
        call_id=CallId(""),
        run=RunId(request.run),
        author=PublicKey(request.person) if request.person else None,
    )


def _load() -> None:
    """Load what takes a second or two, which most daemons do not need; blocks."""
    for module in (".links", ".session"):
        import_module(module, __package__)
    import_module("tenex.llm.messages")


def _forget_homes(top: Path, conversations: Path) -> None:
    if not top.is_dir():
        return
    for folder in top.iterdir():
        if not (conversations / folder.name).exists():
            clear_away(folder)
