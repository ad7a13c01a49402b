"""The calls by which an agent changes its own state, or asks for another of its phases: what is offered, and the rule.

    set_state, append_state     a field of its state, at once
    planning_to_research        a change of phase by the name of the pair, where its condition holds

They are decided in the core and never carried out, so none of them can have an unknown outcome.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tenex.core.messages import ToolSpec
from tenex.core.phases import Phase
from tenex.core.text.json_values import faults_of_value

from .program import AgentPhaseState, Ask, Program, fits

SET, APPEND = "set_state", "append_state"

LARGEST: Final = 64_000
"""Characters of an agent's whole state as JSON: it is in snapshots and may be in its prompt."""

_WORDS: Final = {"string": "text", "array": "list"}


def names(program: Program, agent_state: AgentPhaseState, conversation: Phase | None) -> tuple[str, ...]:
    """The calls an agent may make about itself in its current phase, by name; none while it reflects."""
    if conversation is Phase.REFLECTION:
        return ()
    fields = program.schema if program.is_settable else {}
    lists = any(schema.get("type") == "array" for schema in fields.values())
    return (*([SET] if fields else []), *([APPEND] if lists else []), *_triggers(program, agent_state))


def every(program: Program) -> frozenset[str]:
    """The names of all calls about the agent itself that there are in any of its phases."""
    pairs = _pairs(program) if program.has_triggers else ()
    return frozenset((SET, APPEND, *pairs) if program.is_settable else pairs)


def target_of(program: Program, trigger: str) -> str:
    """The phase a change by name leads to."""
    return _pairs(program)[trigger][1]


def _pairs(program: Program) -> dict[str, tuple[str, str]]:
    edges = program.graph.edges if program.graph is not None else ()
    return {f"{edge.source}_to_{edge.target}": (str(edge.source), str(edge.target)) for edge in edges}


def _triggers(program: Program, agent_state: AgentPhaseState) -> tuple[str, ...]:
    if not program.has_triggers:
        return ()
    return tuple(name for name, (source, _) in _pairs(program).items() if source == agent_state.phase)


def specs(program: Program, agent_state: AgentPhaseState, conversation: Phase | None) -> tuple[ToolSpec, ...]:
    """The tools an agent is offered besides its others, in a stable order."""
    offered = names(program, agent_state, conversation)
    fields = {name: _described(name, schema) for name, schema in program.schema.items()}
    lists = {name: text for name, text in fields.items() if program.schema[name].get("type") == "array"}
    listed: list[ToolSpec] = []
    if SET in offered:
        listed.append(
            _change(
                SET, "Sets a field of your own state, at once. Your phase and your tools may follow from it.", fields
            )
        )
    if APPEND in offered:
        listed.append(_change(APPEND, "Adds one item to a list of your own state, at once.", lists))
    for name in offered:
        if name in (SET, APPEND):
            continue
        text = f"Takes you from your phase {agent_state.phase} to {target_of(program, name)}, if that is permitted now."
        listed.append(ToolSpec(name=name, description=text, parameters={"type": "object", "properties": {}}))
    return tuple(listed)


def _change(name: str, description: str, fields: Mapping[str, str]) -> ToolSpec:
    described = "; ".join(fields.values())
    return ToolSpec(
        name=name,
        description=f"{description} The fields: {described}.",
        parameters={
            "type": "object",
            "properties": {
                "field": {"type": "string", "enum": list(fields), "description": "Its name."},
                "value": {"description": "A JSON value of its type." if name == SET else "The item, any JSON value."},
            },
            "required": ["field", "value"],
            "additionalProperties": False,
        },
    )


def _described(name: str, schema: Mapping[str, Any]) -> str:
    about = f", {schema['description']}" if schema.get("description") else ""
    return f"`{name}` ({_kind(schema)}{about})"


def _kind(schema: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "any value"))
    return _WORDS.get(kind, kind)


def change(
    program: Program, agent_state: AgentPhaseState, tool: str, arguments: Mapping[str, Any]
) -> dict[str, Any] | str:
    """The field and its new value that a call asks for, or why it is refused."""
    name = arguments.get("field")
    fields = program.schema if tool == SET else {n: s for n, s in program.schema.items() if s.get("type") == "array"}
    if not isinstance(name, str) or name not in fields:
        return f"`field` of `{tool}` must be one of: {', '.join(fields) or 'none'}."
    if "value" not in arguments:
        return f"`{tool}` needs `value`."
    value = arguments["value"]
    if tool == APPEND:
        value = [*agent_state.values.get(name, ()), value]
    elif not fits(value, fields[name]):
        return f"{name} is not set: its value must be of type {_kind(fields[name])}."
    return unfit(agent_state, {name: value}) or {name: value}


def unfit(agent_state: AgentPhaseState, values: Mapping[str, Any]) -> str | None:
    """Why a change is refused, by any caller; None if it may be: what is no JSON, or too much of it."""
    fault = next((fault for name, value in values.items() for fault in faults_of_value(value, name)), None)
    if fault is not None:
        return f"Nothing is changed: {fault}"
    if len(json.dumps({**agent_state.values, **values})) <= LARGEST:
        return None
    return f"Nothing is changed: your whole state may have {LARGEST} characters as JSON. Keep long texts in files."


def refused_move(
    program: Program, agent_state: AgentPhaseState, tool: str, conversation: Phase | None, ask: Ask
) -> str | None:
    """Why a change of phase by name is refused; None if its condition holds."""
    source, target = _pairs(program)[tool]
    if source != agent_state.phase:
        return f"{tool} leads from {source}, and you are in {agent_state.phase}."
    reason = program.may_move(target, agent_state, conversation, ask)
    return f"{tool} is not permitted: {reason}." if reason else None
