"""The parameters of a request to a library model, the forms of a structured answer, and a request as bytes."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from tenex.core.messages import ModelRequest, ToolSpec

from .messages import messages

DECISION: Final = "decision"
"""The name of the structured answer, and of the tool that takes it where it is asked for as a call."""


class Form(StrEnum):
    """How a structured answer is asked for."""

    NATIVE = "native"
    """The server holds the answer to the schema (`response_format` and its kin)."""
    TOOL = "tool"
    """The answer is the arguments of one call that must be made."""
    TEXT = "text"
    """The schema is part of the prompt, which every model supports."""


def best_form(model: Model[Any]) -> Form:
    """The strictest form a model is known to take."""
    if model.profile.get("supports_json_schema_output", False):
        return Form.NATIVE
    return Form.TOOL if model.profile.get("supports_tools", True) else Form.TEXT


def parameters(request: ModelRequest, form: Form) -> ModelRequestParameters:
    """Tools, system prompt and form of answer of a request; equal requests give equal parameters."""
    schema = request.output_schema
    if schema is None or form is Form.TEXT:
        system = request.system if schema is None else f"{request.system}\n\n{_in_words(schema)}".lstrip()
        return ModelRequestParameters(
            function_tools=[_tool(spec) for spec in request.tools], instruction_parts=_instructions(system)
        )
    if form is Form.NATIVE:
        wanted = OutputObjectDefinition(json_schema=dict(schema), name=DECISION)
        return ModelRequestParameters(
            output_mode="native", output_object=wanted, instruction_parts=_instructions(request.system)
        )
    tool = ToolDefinition(
        name=DECISION,
        parameters_json_schema=dict(schema),
        description="Give your decision.",
        strict=False,
        kind="output",
    )
    return ModelRequestParameters(
        output_mode="tool",
        output_tools=[tool],
        allow_text_output=False,
        instruction_parts=_instructions(request.system),
    )


def _instructions(system: str) -> list[InstructionPart]:
    return [InstructionPart(content=system)] if system else []


def _in_words(schema: Mapping[str, Any]) -> str:
    written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON object and nothing else. It must fit this JSON Schema:\n{written}"


def _tool(spec: ToolSpec) -> ToolDefinition:
    """Not strict: a strict schema would have to be rewritten, and arguments are validated in any case."""
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=dict(spec.parameters), strict=False
    )


def serialized(request: ModelRequest) -> bytes:
    """The bytes of a request in the order in which vendors' caches read it: tools, then system, then messages.

    A line of JSON for each tool, the system prompt and each part of a message; an answer's schema is a tool.
    """
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
