"""The same output as one JSON object, for servers that hold a model to a JSON Schema and to nothing else (OpenAI).

{"plan": [{"state": "thinking", "content": "..."}, ...], "action": {"state": "tool_call", "content": {...}}}
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from .content import JsonStateMachine, StateMachine, core_of
from .json_values import faults, moved, read
from .machine import AgentStateMachine, OutputPlan
from .parser import OutputFault, Segment

_UNSTRICT: Final = frozenset({"minLength", "maxLength", "oneOf", "allOf", "not", "patternProperties", "if"})
"""Keywords that OpenAI's strict mode does not take."""


def answer_schema(machine: AgentStateMachine | OutputPlan) -> dict[str, Any]:
    """The JSON Schema of an answer; the limits of free text are in it."""
    plan = _plan(machine)
    planning = [(name, content) for name, content in plan.contents.items() if name in plan.planning]
    acting = [(name, content) for name, content in plan.contents.items() if name not in plan.planning]
    values: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    if planning:
        items = {"anyOf": [_part(*one, values) for one in planning]}
        properties["plan"] = {"type": "array", "items": items, "minItems": plan.least, "maxItems": plan.most}
    properties["action"] = {"anyOf": [_part(*one, values) for one in acting]}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {**schema, "$defs": values} if values else schema


def _part(name: str, machine: StateMachine, values: dict[str, Any]) -> dict[str, Any]:
    core = core_of(machine)
    content: Any = {"type": "string", "minLength": machine.char_min, "maxLength": machine.char_max}
    if isinstance(core, JsonStateMachine):
        key = f"value{len(values)}"
        values[key] = moved(core.schema, f"#/$defs/{key}")
        content = {"$ref": f"#/$defs/{key}"}
    properties = {"state": {"type": "string", "const": name}, "content": content}
    return {"type": "object", "properties": properties, "required": ["state", "content"], "additionalProperties": False}


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode takes a schema: every property required and no others, no keyword it lacks."""
    if isinstance(schema, list):
        return all(is_strict(one) for one in schema)
    if not isinstance(schema, Mapping):
        return True
    if _UNSTRICT & schema.keys():
        return False
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(schema.get("properties", {})):
            return False
    return all(is_strict(one) for one in schema.values())


def without_lengths(machine: AgentStateMachine | OutputPlan) -> dict[str, Any]:
    """The schema with the limits of free text put into descriptions, for servers that do not take them as rules."""
    schema = answer_schema(machine)
    parts = [*schema["properties"].get("plan", {"items": {"anyOf": []}})["items"]["anyOf"]]
    for part in [*parts, *schema["properties"]["action"]["anyOf"]]:
        content = part["properties"]["content"]
        if content.get("type") == "string":
            least, most = content.pop("minLength"), content.pop("maxLength")
            content["description"] = f"{least} to {most} characters."
    return schema


def read_answer(
    machine: AgentStateMachine | OutputPlan, text: str
) -> tuple[tuple[Segment, ...], tuple[OutputFault, ...]]:
    """The segments of an answer, and everything wrong with it; never raises. Act only where there is no fault.

    The text of a segment that is JSON is written again, without white space.
    """
    plan = _plan(machine)
    answer, fault = read(text)
    if fault:
        return (), (OutputFault("content", fault),)
    shape = _shape(plan)
    wrong = faults(answer, shape, "the answer")
    if wrong:
        return (), (OutputFault("content", f"The answer does not fit: {'; '.join(wrong)}."),)
    segments, found = [], []
    for part in (*answer.get("plan", ()), answer["action"]):
        state, value = part["state"], part["content"]
        content = plan.contents[state]
        kept, complaints = _checked(state, content, value)
        segments.append(Segment(state, plan.role(state), kept, is_complete=not complaints))
        found += complaints
    return tuple(segments), tuple(found)


def _checked(state: str, machine: StateMachine, value: Any) -> tuple[str, list[OutputFault]]:
    core = core_of(machine)
    if isinstance(core, JsonStateMachine):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text, [OutputFault("content", f"{state}: {one}", state) for one in core.check_value(value)]
    if not isinstance(value, str):
        return "", [OutputFault("content", f"{state}: its content must be a text.", state)]
    if not machine.char_min <= len(value) <= machine.char_max:
        limits = f"{len(value)} characters; it takes {machine.char_min} to {machine.char_max}."
        return value[: machine.char_max], [OutputFault("limits", f"The length of {state} is {limits}", state)]
    return value, [OutputFault("content", f"{state}: {one}", state) for one in machine.check(value)]


def _shape(plan: OutputPlan) -> dict[str, Any]:
    """The answer without its contents, which have better sentences of their own."""
    acting = [name for name in plan.contents if name not in plan.planning]
    parts = (
        {
            "plan": {
                "type": "array",
                "items": _shell(sorted(plan.planning)),
                "minItems": plan.least,
                "maxItems": plan.most,
            }
        }
        if plan.planning
        else {}
    )
    properties = {**parts, "action": _shell(acting)}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _shell(names: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"state": {"enum": names}, "content": {}},
        "required": ["state", "content"],
        "additionalProperties": False,
    }


def _plan(machine: AgentStateMachine | OutputPlan) -> OutputPlan:
    return machine.plan() if isinstance(machine, AgentStateMachine) else machine
