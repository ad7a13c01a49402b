"""How a server is asked to hold its model to the states, and answers that come as one JSON object.

The server compiles the grammar. Lengths of free text are left to the parser: as rules they make half a megabyte, for
which engines take half a minute. vLLM takes a structural tag and returns text; OpenAI and llama.cpp take a JSON Schema:

{"plan": [{"state": "thinking", "content": "..."}, ...], "action": {"state": "tool_call", "content": {...}}}
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from .content import JsonStateMachine, StateMachine, core_of
from .json_values import faults, moved, read
from .machine import OutputPlan
from .parser import OutputFault, Segment

Format = dict[str, Any]


def for_vllm(plan: OutputPlan) -> dict[str, Any]:
    """A structural tag for vLLM 0.12 or newer, which takes it as text."""
    return {"structured_outputs": {"structural_tag": json.dumps(structural_tag(plan))}}


def for_openai(plan: OutputPlan) -> dict[str, Any]:
    """A JSON Schema, as OpenAI and llama.cpp take it; the answer is read by `read_answer`.

    It is strict where every tool's parameters are such as strict mode takes; limits of free text are in descriptions.
    """
    schema = answer_schema(plan)
    named = {"name": "agent_output", "strict": is_strict(schema), "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def structural_tag(plan: OutputPlan) -> Format:
    """The order of the states as a structural tag of xgrammar: planning states, then one action.

    Narrower than the parser: one line feed separates states, and a text never holds its closing delimiter.
    """
    planning = _one_of(
        [
            {"type": "sequence", "elements": [_tag(content), {"type": "const_string", "value": "\n"}]}
            for name, content in plan.contents.items()
            if name in plan.planning
        ]
    )
    action = _one_of([_tag(content) for name, content in plan.contents.items() if name not in plan.planning])
    answer = action
    for loops in range(plan.most - 1, -1, -1):
        longer = {"type": "sequence", "elements": [planning, answer]}
        answer = _one_of([longer, action]) if loops >= plan.least else longer
    return {"type": "structural_tag", "format": answer}


def _tag(machine: StateMachine) -> Format:
    core = core_of(machine)
    (opening, closing) = machine.delimiters
    content = (
        {"type": "json_schema", "json_schema": core.schema}
        if isinstance(core, JsonStateMachine)
        else {"type": "any_text"}
    )
    return {"type": "tag", "begin": opening, "content": content, "end": closing}


def _one_of(options: list[Format]) -> Format:
    return options[0] if len(options) == 1 else {"type": "or", "elements": options}


_UNSTRICT: Final = frozenset({"minLength", "maxLength", "oneOf", "allOf", "not", "patternProperties", "if"})
"""Keywords that OpenAI's strict mode does not take."""


def answer_schema(plan: OutputPlan) -> dict[str, Any]:
    """The JSON Schema of an answer, with the limits of free text in descriptions: few servers take them as rules."""
    planning = [(name, content) for name, content in plan.contents.items() if name in plan.planning]
    acting = [(name, content) for name, content in plan.contents.items() if name not in plan.planning]
    values: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    if planning:
        items = {"anyOf": [_part(*one, values) for one in planning]}
        properties["plan"] = {"type": "array", "items": items, "minItems": plan.least, "maxItems": plan.most}
    properties["action"] = {"anyOf": [_part(*one, values) for one in acting]}
    return {**_object(properties), "$defs": values} if values else _object(properties)


def _part(name: str, machine: StateMachine, values: dict[str, Any]) -> dict[str, Any]:
    core = core_of(machine)
    content: Any = {"type": "string", "description": f"{machine.char_min} to {machine.char_max} characters."}
    if isinstance(core, JsonStateMachine):
        key = f"value{len(values)}"
        values[key] = moved(core.schema, f"#/$defs/{key}")
        content = {"$ref": f"#/$defs/{key}"}
    return _object({"state": {"type": "string", "const": name}, "content": content})


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


def read_answer(plan: OutputPlan, text: str) -> tuple[tuple[Segment, ...], tuple[OutputFault, ...]]:
    """The segments of an answer, and everything wrong with it; never raises. Act only where there is no fault.

    The text of a segment that is JSON is written again, without white space.
    """
    answer, fault = read(text)
    if fault:
        return (), (OutputFault("content", fault),)
    shape: dict[str, Any] = {}  # without the contents, which have better sentences of their own
    if plan.planning:
        items = _state_object(sorted(plan.planning))
        shape["plan"] = {"type": "array", "items": items, "minItems": plan.least, "maxItems": plan.most}
    shape["action"] = _state_object([name for name in plan.contents if name not in plan.planning])
    wrong = faults(answer, _object(shape), "the answer")
    if wrong:
        return (), (OutputFault("content", f"The answer does not fit: {'; '.join(wrong)}."),)
    segments = []
    found = []
    for part in (*answer.get("plan", ()), answer["action"]):
        state = part["state"]
        value = part["content"]
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


def _state_object(names: list[str]) -> dict[str, Any]:
    return _object({"state": {"enum": names}, "content": {}})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
