"""Validates a call's arguments; the error is one sentence a model can act on."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry

from tenex.core.errors import InternalError

LOOKED_AT: Final = 256
"""Errors that are looked for: a list of a million wrong values has a million, each of which is an object."""
MOST_FAULTS: Final = 8
"""Errors in one sentence: a model that sees eight fixes the rest with them."""
CHECKED_SCHEMAS: Final = 256
"""Schemas that are known to be sound: a check takes 3 ms, and a reload or a reconnected server brings the same ones."""


class Arguments:
    """Validates arguments against one tool's parameters."""

    def __init__(self, tool: str, parameters: Mapping[str, Any]) -> None:
        """Take a schema.

        Raises:
            InternalError: it is not a JSON Schema of type object.
        """
        schema = dict(parameters)
        fault = _schema_fault(json.dumps(schema))
        if fault:
            raise InternalError(f"the parameters of the tool {tool} are not a JSON Schema: {fault}")
        if schema.get("type") != "object":
            raise InternalError(f"the parameters of the tool {tool} must be a JSON Schema of type object")
        self._tool = tool
        # an empty registry: references to other schemas must not be fetched
        self._validator = Draft202012Validator(schema, registry=Registry())
        self._known = tuple(schema.get("properties", {}))

    def fault(self, given: Any) -> str | None:
        """All errors of the arguments in one sentence, without their values; None if they are valid."""
        every = islice(self._validator.iter_errors(given), LOOKED_AT)
        found = sorted(every, key=lambda error: [str(part) for part in error.path])
        if not found:
            return None
        faults = list(dict.fromkeys(sentence for error in found for sentence in _sentences(best_match([error]))))
        rest = len(faults) - MOST_FAULTS
        named = "; ".join(faults[:MOST_FAULTS]) + (f"; and {rest} more" if rest > 0 else "")
        takes = f"It takes: {', '.join(self._known)}." if self._known else "It takes no arguments."
        return f"{self._tool} was not called, because its arguments are invalid: {named}. {takes}"


@lru_cache(maxsize=CHECKED_SCHEMAS)
def _schema_fault(text: str) -> str:
    """What is wrong with a JSON Schema; "" if it is one."""
    try:
        Draft202012Validator.check_schema(json.loads(text))
    except SchemaError as error:
        return error.message
    return ""


def _sentences(error: ValidationError) -> Iterable[str]:
    where = ".".join(str(part) for part in error.absolute_path)
    prefix = f"{where}." if where else ""
    given = cast("Any", error.instance)
    limit = cast("Any", error.validator_value)
    match error.validator:
        case "required":
            return [f"`{prefix}{key}` is missing" for key in limit if key not in given]
        case "additionalProperties":
            known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
            return [f"`{prefix}{str(key)[:40]}` is not known" for key in given if key not in known]
        case rule:
            name = f"`{where}`" if where else "the arguments"
            wanted = json.dumps(limit, ensure_ascii=False)[:200]
            return [f"{name} must satisfy `{rule}: {wanted}`"]
