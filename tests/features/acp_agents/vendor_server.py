"""A provider's server on loopback that speaks the four protocols of vendors over real HTTP, as documented by them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.fakes.modelconnection import Connection

KEY = "sk-of-the-settings"
HOST = "127.0.0.1"

INPUT = 1_000
CACHED = 400
OUTPUT = 50
"""Tokens of each answer."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it came."""

    target: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Reply = Callable[["Talk", Sent], Awaitable[None]]


class VendorServer:
    """The server; `reply` may be replaced."""

    def __init__(self) -> None:
        self.requests: list[Sent] = []
        self.reply: Reply = answer
        self.key = KEY
        self.port = 0
        self.gone = asyncio.Event()
        """Set when a client has left before its answer was complete."""
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._accept, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse connections, and break those there are."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(Talk(self, reader, writer).serve())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)


class Talk(Connection):
    """A client's connection."""

    def __init__(self, server: VendorServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._server = server

    async def answer(self, target: str, headers: dict[str, str], body: bytes) -> None:
        sent = Sent(target, headers, json.loads(body))
        self._server.requests.append(sent)
        keys = {headers.get("authorization"), headers.get("x-api-key"), headers.get("x-goog-api-key")}
        if not keys & {f"Bearer {self._server.key}", self._server.key}:
            shown = next(key for key in keys if key)
            await self.json({"error": {"message": f"Incorrect API key provided: {shown}"}}, status=401)
            return
        try:
            await self._server.reply(self, sent)
        except BaseException:
            self._server.gone.set()
            raise

    async def json(self, value: Any, **more: Any) -> None:
        await self.send(json.dumps(value).encode(), **more)

    async def begin_events(self) -> None:
        self.head(200, "text/event-stream; charset=utf-8", {"transfer-encoding": "chunked"})

    async def event(self, value: Any, name: str = "") -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        await self.chunk((f"event: {name}\n" if name else "") + f"data: {data}\n\n")

    async def chunk(self, text: str) -> None:
        await self.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())

    async def end_events(self) -> None:
        await self.write(b"0\r\n\r\n")


async def answer(talk: Talk, sent: Sent) -> None:
    """A good answer of the protocol that the request is in."""
    whole, events = answers(sent)
    if whole is not None:
        await talk.json(whole, headers={"x-request-id": "req-1", "set-cookie": "a=b"})
        return
    await talk.begin_events()
    for event in events:
        await talk.event(event, event.get("type", "") if isinstance(event, dict) else "")
    await talk.end_events()


def answers(sent: Sent) -> tuple[Any, list[Any]]:
    """The whole answer to a request, or None and its events."""
    is_streamed = bool(sent.body.get("stream"))
    match sent.target.partition(" ")[2]:
        case "/v1/chat/completions":
            return (None, [*chat_chunks(sent), "[DONE]"]) if is_streamed else (chat(sent.body["model"]), [])
        case "/v1/responses":
            return (None, response_events(sent.body["model"])) if is_streamed else (response(sent.body["model"]), [])
        case "/v1/messages":
            return (None, message_events(sent.body["model"])) if is_streamed else (message(sent.body["model"]), [])
        case "/v1/messages/count_tokens":
            return {"input_tokens": INPUT}, []
        case path if path.endswith(":generateContent"):
            return generated("Hello"), []
        case path if path.endswith(":streamGenerateContent"):
            return None, [generated("Hel", 10), generated("lo")]
        case path if path.endswith(":countTokens"):
            return {"totalTokens": INPUT}, []
        case path:
            raise AssertionError(path)


CHAT_USAGE = {
    "prompt_tokens": INPUT,
    "completion_tokens": OUTPUT,
    "total_tokens": INPUT + OUTPUT,
    "prompt_tokens_details": {"cached_tokens": CACHED},
}


def chat(model: str) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    head = {"id": "c-1", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "choices": [choice], "usage": CHAT_USAGE}


def chat_chunks(sent: Sent) -> list[Any]:
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": sent.body["model"]}
    chunks: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}
        for text, reason in (("Hel", None), ("lo", None), ("", "stop"))
    ]
    if (sent.body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": CHAT_USAGE})
    return chunks


def response(model: str, status: str = "completed") -> Any:
    text = {"type": "output_text", "text": "Hello", "annotations": []}
    said = {"id": "m-1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    usage = {
        "input_tokens": INPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": INPUT + OUTPUT,
    }
    head = {"id": "r-1", "object": "response", "created_at": 1, "model": model, "status": status}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    if status != "completed":
        return {**head, **more, "output": [], "usage": None}
    return {**head, **more, "output": [said], "usage": usage}


def response_events(model: str) -> list[Any]:
    delta = {"item_id": "m-1", "output_index": 0, "content_index": 0, "logprobs": []}
    return [
        {"type": "response.created", "sequence_number": 0, "response": response(model, "in_progress")},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": "Hello", **delta},
        {"type": "response.completed", "sequence_number": 2, "response": response(model)},
    ]


ANTHROPIC_USAGE = {
    "input_tokens": INPUT - CACHED,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": CACHED,
    "output_tokens": OUTPUT,
}


def message(model: str) -> Any:
    head = {"id": "msg-1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    content = [{"type": "text", "text": "Hello"}]
    return {**head, "content": content, "stop_reason": "end_turn", "usage": ANTHROPIC_USAGE}


def message_events(model: str) -> list[Any]:
    began = {**message(model), "content": [], "stop_reason": None, "usage": {**ANTHROPIC_USAGE, "output_tokens": 1}}
    return [
        {"type": "message_start", "message": began},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": OUTPUT}},
        {"type": "message_stop"},
    ]


def generated(text: str, output: int = OUTPUT) -> Any:
    usage = {
        "promptTokenCount": INPUT,
        "candidatesTokenCount": output,
        "cachedContentTokenCount": CACHED,
        "totalTokenCount": INPUT + output,
    }
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-test"}


@asynccontextmanager
async def vendor_server() -> AsyncIterator[VendorServer]:
    """A server for as long as the block lasts."""
    server = VendorServer()
    await server.up()
    try:
        yield server
    finally:
        await server.down()
