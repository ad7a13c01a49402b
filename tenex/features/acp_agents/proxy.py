"""What an ACP agent reaches beside its workspace: models of the settings, our tools, and the hosts that its file names.

    agent's process, in a network of its own          daemon
    http://127.0.0.1:PORT/SECRET/openai/v1      ──►   models by OpenAI's protocols        (`tenex.llm.forwarding`)
    http://127.0.0.1:PORT/SECRET/anthropic      ──►   models by Anthropic's
    http://127.0.0.1:PORT/SECRET/google         ──►   models by Google's
    http://127.0.0.1:PORT/SECRET/mcp            ──►   our tools                            (`bridge`)
    http://127.0.0.1:OTHER, by CONNECT          ──►   hosts by name                        (`tunnels`)

The ports are of the turn's network (`tenex.tools.shared_namespaces.listen`): no other turn and no program of the
machine reaches them. The secret keeps other programs of the same turn from using the models of this agent.

Limits: before a request is passed on, what is left for the run has to cover what was measured and not taken yet, what
is under way, and the request itself. So many requests at once cannot pass a limit by more than their answers.
"""

import asyncio
import hmac
import math
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import uvicorn

from tenex.core.messages import NO_USAGE, ToolSpec, Usage
from tenex.core.work.fair_queue import STEP
from tenex.llm.config import ModelClientConfig
from tenex.llm.forwarding import Forwarding
from tenex.llm.providers import Vendor
from tenex.llm.rate_limit import ProviderQueue
from tenex.llm.vendor_apis import Fault, Rejected, error_body, vendor_of
from tenex.log import get_logger

from .bridge import Bridge, OnToolCall
from .tunnels import Tunnels

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of a request: what Anthropic takes, and more than the others."""
KEPT_ALIVE: Final = 600
"""Seconds for which an idle connection stays: clients would use one that we end in the same moment."""
MOST_HELD: Final = 3 * MOST_BYTES
"""Bytes of requests that are held at once: each takes a few times as much memory while it is read."""
MOST_CONNECTIONS: Final = 128
GRACE: Final = 1
"""Seconds in which answers may end when the proxy is closed."""

_NEVER_REPEATED: Final = frozenset({400, 401, 402, 403, 404, 413})
"""Statuses of refusals that no repetition changes."""
_PATHS: Final = {"openai": "openai/v1", "anthropic": "anthropic", "google": "google", "mcp": "mcp"}

log = get_logger(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What is left of the limits of a run when nothing is counted that was not taken; None where there is no limit."""

    tokens: int | None = None
    cost_usd: float | None = None

    def covers(self, usage: Usage) -> bool:
        """Whether so much may be used."""
        fits_tokens = self.tokens is None or usage.tokens < self.tokens
        return fits_tokens and (self.cost_usd is None or (usage.cost_usd or 0.0) < self.cost_usd)


