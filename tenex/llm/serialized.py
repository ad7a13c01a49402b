"""The bytes of a request in the order in which vendors' caches read it: tools, then system, then messages."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from tenex.core.messages import ModelRequest

from .messages import messages
from .request_params import DECISION


def serialized(request: ModelRequest) -> bytes:
    """A line of JSON for each tool, the system prompt and each part of a message; an answer's schema is a tool."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in request.tools
    ]
    if request.output_schema is not None:
        tools.append({"name": DECISION, "parameters": request.output_schema})
    sent = messages(request.entries, "", marks_failures=False)
    parts: list[Any] = [*tools, {"system": request.system}, *(part for message in sent for part in _parts(message))]
    return b"".join(json.dumps(part, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for part in parts)


def _parts(message: ModelMessage) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        match part:
            case ToolReturnPart():
                yield {"result": part.tool_call_id, "content": part.content}
            case ToolCallPart():
                yield {"call": part.tool_call_id, "tool": part.tool_name, "arguments": part.args}
            case TextPart():
                yield {"assistant": part.content}
            case UserPromptPart():
                yield {"user": part.content}
