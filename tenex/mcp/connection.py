"""One server: kept running by a task of its own, called from any other.

The owner task is the only one that enters and leaves the SDK's client. It has to be one task, because the client's
scopes must be left by who entered them; and its own, because the client for HTTP cancels who entered it when the
connection breaks.

    starting ──ready──► ready ──lost──► waiting ──► starting ...
        └──────failed─────────────────────┘

A call waits for "ready", in bounded time, and is made in the task of its caller. The end of a program is seen at once,
that of a server at an address by the first call. A call that finds the connection gone, or gets no answer to a call
and to a question after it, marks this generation of it as lost: the owner leaves the client, pauses, and enters a new
one. The pauses grow while starts fail. A caller that waits cuts a long pause short.

In the protocols before 2026-07-28 a server asks a person while its call waits, so a call has a task of its own there
(`exchanges`); to its caller the question looks as in that of 2026-07-28: as a result, and the call is made again.

A server that ended keeps its tools listed, for they are in prompts and requests of work that goes on; the list is
replaced when it has started again, or says that it has changed. In the protocol of 2026-07-28 it says so only to who
listens, so a task beside the owner does.

What a server sends is limited (`limits`) and has its secrets taken out (`hidden`) before it is in any sentence.
"""

import asyncio
import importlib.metadata
import json
import logging
import math
import random
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from tenex.core.backoff import Backoff
from tenex.core.errors import RemoteError, TenexError, TransientError
from tenex.core.installation import DISTRIBUTION
from tenex.core.messages import cut
from tenex.core.text.foreign import printable
from tenex.log import get_logger

from .config import ServerConfig
from .exchanges import HELD, Exchange, Exchanges, call_key
from .limits import (
    EXCEEDED,
    LARGEST_LIST,
    LARGEST_LISTS,
    MOST_MESSAGES,
    MOST_PAGES,
    MOST_TOOLS,
    TOO_LARGE,
    TOO_LONG_LIST,
    TOO_MANY_LISTS,
    TOO_MANY_PAGES,
    TOO_MANY_TOOLS,
    LimitExceeded,
    Rate,
)
from .schemas import Unusable, parameters_of
from .screening import screened
from .stdio import ErrorOutput, Program, stdio_transport

START: Final = 30.0
"""Seconds a server has to answer its first questions: some install themselves first."""
READY: Final = 15.0
"""Seconds a call waits for a server that is starting."""
ANSWERS: Final = 2.0
"""Seconds a server has to answer a question after a call without an answer: a frozen one does not."""
FIRST_PAUSE: Final = 0.5
MOST_PAUSE: Final = 60.0
LEAST_PAUSE: Final = 0.1
PATIENCE: Final = 5.0
"""Seconds of a pause that no caller can cut short: a server that cannot start must not be started without end."""
STABLE: Final = 60.0
"""Seconds after which a server that ends counts as one that has worked."""
WRITTEN: Final = 30.0
"""Seconds that a call may take beyond its timeout, which begins once it was written."""
AGAIN: Final = 5.0
"""Seconds between two readings of a list of tools that changes: a server may say so without end."""
CANCELLATIONS: Final = 50
"""Of the task that listens for changes, each after a moment."""
MOST_REASON: Final = 300
MOST_ABOUT: Final = 900
"""Characters of a description behind which a schema stands in words."""
MOST_NAME: Final = 80
"""Characters of the name of a tool that is left out."""

_CLOSED: Final = -32000
_TIMED_OUT: Final = -32001
_NO_METHOD: Final = -32601
_NO_REQUEST: Final = -32600
_LISTENING: Final = "2026-07-28"
"""The first protocol in which a server says what has changed only to who listens."""
_LIST_CHANGED: Final = "notifications/tools/list_changed"
_ADDRESS: Final = re.compile(r"https?://[^\s'\"]+")
_VALUE: Final = re.compile(r", input_value=.*?, input_type=\w+")
"""What pydantic shows of what it refuses, cut in its middle, so that a secret in it would not be recognised."""
_INSTALL: Final = "set network = true, or install the server and name its program"
_RESTARTED: Final = "it is started again"
_SILENT: Final = "it did not answer any more"
_QUESTION: Final = "question"
"""The key of a question that has none."""
_WHOSE: Final = "It cannot be seen whose question this is: several calls are under way, or none. Ask in a single one."

