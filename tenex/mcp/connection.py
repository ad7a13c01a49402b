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

A server that ended keeps its tools listed, for they are in prompts and requests of work that goes on; the list is
replaced when it has started again, or says that it has changed.
"""

import asyncio
import importlib.metadata
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
from tenex.core.text import printable, redact
from tenex.log import get_logger

from .config import ServerConfig
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
CONNECT: Final = 10.0
"""Seconds to connect to an address."""
MOST_TOOLS: Final = 500
"""Of one server: more is a fault of it."""
MOST_REASON: Final = 300

_CLOSED: Final = -32000
_TIMED_OUT: Final = -32001
_NO_METHOD: Final = -32601
_NO_REQUEST: Final = -32600
_LIST_CHANGED: Final = "notifications/tools/list_changed"
_ADDRESS: Final = re.compile(r"https?://[^\s'\"]+")

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
    ) -> None:
        """Take what is configured; `run` starts it. `on_tools` is called when the tools have changed."""
        self.config = config
        self.counters = Counters()
        self.tools: tuple[ServerTool, ...] = ()
        self.state = "starting"
        """`starting`, `ready`, `waiting` for its next start, or `stopped`."""
        self.why = ""
        """Why it does not run, or ended last."""
        self.protocol = ""
        self.is_settled = asyncio.Event()
        """Set once it was ready, or a start has failed."""
        self._launch = launch
        self._on_tools = on_tools
        self._backoff = Backoff(FIRST_PAUSE, MOST_PAUSE, draw)
        self._start = start
        self._patience = ready
        self._client: Any = None
        self._generation = 0
        self._is_ready = asyncio.Event()
        self._attention = asyncio.Event()
        """Set where the owner has something to do: the connection is lost, or the list has changed."""
        self._lost_why = ""
        self._wanted = asyncio.Event()
        """Set by a caller that waits."""

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

    async def _pause(self, seconds: float) -> None:
        self._wanted.clear()
        await asyncio.sleep(min(seconds, PATIENCE))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - PATIENCE)):
                await self._wanted.wait()

    async def _live(self) -> str:
        """Start the server and keep it until its connection is lost; returns why it was."""
        errors = ErrorOutput()
        self._lost_why = ""
        self._attention.clear()
        reason = ""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start):
                    client = await self._enter(stack, errors)
                    tools = await _listed(client)
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
            reason = _reason(error)
        finally:
            self._client = None
            self._is_ready.clear()
        reason = self._lost_why or reason
        if errors.last_line:
            reason = f"{reason}: {errors.last_line}"
        return printable(redact(reason))[:MOST_REASON]

    async def _enter(self, stack: AsyncExitStack, errors: ErrorOutput) -> Any:
        config = self.config
        generation = self._generation
        sdk = await asyncio.to_thread(import_module, "mcp.client")
        types = await asyncio.to_thread(import_module, "mcp_types")
        if config.is_program:
            program = await asyncio.to_thread(self._launch, config)
            transport: Any = stdio_transport(program, errors, lambda why: self._lose(generation, why))
        else:
            transport = await _http_transport(stack, config)
        client = sdk.Client(
            transport,
            read_timeout_seconds=self._start,
            client_info=types.Implementation(name="tenex", version=_own_version()),
            message_handler=self._on_message,
            elicitation_callback=_not_during_a_call,
            cache=None,
        )
        return await stack.enter_async_context(client)

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
        while not self._lost_why:
            await self._attention.wait()
            self._attention.clear()
            if not self._lost_why:
                self._take(await _listed(client))

    def _take(self, tools: tuple[ServerTool, ...]) -> None:
        chosen = self.config.tools
        tools = tuple(tool for tool in tools if not chosen or tool.name in chosen)
        if tools != self.tools:
            self.tools = tools
            self._on_tools()

    async def _on_message(self, message: Any) -> None:
        if getattr(getattr(message, "root", message), "method", "") == _LIST_CHANGED:
            self._attention.set()

    def _lose(self, generation: int, why: str) -> None:
        """Mark a generation of the connection as lost; a later one stays."""
        if generation == self._generation and not self._lost_why:
            self._lost_why = why
            self._client = None
            self._is_ready.clear()
            self._attention.set()

    # ---- callers ----

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

    async def call(self, tool: str, arguments: Mapping[str, Any], answer: Answer | None = None) -> Any:
        """Call a tool; gives the SDK's result, which may be one that asks for input (`questions.needs_input`).

        With an answer it goes on from the result that asked for it.

        Raises:
            ServerUnavailable: nothing was sent.
            ServerLost: the connection broke; a later call starts on a new one.
            CallTimedOut: there is no answer in time.
            CallFailed: the server refused it.
        """
        client = await self.wait()
        generation = self._generation
        self.counters.calls += 1
        try:
            more = {} if answer is None else {"input_responses": answer.responses(), "request_state": answer.state}
            return await client.session.call_tool(
                tool, dict(arguments), read_timeout_seconds=self.config.timeout, allow_input_required=True, **more
            )
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise self._lost(generation, "its connection ended") from error
        except Exception as error:
            raise await self._failure(client, generation, error) from error

    async def _failure(self, client: Any, generation: int, error: Exception) -> TenexError:
        """What the error of a call means."""
        if generation != self._generation or self._client is not client or _is_of_connection(error):
            return self._lost(generation, _reason(error))
        code = getattr(error, "code", None)
        if code == _TIMED_OUT:
            self.counters.failures += 1
            if not await self._answers(client):
                self._lose(generation, "it did not answer any more")
            return CallTimedOut(f"{self.config.name} did not answer within {self.config.timeout:g} s")
        if isinstance(code, int):
            return CallFailed(_reason(error))
        self.counters.failures += 1
        return CallFailed(f"{self.config.name} answered with what MCP does not permit: {_reason(error)}"[:MOST_REASON])

    def _lost(self, generation: int, why: str) -> ServerLost:
        self.counters.failures += 1
        self._lose(generation, why)
        return ServerLost(f"{self.config.name} ended while this ran")

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


def _own_version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:  # a checkout that was not installed
        return "unknown"


async def _not_during_a_call(_context: Any, _params: Any) -> Any:
    """Refuse a question over the protocol before 2026-07-28, where the call would have to wait for the person."""
    types = import_module("mcp_types")
    return types.ErrorData(code=_NO_REQUEST, message="No person can be asked during a call. Take it as an argument.")


def _is_cancelled() -> bool:
    """Whether someone cancelled this task; else a scope of the SDK did, because its connection broke."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


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