class Proxy:
    """The proxy of one agent's process. Belongs to one event loop; `start` is called once."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        config: ModelClientConfig,
        models: Sequence[str],
        *,
        remaining: Callable[[], Remaining],
        tools: Callable[[], Sequence[ToolSpec]],
        on_tool_call: OnToolCall,
        queue_of: Callable[[str], ProviderQueue] | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        """Make it, and serve nothing yet.

        Args:
            listeners: listening sockets, which are its own from now on: one, and a second one where there are `hosts`.
            config: the providers of the settings, with their keys.
            models: full names of the models that the agent may use.
            remaining: what is left for the run.
            tools: those that are offered to the agent now.
            on_tool_call: carries a call of one of them out.
            queue_of: gives the queue of a provider's calls (`tenex.llm.client.ModelClient.queue`), in which these wait
                too; one for this agent alone unless it is given.
            hosts: names, or `name:port`, which it may reach by CONNECT.

        Raises:
            ConfigurationError: a model has no provider that programs can use, or a host is none.
        """
        self._listeners = listeners
        self._forwarding = Forwarding(config, models, self._count, queue_of)
        self._remaining = remaining
        self._bridge = Bridge(tools, on_tool_call)
        self._tunnels = Tunnels(listeners[1], hosts) if hosts else None
        self.is_over_limit = False
        """Whether a request was refused because too little is left for it."""
        self._secret = secrets.token_urlsafe(16)
        self._used: dict[str, Usage] = {}
        self._under_way: dict[asyncio.Task[Any], Usage] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._held = 0
        """Bytes of requests."""
        self._serving: asyncio.Task[None] | None = None
        self._server = _Server(
            uvicorn.Config(
                cast("Any", self._answer),
                interface="asgi3",
                http="h11",
                ws="none",
                lifespan="off",
                proxy_headers=False,
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=KEPT_ALIVE,
                timeout_graceful_shutdown=GRACE,
                limit_concurrency=MOST_CONNECTIONS,
            )
        )

    @property
    def addresses(self) -> Mapping[str, str]:
        """Addresses as the agent reaches them: of each vendor's protocols, of `mcp`, and of the `proxy` for hosts."""
        base = f"http://127.0.0.1:{self._listeners[0].getsockname()[1]}"
        given = {name: f"{base}/{self._secret}/{path}" for name, path in _PATHS.items()}
        if self._tunnels is not None:
            given["proxy"] = f"http://127.0.0.1:{self._listeners[1].getsockname()[1]}"
        return MappingProxyType(given)

    @property
    def tunnels(self) -> Tunnels | None:
        """What the agent reaches by CONNECT; None where its file names no host."""
        return self._tunnels

    async def start(self) -> None:
        """Serve; returns when connections are accepted."""
        self._serving = asyncio.create_task(self._serve(), name="acp.proxy")
        started = asyncio.create_task(self._server.ready.wait(), name="acp.proxy.start")
        await asyncio.wait((self._serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._serving.done():
            self._serving.result()
        if self._tunnels is not None:
            await self._tunnels.start()

    def taken(self) -> Mapping[str, Usage]:
        """What was used since the last call, by the full name of the model."""
        used = self._used
        self._used = {}
        return used

    async def close(self) -> None:
        """End all connections and requests, those to providers too; what they have cost can be taken afterwards.

        A second call does nothing.
        """
        for connection in self._server.server_state.connections:
            connection.transport.abort()  # else a request that is cancelled counts as a fault of ours
        for task in self._requests:
            task.cancel()
        if self._tunnels is not None:
            await self._tunnels.close()
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait((self._serving,))
        for listener in self._listeners:
            listener.close()
        await self._forwarding.close()

    async def _serve(self) -> None:
        STEP.set(None)  # requests wait for turns of their own, not for that of the step in which the proxy was started
        async with self._bridge.running():
            await self._server.serve([self._listeners[0]])

    def _count(self, model: str, usage: Usage) -> None:
        self._used[model] = self._used.get(model, NO_USAGE) + usage

    # ---- requests -------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """The application of ASGI."""
        words: list[str] = scope["path"].split("/", 3)
        _, secret, part, rest = [*words, "", "", ""][:4]
        path = f"/{rest}"
        vendor = vendor_of(part)
        if not hmac.compare_digest(secret.encode(), self._secret.encode()) or (vendor is None and part != "mcp"):
            await _send_whole(send, 404, b"There is nothing here.", "text/plain")
            return
        task = asyncio.create_task(
            self._bridge.serve({**scope, "path": "/mcp"}, receive, send)
            if vendor is None
            else self._pass_on(vendor, path.removeprefix("/v1") if vendor == "openai" else path, scope, receive, send),
            name="acp.proxy.request",
        )
        self._requests.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            self._requests.discard(task)
            task.cancel()
        if not task.cancelled():
            task.result()

    async def _pass_on(self, vendor: Vendor, path: str, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request to a model on, until it is answered or the agent leaves."""
        body = bytearray()
        try:
            await self._read_body(receive, body)
            work = asyncio.create_task(self._forward(vendor, path, scope, bytes(body), send), name="acp.proxy.forward")
            leaving = asyncio.create_task(_left(receive), name="acp.proxy.leaving")
            try:
                await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                work.cancel()
                await asyncio.wait((work,))
            if not work.cancelled():
                work.result()
        except _Left:
            return
        except Rejected as rejected:
            log.info("proxy.rejected", vendor=vendor, fault=rejected.fault.name.lower())
            more = [(b"x-should-retry", b"false")] if rejected.fault.status in _NEVER_REPEATED else []
            if rejected.retry_after is not None:
                more.append((b"retry-after", b"%d" % math.ceil(rejected.retry_after)))
            said = error_body(vendor, rejected.fault, str(rejected))
            await _send_whole(send, rejected.fault.status, said, "application/json", more)
        finally:
            self._held -= len(body)

    async def _read_body(self, receive: Receive, body: bytearray) -> None:
        """Read the body of a request.

        Raises:
            Rejected: it is too large, or too much is held already.
            _Left: the agent has ended its connection.
        """
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Left
            piece = message.get("body", b"")
            body += piece
            self._held += len(piece)
            if len(body) > MOST_BYTES:
                raise Rejected(Fault.TOO_LARGE, f"The request has more than {MOST_BYTES // 1024**2} MB.")
            if self._held > MOST_HELD:
                raise Rejected(Fault.BUSY, "Too much is being sent at once. Try again.", 1)
            if not message.get("more_body"):
                return

    async def _forward(self, vendor: Vendor, path: str, scope: Message, body: bytes, send: Send) -> None:
        if scope["method"] != "POST":
            raise Rejected(Fault.UNKNOWN_PATH, "Only POST requests to a model are passed on.")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("content-encoding", "identity") != "identity":
            raise Rejected(Fault.INVALID, "Send the request without compression.")
        asked = await self._forwarding.read(vendor, path, body)
        least = self._forwarding.least(asked)
        used = sum((*self._used.values(), *self._under_way.values()), start=NO_USAGE)
        if not self._remaining().covers(used + least):
            self.is_over_limit = True
            raise Rejected(Fault.LIMIT, "The limit of tokens or money for this run is reached.")
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._under_way[task] = least
        try:
            query = parse_qsl(scope["query_string"].decode("latin-1"))
            async with self._forwarding.answer(asked, headers, query) as passed:
                given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in passed.headers]
                await send({"type": "http.response.start", "status": passed.status, "headers": given})
                async for piece in passed.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        finally:
            del self._under_way[task]


class _Left(Exception):
    """The agent has ended its connection."""


async def _left(receive: Receive) -> None:
    """Wait until the agent has ended its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_whole(
    send: Send, status: int, body: bytes, kind: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    given = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """A server that leaves the signals to us, and says when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