log = get_logger(__name__)

Launch = Callable[[ServerConfig], Program]
"""What is started for a server; blocks. Raises TenexError where it may not be."""


class ServerLost(TransientError):
    """The connection broke while a call was under way: whether it was carried out is not known."""


class ServerUnavailable(TransientError):
    """The server does not run now; nothing was sent to it."""


class CallFailed(RemoteError):
    """The server answered with an error, or with what is no answer."""


class CallTimedOut(TransientError):
    """The server did not answer a call in time: whether it was carried out is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """What it takes, as models and the validator of calls have it (`schemas`)."""
    reads_only: bool = False
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a person to a question of a server."""

    key: str
    values: Mapping[str, Any] | None
    """By field; None where the person declines."""
    state: str | None
    """What the server wants back with it."""

    def responses(self) -> dict[str, Any]:
        """As the SDK takes it."""
        types = import_module("mcp_types")
        if self.values is None:
            return {self.key: types.ElicitResult(action="decline")}
        return {self.key: types.ElicitResult(action="accept", content=dict(self.values) or None)}


@dataclass(slots=True, kw_only=True)
class Counters:
    """What has happened to a server since the daemon started."""

    starts: int = 0
    losses: int = 0
    """Times that its connection broke, or that it could not be started."""
    calls: int = 0
    failures: int = 0
    """Calls without an answer."""