def _reason(error: BaseException) -> str:
    """The first cause in one line, without addresses and other values of ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: there is no such program"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'it'}: {error.strerror}"
    words = _ADDRESS.sub("its address", " ".join(str(error).split()))
    if isinstance(error, TenexError) or isinstance(getattr(error, "code", None), int):
        return words[:MOST_REASON]
    return f"{type(error).__name__}: {words}"[:MOST_REASON] if words else type(error).__name__


async def _http_transport(stack: AsyncExitStack, config: ServerConfig) -> Any:
    http = await asyncio.to_thread(import_module, "httpx2")
    module = await asyncio.to_thread(import_module, "mcp.client.streamable_http")
    client = http.AsyncClient(
        headers=dict(config.headers),
        timeout=http.Timeout(CONNECT, read=config.timeout + START),
        follow_redirects=False,  # the headers hold a key
    )
    await stack.enter_async_context(client)
    return module.streamable_http_client(config.url, http_client=client, terminate_on_close=False)


async def _listed(client: Any) -> tuple[ServerTool, ...]:
    """All tools of a server; none where it has no list."""
    tools: list[ServerTool] = []
    cursor = None
    while len(tools) < MOST_TOOLS:
        try:
            page = await client.list_tools(cursor=cursor)
        except Exception as error:
            if getattr(error, "code", None) == _NO_METHOD:
                return ()
            raise
        tools += map(_tool, page.tools)
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(tools[:MOST_TOOLS])


def _tool(listed: Any) -> ServerTool:
    hints = listed.annotations
    return ServerTool(
        name=listed.name,
        description=listed.description or listed.title or "",
        schema=listed.input_schema,
        reads_only=bool(hints and hints.read_only_hint),
        is_idempotent=bool(hints and hints.idempotent_hint),
    )
