"""A model's server on loopback that speaks OpenAI's protocol over real HTTP, whole and streaming, and writes down all.

    async with model_server(model) as server:
        client = AsyncOpenAI(base_url=server.url, api_key=server.key)

A model gets the parsed request and gives a reply (`modelprotocol`), at once or after a while. `server.exchanges` holds
every request with what became of its answer. `down` refuses connections at the same port until `up`.
`python -m tests.fakes.modelserver MODULE:SCRIPT` serves in a process of its own.
"""

import argparse
import asyncio
import importlib
import inspect
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from .modelconnection import Connection, Gone
from .modelprotocol import (
    Answer,
    Breaks,
    Closes,
    Fails,
    Hangs,
    Json,
    Reply,
    Sends,
    answer_id,
    chunks,
    error_body,
    fault_of,
    usage_of,
    whole_body,
)

ModelScript = Callable[[Json], Reply | Awaitable[Reply]]
KEY = "sk-loopback"
HOST = "127.0.0.1"


@dataclass(slots=True)
class Exchange:
    """One request and what became of its answer."""

    number: int
    """From 1, in order of arrival; `answer_id(number)` is the id of its answer."""
    request: Json
    headers: Mapping[str, str]
    """Names in lower case."""
    began: float
    """Of the event loop's clock, in seconds."""
    outcome: Literal["open", "delivered", "failed", "broken", "cut"] = "open"
    """`delivered`: a good answer was handed over whole. `failed`: an error was. `broken`: on purpose. `cut`: the client
    went away first."""
    reply: Reply | None = None
    input_tokens: int = 0
    """0 unless it was delivered."""
    output_tokens: int = 0
    ended: float = 0.0

    @property
    def stream(self) -> bool:
        return bool(self.request.get("stream"))

    @property
    def system(self) -> str:
        texts = [text_of(m) for m in self.request["messages"] if m["role"] in ("system", "developer")]
        return "\n".join(texts)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What delivered answers cost."""

    calls: int
    input: int
    output: int


class ModelServer:
    """The server and its log."""

    def __init__(self, script: ModelScript, *, key: str = KEY, models: Sequence[str] = ("test",)) -> None:
        self.script, self.key, self.models = script, key, tuple(models)
        self.port = 0
        self.exchanges: list[Exchange] = []
        self.refused: list[str] = []
        """Why requests were refused for their form: none should be."""
        self.wrong_keys = 0
        """Requests with another key."""
        self.faults: list[Exception] = []
        """What models raised; `model_server` raises it when it ends."""
        self.at_once = 0
        """Requests being answered."""
        self._server: asyncio.Server | None = None
        self._placeholder: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/v1"

    def delivered(self) -> list[Exchange]:
        """The exchanges whose answers were handed over whole."""
        return [exchange for exchange in self.exchanges if exchange.outcome == "delivered"]

    def tokens(self) -> Tokens:
        done = self.delivered()
        return Tokens(len(done), sum(e.input_tokens for e in done), sum(e.output_tokens for e in done))

    async def until(self, holds: Callable[["ModelServer"], Any], within: float = 60.0) -> Any:
        """Wait until `holds(self)` gives something; it is asked again whenever an exchange begins or ends."""
        async with asyncio.timeout(within), self._changed:
            return await self._changed.wait_for(lambda: holds(self))

    async def up(self) -> None:
        """Listen, at the port of the last time."""
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        self._server = await asyncio.start_server(self._accept, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse connections from now on, and break those there are; no one else gets the port meanwhile."""
        await self._stop()
        self._placeholder = socket.socket()
        self._placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._placeholder.bind((HOST, self.port))  # bound and not listening: the kernel refuses

    async def close(self) -> None:
        """End for good; raises what models raised, because a test must not pass over it."""
        await self._stop()
        if self._placeholder is not None:
            self._placeholder.close()
        if self.faults:
            raise ExceptionGroup("a script of the model server failed", self.faults)

    async def _stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_Chat(self, reader, writer).serve())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    def _begin(self, request: Json, headers: Mapping[str, str]) -> Exchange:
        now = asyncio.get_running_loop().time()
        exchange = Exchange(len(self.exchanges) + 1, request, headers, now)
        self.exchanges.append(exchange)
        self.at_once += 1
        return exchange

    def _end(self, exchange: Exchange, outcome: Literal["delivered", "failed", "broken", "cut"]) -> None:
        if exchange.outcome != "open":
            return
        exchange.outcome, exchange.ended = outcome, asyncio.get_running_loop().time()
        self.at_once -= 1
        if outcome == "delivered" and isinstance(exchange.reply, Answer):
            exchange.input_tokens, exchange.output_tokens = usage_of(exchange.request, exchange.reply)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class _Chat(Connection):
    """A client's connection to the server's API."""

    def __init__(self, server: ModelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._server = server

    async def answer(self, target: str, headers: dict[str, str], body: bytes) -> None:
        if self._server.key and headers.get("authorization") != f"Bearer {self._server.key}":
            self._server.wrong_keys += 1
            await self._fail(Fails(status=401, message="Incorrect API key provided", code="invalid_api_key"))
        elif target == "GET /v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in self._server.models]
            await self.send(json.dumps({"object": "list", "data": data}).encode())
        elif target != "POST /v1/chat/completions":
            await self._fail(Fails(status=404, message=f"Unknown request URL: {target}"))
        else:
            await self._chat(headers, body)

    async def _chat(self, headers: dict[str, str], body: bytes) -> None:
        request = json.loads(body)
        fault = fault_of(request)
        if fault is not None:
            self._server.refused.append(fault)
            await self._fail(Fails(status=400, message=fault))
            return
        exchange = self._server._begin(request, headers)
        await self._server._notify()
        try:
            exchange.reply = await self._think(request)
            await self._reply(exchange, exchange.reply)
        except (Gone, ConnectionError):
            self._server._end(exchange, "cut")
            raise
        finally:
            self._server._end(exchange, "cut")  # no change where it has ended
            await self._server._notify()

    async def _think(self, request: Json) -> Reply:
        try:
            given = self._server.script(request)
            reply: Reply = await self.unless_gone(given) if inspect.isawaitable(given) else given
        except (Gone, ConnectionError):
            raise
        except Exception as fault:
            self._server.faults.append(fault)
            return Fails(message="the script failed")
        return reply

    async def _reply(self, exchange: Exchange, reply: Reply) -> None:
        match reply:
            case Answer():
                await self.unless_gone(asyncio.sleep(reply.delay))
                await self._deliver(exchange, reply, len(self._pieces(exchange, reply)))
                self._server._end(exchange, "delivered")
            case Breaks(answer=answer):
                await self._deliver(exchange, answer, reply.after)
                if reply.stall:
                    await self.unless_gone(asyncio.Event().wait())
                self._server._end(exchange, "broken")
                await self.close()
            case Fails():
                await self._fail(reply)
                self._server._end(exchange, "failed")
            case Sends():
                await self.send(reply.body, content_type=reply.content_type)
                self._server._end(exchange, "broken")
            case Hangs():
                await self.unless_gone(asyncio.Event().wait())
            case Closes():
                self._server._end(exchange, "broken")
                raise Gone

    def _pieces(self, exchange: Exchange, answer: Answer) -> list[bytes]:
        if exchange.stream:
            return list(chunks(exchange.request, answer, exchange.number))
        whole = whole_body(exchange.request, answer, exchange.number)
        size = -(-len(whole) // 10)
        return [whole[at : at + size] for at in range(0, len(whole), size)]

    async def _deliver(self, exchange: Exchange, answer: Answer, count: int) -> None:
        pieces = self._pieces(exchange, answer)
        if exchange.stream:
            self.head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        else:
            self.head(200, "application/json", {"content-length": str(sum(map(len, pieces)))})
        for piece in pieces[:count]:
            await self.write(b"%x\r\n%s\r\n" % (len(piece), piece) if exchange.stream else piece)
            if answer.pace:
                await self.unless_gone(asyncio.sleep(answer.pace))
        if exchange.stream and count >= len(pieces):
            await self.write(b"0\r\n\r\n")

    async def _fail(self, fails: Fails) -> None:
        await self.send(error_body(fails), status=fails.status, headers=fails.headers)


@asynccontextmanager
async def model_server(
    script: ModelScript, *, key: str = KEY, models: Sequence[str] = ("test",)
) -> AsyncIterator[ModelServer]:
    """A server for as long as the block lasts, at a port of its own; an empty key takes any, as Ollama does."""
    server = ModelServer(script, key=key, models=models)
    await server.up()
    try:
        yield server
    finally:
        await server.close()


def text_of(message: Json) -> str:
    """The text of a message, whose content may be a text, parts or nothing."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


async def _serve(script: ModelScript, port: int, key: str) -> None:
    server = ModelServer(script, key=key)
    server.port = port
    await server.up()
    print(server.url, flush=True)
    for place in itertools.count():
        done = await server.until(partial(_ended, place=place), within=10**9)
        line = {
            "id": answer_id(done.number),
            "outcome": done.outcome,
            "input": done.input_tokens,
            "output": done.output_tokens,
        }
        print(json.dumps(line), flush=True)


def _ended(server: ModelServer, place: int) -> Exchange | None:
    exchange = next(iter(server.exchanges[place : place + 1]), None)
    return exchange if exchange and exchange.outcome != "open" else None


def main(words: Sequence[str] | None = None) -> None:
    """Serve until interrupted: the url on the first line, then one line for each exchange, in order."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("script", help="module:function, such as tests.fakes.modelscripts:team")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=KEY)
    given = parser.parse_args(words)
    module, _, name = given.script.partition(":")
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(getattr(importlib.import_module(module), name), given.port, given.key))


if __name__ == "__main__":
    main()