class ServerConnection:
    """A server, its tools and its calls."""

    def __init__(
        self,
        config: ServerConfig,
        launch: Launch,
        on_tools: Callable[[], None],
        *,
        draw: Callable[[float, float], float] = random.uniform,
        start: float = START,
        ready: float = READY,
        again: float = AGAIN,
    ) -> None:
        """Take what is configured; `run` starts it. `on_tools` is called when the tools have changed."""
        self.config = config
        self.counters = Counters()
        self.tools: tuple[ServerTool, ...] = ()
        self.state = "starting"
        """`starting`, `ready`, `waiting` for its next start, or `stopped`."""
        self.why = ""
        """Why it does not run, or ended last."""
        self.remark = ""
        """What is left out of a server that runs; "" for nothing."""
        self.left_out: Mapping[str, str] = {}
        """Its tools that cannot be used, and why."""
        self.protocol = ""
        self.is_settled = asyncio.Event()
        """Set once it was ready, or a start has failed."""
        self._launch = launch
        self._unlisted: dict[str, str] = {}
        """The tools that the list which is being read holds in a form that the protocol does not permit."""
        self._on_tools = on_tools
        self._backoff = Backoff(FIRST_PAUSE, MOST_PAUSE, draw)
        self._start = start
        self._patience = ready
        self._again = again
        self._client: Any = None
        self._program: Program | None = None
        self._exceeded = EXCEEDED
        """The reasons for which this generation is ended by us."""
        self._generation = 0
        self._is_ready = asyncio.Event()
        self._attention = asyncio.Event()
        """Set where the owner has something to do: the connection is lost, or the list has changed."""
        self._lost_why = ""
        self._is_lost = asyncio.Event()
        self._is_restarting = False
        """Whether this generation is ended so that the next one begins at once."""
        self._is_stopping = False
        self._is_ended = False
        """Whether the owner was cancelled by who started it."""
        self._listed = 0
        """Bytes of the lists of tools that this generation has sent."""
        self._wanted = asyncio.Event()
        """Set by a caller that waits."""
        # the stream at an address in which a call waits has an end, which comes soon after that of the call
        self._exchanges = Exchanges(timeout=config.timeout, held=HELD if config.is_program else None)

    # ---- the owner ----

    async def run(self) -> None:
        """Keep the server running until cancelled; raises nothing else."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                self.state = "starting"
                self._generation += 1
                why = await self._live()
                if self._is_restarting:
                    self._is_restarting = False
                    log.info("mcp.server_restarted", server=self.config.name)
                    continue
                if why != self.why:  # one that cannot start is named once, and not at each try
                    log.warning("mcp.server_lost", server=self.config.name, reason=why)
                self.why = why
                self.state = "waiting"
                self.counters.losses += 1
                self.is_settled.set()
                if loop.time() - began > STABLE:
                    self._backoff.reset()
                await self._pause(max(LEAST_PAUSE, self._backoff.next()))
        finally:
            self.state = "stopped"
            self.is_settled.set()

    def stop(self, owner: asyncio.Task[None]) -> None:
        """Cancel the owner, which is the task of `run`: also where a scope that it leaves takes that for its own."""
        self._is_stopping = True
        owner.cancel()

    async def _pause(self, seconds: float) -> None:
        self._wanted.clear()
        await asyncio.sleep(min(seconds, PATIENCE))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - PATIENCE)):
                await self._wanted.wait()

    async def _live(self) -> str:
        """Start the server and keep it until its connection is lost; returns why it was."""
        errors = ErrorOutput(self.config.hidden)
        self._lost_why = ""
        self._listed = 0
        self._attention.clear()
        self._is_lost.clear()
        reason = ""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start):
                    client = await self._enter(stack, errors)
                    tools = await self._list(client)
                self._publish(client, tools)
                await self._attend(client)
        except TimeoutError:
            reason = f"it did not answer within {self._start:g} s"
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            reason = "its connection ended"
        except (Exception, BaseExceptionGroup) as error:  # whatever a server does, it is started again
            if _is_cancelled():
                raise
            reason = self._reason(error)
            if reason == _SILENT and self._client is None:
                reason = f"it did not answer within {self._start:g} s"
        finally:
            self._client = None
            self._is_ready.clear()
            self._exchanges.end()
        if self._is_ended or self._is_stopping:  # the scopes that were left have taken the cancellation for theirs
            raise asyncio.CancelledError
        reason = self._lost_why or reason
        if self.config.cannot_install and not self.tools:
            reason = f"{reason}; {self.config.command} has no network to install it from: {_INSTALL}"
        elif errors.last_line:
            reason = f"{reason}: {errors.last_line}"
        return printable(self.config.hidden(reason))[:MOST_REASON]

    async def _enter(self, stack: AsyncExitStack, errors: ErrorOutput) -> Any:
        config = self.config
        generation = self._generation
        rate = Rate(MOST_MESSAGES)

        def on_end(why: str) -> None:
            self._lose(generation, why)

        sdk = await asyncio.to_thread(import_module, "mcp.client")
        types = await asyncio.to_thread(import_module, "mcp_types")
        _silence_sdk()
        program = None
        if config.is_program:
            program = await self._launched()
            stack.callback(program.release)
            self._exceeded = EXCEEDED.union(program.exceeded.values())
            transport: Any = stdio_transport(program, errors, rate, on_end)
        else:
            from .http import http_transport  # with the SDK, which is there now

            transport = http_transport(config, rate, on_end)
        client = sdk.Client(
            screened(transport, self._unlisted.__setitem__),
            read_timeout_seconds=self._start,
            client_info=types.Implementation(name="tenex", version=_own_version()),
            message_handler=self._on_message,
            elicitation_callback=self._on_question,
            cache=None,
        )
        entered = await stack.enter_async_context(client)
        # a model needs no check by the schema of a server, whose expressions may take for ever
        entered.session.validate_tool_result = _take_as_it_is
        self._program = program
        stack.callback(self._forget_program)  # before it is ended
        return entered

    async def _launched(self) -> Program:
        """What is started; it is released where no task waits for it any more."""
        launching = asyncio.create_task(
            asyncio.to_thread(self._launch, self.config), name=f"launch of the MCP server {self.config.name}"
        )
        try:
            return await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(_release)
            raise

    def _forget_program(self) -> None:
        self._program = None

    def _publish(self, client: Any, tools: tuple[ServerTool, ...]) -> None:
        self._client = client
        self.protocol = str(client.protocol_version)
        self.state = "ready"
        self.why = ""
        self.counters.starts += 1
        self._take(tools)
        self._is_ready.set()
        self.is_settled.set()
        log.info("mcp.server_ready", server=self.config.name, tools=len(tools), protocol=self.protocol)

    async def _attend(self, client: Any) -> None:
        """Return once the connection is lost; until then read the list of tools again where it has changed."""
        listener = asyncio.create_task(self._listen(client), name=f"changes of the MCP server {self.config.name}")
        try:
            while not self._lost_why:
                await self._attention.wait()
                self._attention.clear()
                if self._is_lost.is_set():
                    return
                async with asyncio.timeout(self._start):
                    tools = await self._list(client)
                self._take(tools)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._again):
                        await self._is_lost.wait()
        except asyncio.CancelledError as error:
            self._is_ended = not _is_of_scope(error)
            raise
        finally:
            await _end(listener)

    async def _listen(self, client: Any) -> None:
        """Have a server of the newest protocol say when its tools change; the changes come as messages."""
        if self.protocol < _LISTENING:
            return
        pauses = Backoff(self._again, MOST_PAUSE)
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._attention.set()  # it may have changed before
                    async for _ in changes:
                        pauses.reset()
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                return
            except Exception as error:  # noqa: BLE001 - whatever becomes of it, the tools are there
                if getattr(error, "code", None) == _NO_METHOD:
                    return
            await asyncio.sleep(pauses.next())

    async def _list(self, client: Any) -> tuple[ServerTool, ...]:
        """The tools of a server that are wanted; none where it has no list.

        Raises:
            LimitExceeded: there is no end of them.
        """
        chosen = self.config.tools
        self._unlisted.clear()
        tools: list[ServerTool] = []
        unusable: dict[str, str] = {}
        size = 0
        cursor = None
        for _ in range(MOST_PAGES):
            page = await _page(client, cursor)
            if page is None:
                return ()
            size += self._weighed(page)
            if size > LARGEST_LIST:
                raise LimitExceeded(TOO_LONG_LIST)
            for listed in page.tools:
                if chosen and listed.name not in chosen:
                    continue
                try:
                    tools.append(self._tool(listed))
                except Unusable as why:
                    unusable[listed.name] = str(why)
            cursor = page.next_cursor
            if not cursor or len(tools) > MOST_TOOLS:
                unusable |= {name: why for name, why in self._unlisted.items() if not chosen or name in chosen}
                self._remark_on(len(tools), unusable)
                return tuple(tools[:MOST_TOOLS])
        raise LimitExceeded(TOO_MANY_PAGES)

    def _weighed(self, page: Any) -> int:
        """The bytes of the tools on a page.

        Raises:
            LimitExceeded: with those that this generation has sent before they are too many.
        """
        size = sum(map(_size, page.tools))
        self._listed += size
        if self._listed > LARGEST_LISTS:
            raise LimitExceeded(TOO_MANY_LISTS)
        return size

    def _remark_on(self, tools: int, unusable: Mapping[str, str]) -> None:
        before = self.remark
        self.remark = TOO_MANY_TOOLS if tools > MOST_TOOLS else ""
        if self.remark and not before:
            log.warning("mcp.tools_left_out", server=self.config.name, reason=self.remark)
        said = {
            printable(self.config.hidden(name))[:MOST_NAME]: printable(self.config.hidden(why))[:MOST_REASON]
            for name, why in unusable.items()
        }
        for name, why in said.items() - self.left_out.items():
            log.warning("mcp.tool_left_out", server=self.config.name, tool=name, reason=why)
        self.left_out = said

    def _tool(self, listed: Any) -> ServerTool:
        """A tool as its server describes it.

        Raises:
            Unusable: no model can be offered it.
        """
        hints = listed.annotations
        hidden = self.config.hidden
        takes = parameters_of(hidden.in_json(listed.input_schema))
        description = hidden.taken_out(listed.description or listed.title or "")
        if takes.words:
            description = f"{cut(description, MOST_ABOUT)} {takes.words}".strip()
        return ServerTool(
            name=listed.name,
            description=description,
            schema=takes.schema,
            reads_only=bool(hints and hints.read_only_hint),
            is_idempotent=bool(hints and hints.idempotent_hint),
        )

    def _take(self, tools: tuple[ServerTool, ...]) -> None:
        if tools != self.tools:
            self.tools = tools
            self._on_tools()

    async def _on_message(self, message: Any) -> None:
        if getattr(getattr(message, "root", message), "method", "") == _LIST_CHANGED:
            self._attention.set()

    async def _on_question(self, _context: Any, question: Any) -> Any:
        """Answer a question of a server in a protocol before 2026-07-28, once a person has."""
        types = import_module("mcp_types")
        exchange = self._exchanges.only_working()
        if exchange is None:
            return types.ErrorData(code=_NO_REQUEST, message=_WHOSE)
        reply = await exchange.ask(question)
        return types.ElicitResult(action="cancel") if reply is None else reply

    def _lose(self, generation: int, why: str) -> None:
        """Mark a generation of the connection as lost; a later one stays."""
        if generation == self._generation and not self._lost_why:
            self._lost_why = why
            self._client = None
            self._is_ready.clear()
            self._is_lost.set()
            self._attention.set()

    # ---- callers ----

    @property
    def program(self) -> Program | None:
        """The program that answers calls now; None where there is none, or the server is at an address."""
        return self._program if self._client is not None else None

    async def restart(self) -> None:
        """End the server and start it again without a pause; return once it is ready.

        Raises:
            ServerUnavailable: it is not within some seconds.
        """
        if self._client is not None:
            self._is_restarting = True
            self._lose(self._generation, _RESTARTED)
        await self.wait()

    async def wait(self) -> Any:
        """The client, once the server is ready.

        Raises:
            ServerUnavailable: it is not within some seconds.
        """
        try:
            async with asyncio.timeout(self._patience):
                while self._client is None:
                    self._wanted.set()
                    await self._is_ready.wait()
                return self._client
        except TimeoutError as error:
            why = f": {self.why}" if self.why else ""
            raise ServerUnavailable(f"The MCP server {self.config.name} does not run{why}") from error

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        answer: Answer | None = None,
        *,
        holder: str = "",
        goes_on: bool = False,
    ) -> Any:
        """Call a tool; gives the SDK's result, which may be one that asks for input (`questions.needs_input`).

        With an answer it goes on from the result that asked for it.

        Args:
            tool: its name at the server.
            arguments: what it is called with.
            answer: of a person, to what the last result asked.
            holder: for whom it is called; a call that has asked is found again by it, the tool and the arguments.
            goes_on: whether the call has asked before, and is made again with the answer.

        Raises:
            ServerUnavailable: nothing was sent.
            ServerLost: the connection broke; a later call starts on a new one.
            CallTimedOut: there is no answer in time.
            CallFailed: the server refused it.
        """
        client = await self.wait()
        generation = self._generation
        if self.protocol < _LISTENING:
            key = call_key(holder, tool, arguments)
            exchange = self._resumed(key, answer, goes_on=goes_on)
            if exchange is None:
                self.counters.calls += 1
                exchange = self._exchanges.begin(
                    lambda begun: self._request(client, generation, tool, arguments, exchange=begun)
                )
            return await self._result_of(exchange, key, generation)
        self.counters.calls += 1
        more: dict[str, Any] = (
            {} if answer is None else {"input_responses": answer.responses(), "request_state": answer.state}
        )
        return await self._request(client, generation, tool, arguments, **more)

    def _resumed(self, key: str, answer: Answer | None, *, goes_on: bool) -> Exchange | None:
        """The call that has asked, with its answer; None for one that is to be made, also because that has failed.

        Raises:
            ServerLost: it is gone.
        """
        exchange = self._exchanges.take(key)
        if exchange is None:
            if goes_on or answer is not None:
                raise ServerLost(f"{self.config.name}, or the daemon, ended while this waited for an answer")
            return None
        if exchange.was_given_up or _has_failed(exchange.task):
            exchange.end()
            return None
        if answer is not None:
            exchange.answer(int(answer.state or 0), answer.responses()[answer.key])
        return exchange

    def give_up(self, tool: str, arguments: Mapping[str, Any], holder: str) -> None:
        """Give up a call that has asked, if it waits: it gets no answer."""
        exchange = self._exchanges.take(call_key(holder, tool, arguments))
        if exchange is not None:
            exchange.end()

    def give_up_all(self, holder: str) -> None:
        """The same for all calls of a holder, or of all whose names begin so."""
        self._exchanges.end_of(holder)

    async def _result_of(self, exchange: Exchange, key: str, generation: int) -> Any:
        """What comes next of a call: a question, which is kept under the key, or its result."""
        try:
            asks = await exchange.asks()
        except asyncio.CancelledError:
            exchange.end()
            await asyncio.wait([exchange.task])
            raise
        if asks:
            self._exchanges.keep(key, exchange)
            return _asking(exchange)
        if exchange.task.cancelled():
            raise self._lost(generation, "its connection ended")
        return exchange.task.result()

    async def _request(
        self,
        client: Any,
        generation: int,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        exchange: Exchange | None = None,
        **more: Any,
    ) -> Any:
        """Send a call and wait for its result; an exchange takes the time by itself."""
        timeout = self.config.timeout if exchange is None else math.inf
        try:
            async with asyncio.timeout(None if exchange is not None else timeout + WRITTEN):
                return await client.session.call_tool(
                    tool, dict(arguments), read_timeout_seconds=timeout, allow_input_required=True, **more
                )
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if exchange is not None and exchange.is_late and task is not None:
                task.uncancel()
                raise await self._late(client, generation) from error
            if _is_cancelled():
                raise
            raise self._lost(generation, "its connection ended") from error
        except Exception as error:
            raise await self._failure(client, generation, error) from error

    async def _failure(self, client: Any, generation: int, error: Exception) -> TenexError:
        """What the error of a call means."""
        reason = self._reason(error)
        if generation != self._generation or self._client is not client or _is_of_connection(error):
            return self._lost(generation, reason)
        code = getattr(error, "code", None)
        if code == _TIMED_OUT:
            return await self._late(client, generation)
        if reason == TOO_LARGE:
            return CallFailed(f"{self.config.name} gave no answer: {reason}")
        if isinstance(code, int):
            return CallFailed(reason)
        self.counters.failures += 1
        return CallFailed(f"{self.config.name} answered with what MCP does not permit: {reason}"[:MOST_REASON])

    async def _late(self, client: Any, generation: int) -> CallTimedOut:
        self.counters.failures += 1
        if not await self._answers(client):
            self._lose(generation, _SILENT)
        return CallTimedOut(f"{self.config.name} did not answer within {self.config.timeout:g} s")

    def _lost(self, generation: int, why: str) -> ServerLost:
        self.counters.failures += 1
        self._lose(generation, why)
        if self._lost_why in self._exceeded:
            return ServerLost(f"{self.config.name} was ended while this ran: {self._lost_why}")
        return ServerLost(f"{self.config.name} ended while this ran")

    def _reason(self, error: BaseException) -> str:
        """What an error says, in one line and without secrets."""
        words = self.config.hidden(_words(error))
        return (TOO_LARGE if TOO_LARGE in words else words)[:MOST_REASON]

    async def _answers(self, client: Any) -> bool:
        """Whether the server still answers questions."""
        try:
            async with asyncio.timeout(ANSWERS):
                await client.list_tools()
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return False
        except Exception as error:  # noqa: BLE001 - an error is an answer, unless it is that there is none
            return isinstance(getattr(error, "code", None), int) and not _is_of_connection(error)
        return True


def _release(launching: asyncio.Task[Program]) -> None:
    if not launching.cancelled() and launching.exception() is None:
        launching.result().release()


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: the SDK takes a cancellation for its own where one of its scopes is just left."""
    for _ in range(CANCELLATIONS):
        task.cancel()
        await asyncio.wait([task], timeout=LEAST_PAUSE)
        if task.done():
            return


