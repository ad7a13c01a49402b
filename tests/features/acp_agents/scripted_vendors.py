"""Model servers of Anthropic's and OpenAI's protocols on loopback, which play a script for real agents.

A script gets what the agent has sent in one form for all, and says a text or uses one of the tools that were offered.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.modelconnection import Connection

HOST = "127.0.0.1"
USAGE = (1_000, 50)
"""Tokens of each answer, in and out."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a model is shown."""

    text: str
    """All that is in the last message of the user."""
    results: tuple[str, ...]
    """Of the calls since then."""
    tools: Mapping[str, Json]
    """The schemas of those that are offered, by name; none where the agent asks beside its work, as for a title."""


@dataclass(frozen=True, slots=True)
class Use:
    """A call of a tool."""

    tool: str
    arguments: Json


Script = Callable[[Turn], str | Use]


@dataclass(slots=True)
class Vendors:
    """The server, and what was sent to it."""

    script: Script
    port: int = 0
    requests: list[tuple[str, Json]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    """Those that offer tools."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@asynccontextmanager
async def vendors(script: Script) -> AsyncIterator[Vendors]:
    """Serve a script."""
    held = Vendors(script)
    serving: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_Talk(held, reader, writer).serve())
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(accept, HOST, 0)
    held.port = server.sockets[0].getsockname()[1]
    try:
        yield held
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


class _Talk(Connection):
    def __init__(self, held: Vendors, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._held = held

    async def answer(self, target: str, headers: dict[str, str], body: bytes) -> None:
        path = target.partition(" ")[2].partition("?")[0]
        request = json.loads(body) if body else {}
        self._held.requests.append((path, request))
        match path:
            case "/v1/messages":
                await self._play(_anthropic_turn(request), request, _anthropic_events)
            case "/v1/chat/completions":
                await self._play(_chat_turn(request), request, _chat_events)
            case "/v1/responses":
                await self._play(_responses_turn(request), request, _responses_events)
            case "/v1/messages/count_tokens":
                await self.send(b'{"input_tokens": 1000}')
            case "/v1/models":
                await self.send(b'{"object": "list", "data": []}')
            case _:
                await self.send(b'{"error": {"message": "not here"}}', status=404)

    async def _play(self, turn: Turn, request: Json, events: Callable[[str, str | Use], Iterator[Any]]) -> None:
        if turn.tools:
            self._held.turns.append(turn)
        reply = self._held.script(turn) if turn.tools else "A title"
        self.head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        number = len(self._held.requests)
        for event in events(f"{request['model']}/{number}", reply):
            data = event if isinstance(event, str) else json.dumps(event)
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            await self._chunk(f"{name}data: {data}\n\n")
        with suppress(ConnectionError):
            await self.write(b"0\r\n\r\n")

    async def _chunk(self, text: str) -> None:
        await self.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())


# --- what was sent ---------------------------------------------------------------------------------------------


def _words(content: Any) -> str:
    """The text of a content, in whatever form."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_words(part) for part in content)
    if isinstance(content, dict):
        return _words(content.get("text") or content.get("content") or content.get("output") or "")
    return ""


def _turn(steps: list[tuple[str, str]], tools: Mapping[str, Json]) -> Turn:
    """A turn, from what people wrote and tools gave, in order."""
    last = max((at for at, (kind, _) in enumerate(steps) if kind == "user"), default=-1)
    texts = [text for kind, text in steps[: last + 1] if kind == "user"][-1:]
    return Turn(text="".join(texts), results=tuple(text for _, text in steps[last + 1 :]), tools=tools)


def _anthropic_turn(request: Json) -> Turn:
    steps: list[tuple[str, str]] = []
    for message in request["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        steps += [("result", _words(part)) for part in parts if part["type"] == "tool_result"]
        texts = [_words(part) for part in parts if part["type"] != "tool_result"]
        written = [text for text in texts if not text.startswith("<system-reminder>")]
        if written:
            steps.append(("user", "\n".join(written)))
    return _turn(steps, {tool["name"]: tool.get("input_schema", {}) for tool in request.get("tools", ())})


def _chat_turn(request: Json) -> Turn:
    kinds = {"user": "user", "tool": "result"}
    steps = [(kinds[each["role"]], _words(each["content"])) for each in request["messages"] if each["role"] in kinds]
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.get("tools", ())}
    return _turn(steps, tools)


def _responses_turn(request: Json) -> Turn:
    steps: list[tuple[str, str]] = []
    for item in request["input"]:
        if item.get("type", "message") == "message" and item["role"] == "user":
            steps.append(("user", _words(item["content"])))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            steps.append(("result", _words(item["output"])))
    tools = {tool.get("name", tool["type"]): tool.get("parameters", {}) for tool in request.get("tools", ())}
    return _turn(steps, tools)


# --- what is answered ------------------------------------------------------------------------------------------


def _anthropic_events(id_: str, reply: str | Use) -> Iterator[Any]:
    model = id_.rpartition("/")[0]
    usage = {"input_tokens": USAGE[0], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    head = {
        "id": f"msg_{id_.rpartition('/')[2]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    began = {**head, "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": began}
    if isinstance(reply, Use):
        block = {"type": "tool_use", "id": f"toolu_{id_.rpartition('/')[2]}", "name": reply.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "tool_use" if isinstance(reply, Use) else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {**usage, "output_tokens": USAGE[1]},
    }
    yield {"type": "message_stop"}


def _chat_events(id_: str, reply: str | Use) -> Iterator[Any]:
    model, _, number = id_.rpartition("/")
    head = {"id": f"c-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}
    delta: Json = {"role": "assistant", "content": reply}
    if isinstance(reply, Use):
        function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}],
        }
    yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if isinstance(reply, Use) else "stop"
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    yield {**head, "choices": [], "usage": usage}
    yield "[DONE]"


def _responses_events(id_: str, reply: str | Use) -> Iterator[Any]:
    model, _, number = id_.rpartition("/")
    head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": model}
    yield {
        "type": "response.created",
        "sequence_number": 0,
        "response": {**head, "status": "in_progress", "output": []},
    }
    if isinstance(reply, Use):
        item: Json = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": reply.tool,
            "arguments": json.dumps(reply.arguments),
            "status": "completed",
        }
    else:
        text = {"type": "output_text", "text": reply, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    yield {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": item}
    usage = {
        "input_tokens": USAGE[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(USAGE),
    }
    done = {**head, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "sequence_number": 2, "response": done}
