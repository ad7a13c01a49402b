"""Keeps the parts of an answer that only their provider understands: signed thinking, signatures on calls.

They are stored in `ModelStep.vendor` as a JSON value: `{"by": maker, "from": {...}, "parts": [...]}`. What the step
holds itself (its text, its thinking, the names, ids and arguments of its calls) is left out and restored on the way in,
so nothing is on disk twice and the core may rename a call.
"""

import json
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from tenex.core.messages import ModelStep

BYTES: Final = 256_000
"""Of the parts as JSON: more than any vendor's thinking for one step, and a bound for the journal."""

_ORIGIN: Final = ("model_name", "provider_name", "canonical_system")
"""What decides whether signatures are given back; not the address, which may hold a password."""

_RESPONSES: Final = TypeAdapter(ModelResponse)


def kept(response: ModelResponse, step: ModelStep, maker: str) -> dict[str, Any] | None:
    """The parts of an answer to keep besides the step; None if the step holds everything."""
    if not any(_is_special(part) for part in response.parts):
        return None
    full = _RESPONSES.dump_python(response, mode="json", exclude_none=True)
    parts = []
    for part in full["parts"]:
        kind = part["part_kind"]
        if kind == "tool-call":
            parts.append(
                {name: value for name, value in part.items() if name not in ("tool_name", "args", "tool_call_id")}
            )
        elif kind in ("text", "thinking") and part["content"] == (step.text if kind == "text" else step.thinking):
            parts.append({name: value for name, value in part.items() if name != "content"})
        else:
            parts.append(part)
    value = {"by": maker, "from": {name: full[name] for name in _ORIGIN if name in full}, "parts": parts}
    return value if len(json.dumps(value)) <= BYTES else None


def _is_special(part: object) -> bool:
    if isinstance(part, TextPart | ToolCallPart):
        return bool(part.provider_details or part.id)
    return True  # thinking, and kinds that only the provider knows


def restored(step: ModelStep, maker: str) -> ModelResponse | None:
    """The answer as its provider gave it, with the current ids of its calls; None if there is nothing to restore."""
    value = step.vendor
    if not isinstance(value, dict) or value.get("by") != maker:
        return None
    calls = iter(step.calls)
    parts: list[dict[str, Any]] = []
    try:
        for part in value["parts"]:
            match part["part_kind"]:
                case "tool-call":
                    call = next(calls)
                    parts.append(
                        {**part, "tool_name": call.tool, "args": dict(call.arguments), "tool_call_id": call.id}
                    )
                case "text":
                    parts.append({"content": step.text, **part})
                case "thinking":
                    parts.append({"content": step.thinking, **part})
                case _:
                    parts.append(part)
        if next(calls, None) is not None:
            return None
        return _RESPONSES.validate_python({**value["from"], "parts": parts})
    except (ValidationError, KeyError, TypeError, StopIteration):
        return None