def _own_version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:  # a checkout that was not installed
        return "unknown"


def _asking(exchange: Exchange) -> Any:
    """The question of a call that waits, as the protocol of 2026-07-28 has it."""
    types = import_module("mcp_types")
    request = types.ElicitRequest(params=exchange.question)
    return types.InputRequiredResult(input_requests={_QUESTION: request}, request_state=str(exchange.number))


def _has_failed(task: asyncio.Task[Any]) -> bool:
    """Whether a call has ended with an error of its server."""
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    return isinstance(error, CallFailed) if error is not None else bool(getattr(task.result(), "is_error", False))


def _is_cancelled() -> bool:
    """Whether someone cancelled this task; else a scope of the SDK did, because its connection broke."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_of_scope(error: asyncio.CancelledError) -> bool:
    """Whether a scope of anyio has cancelled this task."""
    return bool(error.args) and str(error.args[0]).startswith("Cancelled via cancel scope")


def _is_of_connection(error: BaseException) -> bool:
    """Whether an error means that the connection is gone."""
    if isinstance(error, BaseExceptionGroup):
        return any(_is_of_connection(inner) for inner in error.exceptions)
    code = getattr(error, "code", None)
    words = str(error).lower()
    if code == _CLOSED and "closed" in words:
        return True
    if code == _NO_REQUEST and "session" in words:  # the server at an address was started again and knows none
        return True
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or module in ("httpx2", "httpcore2", "anyio")


def _words(error: BaseException) -> str:
    """The first cause in one line, without addresses and other values of ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: there is no such program"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'it'}: {error.strerror}"
    if isinstance(error, TimeoutError):
        return _SILENT
    words = _VALUE.sub("", _ADDRESS.sub("its address", " ".join(str(error).split())))
    if isinstance(error, TenexError) or isinstance(getattr(error, "code", None), int):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


async def _page(client: Any, cursor: str | None) -> Any:
    """A page of the list of tools; None where the server has no list."""
    try:
        return await client.list_tools(cursor=cursor)
    except Exception as error:
        if getattr(error, "code", None) == _NO_METHOD:
            return None
        raise


async def _take_as_it_is(_tool: str, _result: Any) -> None:
    """Check nothing."""


def _silence_sdk() -> None:
    """Log nothing of the SDK, which logs what servers send, secrets among it: our own sentences say what happened."""
    sdk = logging.getLogger("mcp")
    if sdk.propagate:
        sdk.addHandler(logging.NullHandler())
        sdk.propagate = False


def _size(listed: Any) -> int:
    """Bytes of a tool in a list."""
    texts = (listed.name, listed.title, listed.description)
    schemas = (listed.input_schema, listed.output_schema)
    return sum(len(text.encode("utf-8", "replace")) for text in texts if text) + sum(
        len(json.dumps(schema)) for schema in schemas if schema
    )
