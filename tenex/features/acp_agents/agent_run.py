"""A run whose agent is a program: its steps are what the program does, as far as something has to be recorded.

    step ──► the program is prompted ──► text, calls, requests, calls of our tools, the end of its turn
                                            │
      what is recorded first ◄──────────────┘ a step with one call; its result is what the next step answers with

What a step holds (one call at most):

- A call that the program has begun by itself: `acp_call`, which waits for its end. It never asks.
- A request for permission: `acp_permission`, about which the core asks a person. The call answers yes; a refusal is in
  the entries of the next step, which answers no.
- A call of a tool of ours over MCP: a call of that tool, whose result the next step gives back.
- The end of its turn: the text, with `complete` where the program has called that. Where somebody has written
  meanwhile, or refused something with a reason, the program is prompted with it first.

A step that was returned and never recorded (the store failed) is returned again: its key is the same. After a restart
the process is gone: the session is resumed by the id that the newest step holds, or by the note beside the home folder
where there is no step yet.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenex.core.approvals.decide import digest_of
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId
from tenex.core.messages import NO_USAGE, CallRequest, CallResult, Entry, ModelRequest, ModelStep, ToolSpec, Usage
from tenex.core.phases import PHASES, Access, Phase
from tenex.core.ports import ExecutionContext, OnText, ToolResult
from tenex.log import get_logger
from tenex.prompting.agents import AcpProgram
from tenex.tools.shared_namespaces import SharedNamespaces
from tenex.tools.tool import Refusal, Tool

from . import prompts
from .changes import Changes
from .launch import AgentProcess, Launcher, begin_of, is_in_workspace, may_change
from .run_session import CallBegun, CallOver, Item, RunSession, ToolAsked
from .session_events import CallSeen, Died, PermissionAsked, PromptEnded, PromptFailed, TextPiece
from .tools import CALL, PERMISSION, asked_arguments, is_own_tool, seen_arguments

if TYPE_CHECKING:
    from .links import Links
    from .session import Session

NOTE: Final = "session.json"
"""The file beside the home folder that names the session of a run which has no step yet."""

OVER_LIMIT: Final = "what is left of a limit of tokens or money does not cover the next request of its model"

NO_ANSWER: Final = (
    "its program asked for permissions, of which {} allows none, and gave no answer; write `phases` in its file"
)
"""The program reads it, as a model reads why an answer was refused, before a person does."""

VENDOR: Final = "acp"
"""The key under which a step holds its session."""

MOST_OUTPUT: Final = 20_000
"""Characters of what a call gave that are recorded: the program has read it, and people look at its end."""

REQUEST_WITHIN: Final = 0.3
"""Seconds until the request about a call that asks first: agents send it within some ms."""

_log = get_logger(__name__)


NewSession = Callable[[], "Session"]
"""Makes what speaks the protocol with one process."""

OpenLinks = Callable[[SharedNamespaces, ExecutionContext, Sequence[ToolSpec], "AgentRun"], Awaitable["Links"]]


@dataclass(slots=True, eq=False, kw_only=True)
class AgentRun:
    """One run of an agent that is a program. Belongs to one event loop."""

    program: AcpProgram
    is_expert: bool
    folder: Path
    """Of the agent in its conversation: its home folder and the note are in it."""
    launcher: Launcher
    new_session: NewSession
    new_changes: Callable[[], Changes]
    open_links: OpenLinks
    tools: Mapping[str, Tool]
    """Those of `tools.py`, by name."""
    session: RunSession | None = None
    live: "Session | None" = None
    process: AgentProcess | None = None
    links: "Links | None" = None
    changes: Changes | None = None
    has_ended: bool = False
    text: str = ""
    thoughts: str = ""
    is_finishing: bool = False
    """Whether the program's turn has ended, and the run has not been given its end."""
    completion: Mapping[str, Any] | None = None
    prompted: int = 0
    """How many texts of the entries the program has been prompted with."""
    has_refused: bool = False
    """Whether a request was refused because the phase has no calls."""
    remarks: list[str] = field(default_factory=list)
    """What the next prompt says besides."""
    remarked: set[str] = field(default_factory=set)
    asked: dict[CallId, PermissionAsked | ToolAsked] = field(default_factory=dict)
    """What the program waits for, by the calls of the run that are about it."""
    seen: dict[CallId, str] = field(default_factory=dict)
    """Which call of the program a call of the run shows; "" for none of them."""
    newest: tuple[str, ModelStep] | None = None
    """The newest step that was returned, by the key of its request."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    # ---- the steps ----

    async def step(self, request: ModelRequest, context: ExecutionContext, on_text: OnText) -> ModelStep:
        """Go on until something has to be recorded.

        Raises:
            ModelUnavailable: the process cannot be started, has ended or does not answer.
            ModelRefused: the program answers with an error.
        """
        if self.newest is not None and self.newest[0] == request.idempotency_key:
            return self.newest[1]
        await self._answer(request)
        if self.session is None or not self.session.is_alive:
            await self._start_and_prompt(request, context)
        elif not self.session.is_prompting and not self.is_finishing:
            await self._prompt_with_news(request)
        assert self.session is not None, "it was started"
        while True:
            if self.links is not None and self.links.is_over_limit:
                raise ModelRefused(OVER_LIMIT, self._taken(), model=self._model_name())
            if self.is_finishing:
                step = await self._end_of_turn(request, context)
                if step is not None:
                    return step
                continue
            item = await self.session.peek()
            if isinstance(item, CallBegun):
                await self.session.request_within(item.id, REQUEST_WITHIN)
            step = await self._step_of(item, self.session, request, on_text)
            if step is not None:
                return step

    async def _step_of(
        self, item: Item, session: RunSession, request: ModelRequest, on_text: OnText
    ) -> ModelStep | None:
        """The step that an item makes; None where nothing has to be recorded yet."""
        session.take()
        match item:
            case TextPiece():
                if item.is_thought:
                    self.thoughts += item.text
                else:
                    self.text += item.text
                    on_text(self.text)
            case CallBegun():
                # of a call that asks, the request is recorded; and no phase of talk has calls
                if session.permission_for(item.id) is None and self._is_recorded(request, session.calls[item.id]):
                    return self._seen_step(request, item.id)
            case CallOver():
                if self._is_recorded(request, session.calls[item.id]):
                    return self._seen_step(request, item.id)
            case PermissionAsked():
                return await self._permission_step(request, session, item)
            case ToolAsked():
                return self._tool_step(request, item)
            case PromptEnded():
                session.is_prompting = False
                self.is_finishing = True
                _log.debug("acp.turn_ended", reason=item.stop_reason)
            case _:
                session.is_prompting = False
                raise self._fault(item)
        return None

    def _fault(self, item: PromptFailed | Died) -> ModelUnavailable | ModelRefused:
        """What a step raises where the program has given no answer."""
        usage = self._taken()
        if isinstance(item, Died):
            return ModelUnavailable(f"its program has ended: {item.why}", usage=usage, model=self._model_name())
        why = f"its program answers with an error: {item.why}"
        if item.needs_login:
            return ModelUnavailable(f"{why}; log in with its own command first", usage=usage, needs_operator=True)
        return ModelRefused(why, usage, model=self._model_name())

    async def _permission_step(
        self, request: ModelRequest, session: RunSession, item: PermissionAsked
    ) -> ModelStep | None:
        if is_own_tool(item.call, [tool.name for tool in request.tools]):
            await session.live.allow(item)  # the core judges it when it is called
            return None
        if not self._records_calls(request) or not item.can_be_allowed:
            self.has_refused = not self._records_calls(request)
            await session.live.refuse(item)
            return None
        id_ = self._id(request, item.call.id)
        self.asked[id_] = item
        return self._step(request, CallRequest(id=id_, tool=PERMISSION, arguments=asked_arguments(item)))

    def _tool_step(self, request: ModelRequest, item: ToolAsked) -> ModelStep | None:
        if item.name == "complete":
            # what it says counts once its turn has ended: the run ends with it, and the process with the run
            self.completion = item.arguments
            result = CallResult(id=CallId(""), tool=item.name, ok=True, content=prompts.COMPLETED)
            if not item.answer.done():
                item.answer.set_result(result)
            return None
        id_ = self._id(request, item.name)
        self.asked[id_] = item
        return self._step(request, CallRequest(id=id_, tool=item.name, arguments=item.arguments))

    async def _end_of_turn(self, request: ModelRequest, context: ExecutionContext) -> ModelStep | None:
        """The last step; None where the program was prompted again."""
        assert self.session is not None, "its turn has ended"
        if self._has_news(request):
            self.is_finishing = False
            self.text = f"{self.text.rstrip()}\n\n" if self.text.strip() else ""
            await self._prompt_with_news(request)
            return None
        if self.changes is not None and await self.changes.has_more(context):
            id_ = self._id(request, "rest")
            self.seen[id_] = ""
            arguments = {"kind": "other", "title": "what it has changed outside of its calls"}
            return self._step(request, CallRequest(id=id_, tool=CALL, arguments=arguments))
        self.is_finishing = False
        if self.completion is None:
            if self.has_refused and not self.text.strip():  # some programs end their turn at a refusal
                raise ModelRefused(NO_ANSWER.format(request.phase), self._taken(), model=self._model_name())
            return self._step(request)
        completion = CallRequest(id=self._id(request, "complete"), tool="complete", arguments=self.completion)
        self.completion = None
        return self._step(request, completion)

    def _seen_step(self, request: ModelRequest, call: str) -> ModelStep:
        assert self.session is not None, "a call of it was seen"
        id_ = self._id(request, call)
        self.seen[id_] = call
        return self._step(request, CallRequest(id=id_, tool=CALL, arguments=seen_arguments(self.session.calls[call])))

    def _step(self, request: ModelRequest, *calls: CallRequest) -> ModelStep:
        usage = self._taken()
        step = ModelStep(
            text=self.text.strip(),
            thinking=self.thoughts,
            calls=calls,
            model=self._model_name(),
            usage=usage,
            vendor={VENDOR: self._told()},
        )
        self.text = ""
        self.thoughts = ""
        self.newest = (request.idempotency_key, step)
        return step

    def _told(self) -> dict[str, Any]:
        """What a step holds of the session: enough to go on with it."""
        assert self.session is not None, "it has begun"
        facts = self.session.facts
        told = {"session": facts.session_id, "program": facts.program, "version": facts.version}
        return {**told, "mode": self.session.mode, "prompted": self.prompted}

    def _is_recorded(self, request: ModelRequest, call: CallSeen) -> bool:
        """Whether a call that the program makes by itself becomes a call of the run."""
        is_own = is_own_tool(call, [tool.name for tool in request.tools])
        return not is_own and self._records_calls(request)

    def _records_calls(self, request: ModelRequest) -> bool:
        """Whether the phase has calls: where agents only talk, the program can only read, and nothing is asked."""
        return Access.READ in PHASES[Phase(request.phase)].access

    def _model_name(self) -> str:
        if self.links is not None and self.links.models:
            return ", ".join(self.links.models)
        facts = self.session.facts if self.session is not None else None
        return " ".join(filter(None, (facts.program, facts.version))) if facts is not None else ""

    def _taken(self) -> Usage:
        return self.links.taken() if self.links is not None else NO_USAGE

    def _id(self, request: ModelRequest, base: str) -> CallId:
        """An id of a call that no call of the run has."""
        used = {call.id for entry in request.entries if isinstance(entry, ModelStep) for call in entry.calls}
        used |= {*self.asked, *self.seen}
        number = 1
        while (id_ := CallId(f"{base[:60]}-{number}")) in used:
            number += 1
        return id_

    # ---- what was answered since ----

    async def _answer(self, request: ModelRequest) -> None:
        """Give the program the results that it waits for, and the refusals."""
        for entry in prompts.since_newest_step(request.entries):
            if not isinstance(entry, CallResult):
                continue
            waiting = self.asked.pop(entry.id, None)
            match waiting:
                case ToolAsked():
                    if not waiting.answer.done():
                        waiting.answer.set_result(entry)
                case PermissionAsked():
                    self._remark(entry.content)
                    if self.session is not None and self.session.is_alive:
                        await self.session.live.refuse(waiting)
                case None if entry.tool == "complete" and not entry.ok:
                    self._remark(entry.content)

    def _remark(self, sentence: str) -> None:
        """Have the next prompt say something, once in the run: a program that asks again and again goes round."""
        if sentence not in self.remarked:
            self.remarked.add(sentence)
            self.remarks.append(sentence)

    def _has_news(self, request: ModelRequest) -> bool:
        return bool(self.remarks) or len(prompts.texts_of(request.entries)) > self.prompted

    async def _prompt_with_news(self, request: ModelRequest) -> None:
        """Prompt the program with what was written since its last prompt."""
        assert self.session is not None, "it is alive"
        texts = prompts.texts_of(request.entries)
        said = prompts.going_on(texts[self.prompted :], self.remarks)
        await self.session.prompt(said or "Go on.")
        self.prompted = len(texts)
        self.remarks.clear()

    # ---- the process ----

    async def _start_and_prompt(self, request: ModelRequest, context: ExecutionContext) -> None:
        known = _known(request.entries) or self._noted(context)
        await self._start(context, request.tools, str(known.get("session", "")))
        assert self.session is not None, "it was started"
        texts = prompts.texts_of(request.entries)
        names = [tool.name for tool in request.tools if tool.name not in self.tools]
        can_write = may_change(context, is_expert=self.is_expert)
        text = prompts.opening(request.system, request.entries, names, request.phase, can_write=can_write)
        if known:
            told = int(known.get("prompted", 0))
            results = [e for e in prompts.since_newest_step(request.entries) if isinstance(e, CallResult)]
            is_same = self.session.facts.how != "new"
            text = prompts.resumed([*results, *texts[told:]], is_same_session=is_same, opening_text=text)
        self._note(context)
        await self.session.prompt(text)
        self.prompted = len(texts)
        self.remarks.clear()

    async def _start(self, context: ExecutionContext, tools: Sequence[ToolSpec], session: str) -> None:
        """Start a process and begin or resume a session in it.

        Raises:
            ModelUnavailable: that is not possible now; nothing runs then.
        """
        async with self.starting:
            await self._end_process()
            home = self.folder / "home"
            try:
                await asyncio.to_thread(home.mkdir, mode=0o700, parents=True, exist_ok=True)
                shared = await self.launcher.share_network(context)
                offered = [tool for tool in tools if tool.name not in self.tools]
                links = self.links = await self.open_links(shared, context, offered, self)
                if is_in_workspace(context, is_expert=self.is_expert):
                    self.changes = self.new_changes()
                    await self.changes.begin(context)
                witness = self.changes.witness if self.changes is not None else None
                self.process = await self.launcher.start(
                    self.program,
                    context,
                    home,
                    links.addresses,
                    links.variables,
                    witness,
                    is_expert=self.is_expert,
                )
                self.live = self.new_session()
                root = str(self.launcher.programs.workspace.root)
                begin = begin_of(self.program, root, links.mcp_servers, session)
                facts = await self.live.begin(self.process, begin)
            except (Refusal, OSError) as error:
                await self._end_process()
                raise ModelUnavailable(f"its program cannot be started: {error}", needs_operator=True) from error
            except BaseException:
                await self._end_process()
                raise
            self.session = RunSession(self.live, self.process, facts)
            _log.info("acp.session", agent=context.agent, how=facts.how, program=facts.program, version=facts.version)

    def interrupted(self, request: ModelRequest) -> None:
        """Report what a step has cost that is cancelled."""
        usage = self._taken()
        request.on_cancelled(usage, self._model_name())

    async def ask_tool(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        """Have a tool of ours called by the run, for the program that waits for its result."""
        if self.session is None:
            return CallResult(id=CallId(""), tool=name, ok=False, content="Not called: the session has not begun.")
        return await self.session.ask_tool(name, arguments)

    async def end(self) -> None:
        """End the process with all that it has started; a second call does nothing."""
        self.has_ended = True
        async with self.starting:
            await self._end_process()

    async def _end_process(self) -> None:
        session, process, links, changes = self.session, self.process, self.links, self.changes
        self.session = self.process = self.links = self.changes = self.live = None
        self.is_finishing = False
        for waiting in self.asked.values():
            if isinstance(waiting, ToolAsked):
                waiting.answer.cancel()
        self.asked.clear()
        self.seen.clear()
        try:
            if session is not None:
                await session.end()
        finally:
            if process is not None:
                process.kill()
                await process.wait()
            if links is not None:
                await links.close()
            if changes is not None:
                changes.close()

    def _note(self, context: ExecutionContext) -> None:
        """Note the session of this run, before its first prompt."""
        assert self.session is not None, "it has begun"
        written = {"run": context.run, "session": self.session.facts.session_id}
        with suppress(OSError):  # without it a kill before the first step begins a new session
            (self.folder / NOTE).write_text(json.dumps(written), "utf-8")

    def _noted(self, context: ExecutionContext) -> Mapping[str, Any]:
        try:
            written = json.loads((self.folder / NOTE).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return written if isinstance(written, dict) and written.get("run") == context.run else {}

    # ---- the calls ----

    async def see_call(self, context: ExecutionContext) -> ToolResult:
        """Wait for the end of a call of the program that a step has reported."""
        session = self.session
        call = self.seen.pop(context.call_id, None)
        if session is None or call is None:
            return ToolResult(ok=False, content="unknown: the program's session has ended; check before repeating")
        return await self._ended(session, call, CALL, context)

    async def allow(
        self,
        arguments: Mapping[str, Any],
        context: ExecutionContext,
        entries: Sequence[Entry],
        tools: Sequence[ToolSpec],
    ) -> ToolResult:
        """Answer yes, once, to what a person or a rule has allowed, and wait for the end of its call."""
        session = self.session
        asked = self.asked.pop(context.call_id, None)
        if session is None or not session.is_alive:
            return await self._allow_later(arguments, context, entries, tools)
        if not isinstance(asked, PermissionAsked) or not await session.live.allow(asked):
            return ToolResult(ok=False, content="Not done: the program no longer waits for this. Nothing was allowed.")
        return await self._ended(session, asked.call.id, PERMISSION, context)

    async def _allow_later(
        self,
        arguments: Mapping[str, Any],
        context: ExecutionContext,
        entries: Sequence[Entry],
        tools: Sequence[ToolSpec],
    ) -> ToolResult:
        """Resume the session, and answer yes once if the program asks for exactly the same again."""
        known = _known(entries) or self._noted(context)
        try:
            await self._start(context, tools, str(known.get("session", "")))
        except ModelUnavailable as error:
            return ToolResult(ok=False, content=f"Not done: {error}")
        session = self.session
        assert session is not None, "it was started"
        self.prompted = int(known.get("prompted", 0))
        await session.prompt(prompts.allowed_later(arguments))
        digest = digest_of(PERMISSION, arguments)
        while True:
            item = await session.peek()
            if isinstance(item, PermissionAsked) and digest_of(PERMISSION, asked_arguments(item)) == digest:
                session.take()
                if await session.live.allow(item):
                    return await self._ended(session, item.call.id, PERMISSION, context)
            if isinstance(item, TextPiece):
                session.take()
                self.text += "" if item.is_thought else item.text
            elif isinstance(item, CallBegun):
                session.take()  # the request follows, or it is in the checkpoint of the next call
            else:
                said = "Allowed, and the program did not ask for it again after its restart. Nothing was allowed."
                return ToolResult(ok=False, content=said)

    async def _ended(self, session: RunSession, call: str, tool: str, context: ExecutionContext) -> ToolResult:
        """The result of a call of the program, once it has ended or has to wait for a step."""
        if call and not await session.call_ended(call):
            shown = session.calls[call]
            return ToolResult(ok=True, content=f"It goes on: {shown.title or shown.kind}.")
        result = _result(session, call)
        if self.changes is not None:
            result = await self.changes.of_call(self.tools[tool], context, result)
        return result


def _result(session: RunSession, call: str) -> ToolResult:
    seen = session.calls.get(call)
    if seen is None:
        return ToolResult(ok=True, content="It has ended.")
    said = seen.output if len(seen.output) <= MOST_OUTPUT else f"[Cut.]\n{seen.output[-MOST_OUTPUT:]}"
    if not seen.has_ended:
        return ToolResult(ok=False, content=f"The program has not said how this ended. {said}".strip())
    return ToolResult(ok=seen.status == "completed", content=said or f"It has ended: {seen.status}.")


def _known(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """What the newest step holds of its session."""
    for entry in reversed(entries):
        if isinstance(entry, ModelStep) and isinstance(entry.vendor, Mapping) and VENDOR in entry.vendor:
            found: Mapping[str, Any] = entry.vendor[VENDOR]
            return found
    return {}
