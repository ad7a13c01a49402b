"""Servers on loopback that speak Anthropic's and Google's protocols, as far as one answer goes, and write down all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.fakes.modelprotocol import Json


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: Json


@dataclass(slots=True)
class Served:
    """What was asked."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)


Answering = Callable[[Request], tuple[int, str, bytes]]
"""Gives status, content type and body."""


@asynccontextmanager
async def serving(answering: Answering) -> AsyncIterator[Served]:
    """Serve over HTTP/1.1, one answer per connection."""
    served = Served()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
            request = Request(lines[0].split()[1], headers, body)
            served.requests.append(request)
            status, kind, answer = answering(request)
            head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode() + answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield served


def _events(*events: Json, named: bool) -> tuple[int, str, bytes]:
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return 200, "text/event-stream", "".join(lines).encode()


def anthropic(request: Request) -> tuple[int, str, bytes]:
    """Claude: a thought with a signature and a call; a decision by the tool or as text; whole or as a stream."""
    usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 20}
    head = {"id": "m", "type": "message", "role": "assistant", "model": request.body["model"], "stop_sequence": None}
    if not request.body.get("stream"):
        text = {"type": "text", "text": '{"agents": ["planner"], "reason": "r"}'}
        body = {**head, "content": [text], "stop_reason": "end_turn", "usage": usage}
        return 200, "application/json", json.dumps(body).encode()
    start = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    deltas: tuple[tuple[int, Json], ...] = (
        (0, {"type": "thinking_delta", "thinking": "hm"}),
        (0, {"type": "signature_delta", "signature": "c2ln"}),
        (1, {"type": "input_json_delta", "partial_json": '{"path": "a"}'}),
    )
    blocks: tuple[Json, ...] = (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "tool_use", "id": "t1", "name": "write_file", "input": {}},
    )
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for at, delta in deltas if at == index]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return _events(*events, named=True)


def google(request: Request) -> tuple[int, str, bytes]:
    """Gemini: a call; a decision as text; whole or as a stream."""
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 9, "totalTokenCount": 109, "cachedContentTokenCount": 70}
    part: Json = {"functionCall": {"name": "write_file", "args": {"path": "a"}}}
    if "streamGenerateContent" not in request.path:
        part = {"text": '{"agents": ["planner"], "reason": "r"}'}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro", "responseId": "r"}
    if "streamGenerateContent" in request.path:
        return _events(body, named=False)
    return 200, "application/json", json.dumps(body).encode()
