"""What is wrong with a call's arguments, in one sentence a model can act on."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from tenex.core.errors import InternalError

MOST_FAULTS: Final = 8
"""Faults named in one sentence: a model that sees eight mends the rest with them."""

_WORDS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Arguments:
    """Checks arguments against one tool's parameters."""

    def __init__(self, tool: str, parameters: Mapping[str, Any]) -> None:
        """Take a schema.

        Raises:
            Bug: it is no JSON Schema, or not of type object.
        """
        schema = dict(parameters)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise InternalError(f"the parameters of the tool {tool} are no JSON Schema: {error.message}") from error
        if schema.get("type") != "object":
            raise InternalError(f"the parameters of the tool {tool} must be a JSON Schema of type object")
        self._tool = tool
        # an empty registry: a schema from elsewhere must not make us fetch what its references name
        self._validator = Draft202012Validator(schema, registry=Registry())
        self._known = tuple(schema.get("properties", {}))

    def fault(self, given: Any) -> str | None:
        """Every fault of these arguments in one sentence; None if they fit."""
        found = sorted(self._validator.iter_errors(given), key=lambda error: [str(part) for part in error.path])
        if not found:
            return None
        faults = list(dict.fromkeys(sentence for error in found for sentence in _faults(error)))
        rest = len(faults) - MOST_FAULTS
        named = "; ".join(faults[:MOST_FAULTS]) + (f"; and {rest} more" if rest > 0 else "")
        takes = f"It takes: {', '.join(self._known)}." if self._known else "It takes no arguments."
        return f"{self._tool} was not called, because its arguments do not fit: {named}. {takes}"


def _faults(error: ValidationError) -> Iterable[str]:
    where = ".".join(str(part) for part in error.absolute_path)
    name = f"`{where}`" if where else "the arguments"
    prefix = f"{where}." if where else ""
    limit: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "required" if isinstance(instance, Mapping):
            return [f"`{prefix}{key}` is missing" for key in limit if key not in instance]
        case "additionalProperties" if isinstance(instance, Mapping):
            known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
            return [f"`{prefix}{str(key)[:40]}` is not known" for key in instance if key not in known]
        case "type":
            return [f"{name} must be {_kind(limit)}, not {_kind_of(instance)}"]
        case "enum":
            return [f"{name} must be one of: {', '.join(map(str, limit))}"]
        case "minLength":
            return [f"{name} must have at least {limit} characters" if limit > 1 else f"{name} must not be empty"]
        case "maxLength":
            return [f"{name} must have at most {limit} characters, not {len(instance)}"]
        case "minimum":
            return [f"{name} must be at least {limit}"]
        case "maximum":
            return [f"{name} must be at most {limit}"]
        case "maxItems":
            return [f"{name} must hold at most {limit} entries, not {len(instance)}"]
        case "minItems":
            return [f"{name} must hold at least {limit} entries"]
        case other:
            return [f"{name} breaks the schema's rule `{other}`"]


def _kind(limit: Any) -> str:
    return " or ".join(_WORDS.get(str(one), str(one)) for one in (limit if isinstance(limit, list) else [limit]))


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
