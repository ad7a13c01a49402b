"""JSON as a model writes it, and what is wrong with it, in sentences the model can act on.

Stricter than the standard where leniency would hide an error: a name occurs once in an object, numbers have at most 19
digits before the point, 20 after it and 2 in the exponent, a whole number has no point, halves of surrogate pairs are
refused.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from .endings import DEPTH

NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
"""19 digits hold every 64-bit number; two in the exponent cannot overflow a float."""

LOOKED_AT: Final = 256
"""Faults that are looked for: a list of a million wrong values has a million, each of which is an object."""
MOST_FAULTS: Final = 8
"""Faults reported at once: a model that sees eight fixes the rest with them."""

_HALVES: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_HALVES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number without a point",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class _Refused(ValueError):
    """What a hook of the JSON parser found."""


def _int(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise _Refused("A number has more than 19 digits.")
    return int(text)


def _float(text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise _Refused("A number has more than 19 digits before the point, 20 behind it or 2 in the exponent.")
    return float(text)


def _constant(text: str) -> float:
    raise _Refused(f"{text} is no JSON; write null or a number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("A name occurs twice in the same object.")
    return found


def read(text: str) -> tuple[Any, str]:
    """The value, or None and a sentence about what is wrong; never raises."""
    try:
        value = json.loads(
            text, parse_int=_int, parse_float=_float, parse_constant=_constant, object_pairs_hook=_object
        )
    except _Refused as error:
        return None, str(error)
    except json.JSONDecodeError as error:
        return None, f"This is no JSON: {error.msg}, line {error.lineno}, column {error.colno}."
    except (RecursionError, ValueError):
        return None, f"The JSON is nested deeper than {DEPTH} values."
    if any(match[1] for match in _ESCAPED_HALVES.finditer(text)) or _HALVES.search(text):
        return None, "A \\u escape is half of a surrogate pair; write the character itself."
    return value, ""


def _is_whole(_: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole)
)


def schema_fault(schema: Mapping[str, Any]) -> str:
    """Why this is no usable JSON Schema; empty if it is one."""
    try:
        Draft202012Validator.check_schema(dict(schema))
        # references are followed only within the schema: one from elsewhere must not make us fetch what it names
        list(_Validator(dict(schema), registry=Registry()).iter_errors({}))
    except SchemaError as error:
        return error.message
    except Unresolvable as error:
        return f"a reference cannot be followed: {error}"
    except re.error as error:
        return f"a pattern is no regular expression: {error}"
    except RecursionError:
        return "it refers to itself without an end"
    return ""


def moved(schema: Any, place: str) -> Any:
    """A schema for use within another, at a place such as `#/properties/x`: its references follow it there."""
    if isinstance(schema, Mapping):
        return {
            key: f"{place}{one[1:]}"
            if key == "$ref" and isinstance(one, str) and one.startswith("#")
            else one
            if key in _DATA
            else moved(one, place)
            for key, one in schema.items()
        }
    return [moved(one, place) for one in schema] if isinstance(schema, list | tuple) else schema


_DATA: Final = ("const", "enum", "default", "examples")
"""Keywords that hold values, not schemas."""


def faults(value: Any, schema: Mapping[str, Any], root: str = "the value") -> tuple[str, ...]:
    """Return every way in which a value breaks a schema, at most eight; `root` names the whole value. Never raises."""
    try:
        found = list(islice(_Validator(dict(schema), registry=Registry()).iter_errors(value), LOOKED_AT))
    except Exception as error:  # noqa: BLE001  a live tool's schema may be any nonsense, and output never raises
        return (f"{root} cannot be held to its schema ({type(error).__name__})",)
    found.sort(key=lambda error: [str(part) for part in error.absolute_path])
    sentences = list(dict.fromkeys(sentence for error in found for sentence in _sentences(error, root)))
    rest = len(sentences) - MOST_FAULTS
    return (*sentences[:MOST_FAULTS], *([f"and {rest} more faults"] if rest > 0 else ()))


def _sentences(error: ValidationError, root: str) -> Iterable[str]:
    where = ".".join(str(part) for part in error.absolute_path)
    name, prefix = (f"`{where}`", f"{where}.") if where else (root, "")
    limit: Any = error.validator_value
    match error.validator:
        case "required" if isinstance(error.instance, Mapping):
            return [f"`{prefix}{key}` is missing" for key in limit if key not in error.instance]
        case "additionalProperties" if isinstance(error.instance, Mapping) and isinstance(error.schema, Mapping):
            known = error.schema.get("properties", {})
            return [f"`{prefix}{str(key)[:40]}` is not known" for key in error.instance if key not in known]
        case "type":
            return [f"{name} must be {_types(limit)}"]
        case "const":
            return [f"{name} must be {json.dumps(limit, ensure_ascii=False)[:200]}"]
        case "enum":
            return [f"{name} must be one of: {', '.join(map(str, limit))[:400]}"]
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            what = "characters" if "Length" in str(error.validator) else "entries"
            bound = "at least" if str(error.validator).startswith("min") else "at most"
            return [f"{name} must have {bound} {limit} {what}"]
        case "minimum":
            return [f"{name} must be at least {limit}"]
        case "maximum":
            return [f"{name} must be at most {limit}"]
        case other:
            return [f"{name} breaks the schema's rule `{other}`"]


def _types(limit: Any) -> str:
    return " or ".join(_NAMES.get(str(one), str(one)) for one in (limit if isinstance(limit, list) else [limit]))
