"""A graph of speakers as TOML: read with the standard library, written here.

TOML has no null. An argument that holds one anywhere makes its part be written with `json`, a JSON text of all the
arguments, in place of `args`; whoever writes by hand may do so, too. Other keys that are null are left out.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tenex.core.errors import ConfigurationError

from .dicts import parsed_json

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(data: Mapping[str, Any]) -> str:
    """A graph's dict as TOML."""
    lines = [f"initial_speaker = {_value(data['initial_speaker'])}"]
    if data["max_turns"] is not None:
        lines.append(f"max_turns = {data['max_turns']}")
    if data.get("participants"):
        lines.append(f"participants = {_value(data['participants'])}")
    lines.append(f"default_target = {_part(data['default_target'])}")
    for rule in data["transitions"]:
        lines += ["", "[[transitions]]", f"when = {_part(rule['when'])}", f"then = {_part(rule['then'])}"]
        if rule["priority"]:
            lines.append(f"priority = {rule['priority']}")
    return "\n".join(lines) + "\n"


def parsed(text: str) -> dict[str, Any]:
    """The dict of a graph written as TOML; raises ConfigurationError with line and column."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError([f"This is no TOML: {str(fault).rstrip('.')}. Mend it there."]) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(["This TOML is nested too deeply or holds a number that is too long."]) from fault
    data["default_target"] = _with_args(data.get("default_target"), "default_target")
    rules = data.get("transitions")
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        for key in ("when", "then"):
            if isinstance(rule, dict) and key in rule:
                rule[key] = _with_args(rule[key], f"transitions[{number}].{key}")
    return data


def _with_args(part: Any, where: str) -> Any:
    if not isinstance(part, dict) or not isinstance(part.get("json"), str) or "args" in part:
        return part
    try:
        args = parsed_json(part["json"])
    except ConfigurationError as fault:
        raise ConfigurationError([f"{where}.json: {sentence}" for sentence in fault.faults]) from fault
    return {**{key: value for key, value in part.items() if key != "json"}, "args": args}


def _part(part: Mapping[str, Any]) -> str:
    if not part["args"]:
        return f"{{ name = {_value(part['name'])} }}"
    if _holds_null(part["args"]):
        return f"{{ name = {_value(part['name'])}, json = {_value(json.dumps(part['args'], ensure_ascii=False))} }}"
    return f"{{ name = {_value(part['name'])}, args = {_value(part['args'])} }}"


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_null(part) for part in value.values())
    if isinstance(value, list):
        return any(_holds_null(part) for part in value)
    return value is None


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            pairs = (f"{key if _BARE.fullmatch(key) else _value(key)} = {_value(part)}" for key, part in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case list():
            return f"[{', '.join(_value(part) for part in value)}]"
        case _:
            return repr(value)
