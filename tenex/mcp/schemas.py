"""The schema of a server's tool, as models and the validator of calls can take it: an object of JSON Schema 2020-12.

A schema is read in the draft that its `$schema` names, or in the newest in which it is valid, and rewritten. What a
provider refuses for the whole request is put so that it does not:

    no `type`                                   is that of an object
    `anyOf`, `oneOf`, `allOf`, `$ref` at the top    the properties of all of it, and the original in words
    more than a request should have, or names of properties that a provider refuses     in words alone

The server itself checks what is left out here.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry

from tenex.core.messages import cut, is_too_deep

MOST_SCHEMA: Final = 16 * 1024
"""Characters of a schema: it is in every request."""
MOST_IN_WORDS: Final = 1_000
"""Characters of a schema that stands in a description."""
MOST_MERGED: Final = 50
"""Schemas that are put together into one: more are no description of arguments."""
MOST_REASON: Final = 150

_DRAFTS: Final[tuple[Any, ...]] = (Draft202012Validator, Draft7Validator, Draft4Validator)
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_LEFT_OUT_AT_TOP: Final = (*_COMBINED, "$ref", "not", "if", "then", "else", "enum", "const", "dependentSchemas")
_OF_SCHEMAS: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords that hold schemas by name."""
_MAY_BE_FALSE: Final = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
"""Keywords that are a boolean as often as a schema, which every provider takes."""
_OF_ONE: Final = _MAY_BE_FALSE | {
    "items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames"
}  # fmt: skip
_OF_SEVERAL: Final = frozenset({*_COMBINED, "items", "prefixItems"})
_OF_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_DROPPED: Final = frozenset({"$schema", "$id", "id", "pattern", "patternProperties"})
"""Names that mean nothing here, and expressions of the server's, which may take for ever on a text."""
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names of properties that every provider takes."""


class Unusable(ValueError):
    """A schema that says what no call can fulfil, or nothing at all; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a tool takes."""

    schema: dict[str, Any]
    words: str = ""
    """For its description: what the schema does not say."""


def parameters_of(given: Any) -> Parameters:
    """What a tool takes by the schema of its server.

    Raises:
        Unusable: no model can be offered it.
    """
    if not isinstance(given, Mapping):
        raise Unusable("it has no schema of its arguments")
    if is_too_deep(given) or len(json.dumps(given)) > MOST_SCHEMA:
        return Parameters({"type": "object"}, _in_words(given) if not is_too_deep(given) else "")
    _check(given)
    schema = _rewritten(given)
    _follow_references(schema)
    top = _merged(schema, schema)
    words = _in_words(given) if any(name in schema for name in _LEFT_OUT_AT_TOP) else ""
    kind = top.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise Unusable(f"its schema is of the type {json.dumps(kind)[:40]}, and arguments are an object")
    if not all(_PROPERTY.fullmatch(name) for name in _names_of_properties(top)):
        return Parameters({"type": "object"}, _in_words(given))
    _try({**top, "type": "object"})
    return Parameters({**top, "type": "object"}, words)


def _try(schema: dict[str, Any]) -> None:
    """Check arguments by a schema that was rewritten.

    Raises:
        Unusable: it cannot be done.
    """
    try:
        Draft202012Validator.check_schema(schema)
        # an empty registry: references to other schemas must not be fetched
        for _ in Draft202012Validator(schema, registry=Registry()).iter_errors({}):
            pass
    except SchemaError as error:
        raise Unusable(_why_invalid(error)) from error
    except Exception as error:
        raise Unusable(f"no arguments can be checked by its schema ({type(error).__name__})") from error


def _why_invalid(fault: SchemaError) -> str:
    where = ".".join(str(part) for part in fault.absolute_path) or "the schema"
    return f"its schema is no JSON Schema: {where}: {cut(fault.message, MOST_REASON)}"


def _check(given: Mapping[str, Any]) -> None:
    """Check a schema by its draft, or by those that servers use where it names none.

    Raises:
        Unusable: it is not valid in it.
    """
    named = validator_for(given, default=Draft202012Validator) if "$schema" in given else None
    fault: SchemaError | None = None
    for draft in _DRAFTS if named is None else (named,):
        try:
            draft.check_schema(dict(given))
        except SchemaError as error:
            fault = fault or error
        except Exception as error:
            raise Unusable(f"its schema cannot be checked ({type(error).__name__})") from error
        else:
            return
    if fault is not None:
        raise Unusable(_why_invalid(fault))


def _rewritten(schema: Any) -> Any:
    """A schema of any draft as one of 2020-12, with what providers want and without what they refuse."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, Mapping):
        return schema
    written: dict[str, Any] = {}
    for name, part in schema.items():
        if name in _DROPPED or (isinstance(part, float) and not math.isfinite(part)):
            continue
        if name in _OF_SCHEMAS and isinstance(part, Mapping):
            written[name] = {
                key: inner if isinstance(inner, list) else _rewritten(inner) for key, inner in part.items()
            }
        elif name in _OF_ONE and isinstance(part, Mapping | bool):
            written[name] = part if name in _MAY_BE_FALSE and isinstance(part, bool) else _rewritten(part)
        elif name in _OF_SEVERAL and isinstance(part, list):
            written[name] = [_rewritten(inner) for inner in part]
        else:
            written[name] = finite(part)
    _rewrite_limits(written)
    _rewrite_items(written)
    _rewrite_dependencies(written)
    return written


def _rewrite_limits(schema: dict[str, Any]) -> None:
    """Write the limits of draft-04, which are exclusive by a boolean beside them, as numbers."""
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if not isinstance(schema.get(exclusive), bool):
            continue
        if schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)


def _rewrite_items(schema: dict[str, Any]) -> None:
    """Write the items of drafts before 2020-12, which are a list for a tuple; every list says what it has."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", {})
    kind = schema.get("type")
    is_list = kind == "array" or (isinstance(kind, list) and "array" in kind)
    if is_list and "items" not in schema:
        schema["items"] = {}


def _rewrite_dependencies(schema: dict[str, Any]) -> None:
    dependencies = schema.pop("dependencies", None)
    if not isinstance(dependencies, Mapping):
        return
    for name, wanted in dependencies.items():
        kind = "dependentRequired" if isinstance(wanted, list) else "dependentSchemas"
        schema.setdefault(kind, {})[name] = wanted


def finite(value: Any) -> Any:
    """A JSON value with null for each number that JSON cannot hold."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: finite(part) for name, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
    return value


# ---- references, and what is put together at the top ----


def _follow_references(schema: Mapping[str, Any]) -> None:
    """Look for the target of each reference: one that has none fails when a call is checked.

    Raises:
        Unusable: there is none in the schema.
    """
    for part in _parts(schema):
        reference = part.get("$ref")
        if isinstance(reference, str):
            _target(schema, reference)


def _parts(value: Any, name: str = "") -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if name not in _OF_VALUES:
            yield value
        for key, part in value.items():
            yield from _parts(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _parts(part)


def _target(schema: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    missing = Unusable(f"its schema refers to {reference[:60]}, which is not in it")
    if reference != "#" and not reference.startswith("#/"):
        raise missing
    found: Any = schema
    for step in reference[2:].split("/") if reference != "#" else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            raise missing
    if not isinstance(found, Mapping):
        raise missing
    return found


def _merged(schema: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without combinations at its top: with the properties of all, and required what all of them require."""
    parts = [part]
    for merged in parts:
        if isinstance(merged.get("$ref"), str):
            parts.append(_target(schema, merged["$ref"]))
        for name in _COMBINED:
            parts += [inner for inner in merged.get(name, ()) if isinstance(inner, Mapping)]
        if len(parts) > MOST_MERGED:
            raise Unusable("its schema puts too many others together, or refers to itself")
    top = {name: value for name, value in part.items() if name not in _LEFT_OUT_AT_TOP}
    if len(parts) == 1:
        return top
    kinds = [inner["type"] for inner in parts if "type" in inner]
    if "type" not in top and kinds and "object" not in kinds:
        top["type"] = kinds[0]
    properties: dict[str, Any] = {}
    for inner in parts:
        for name, value in inner.get("properties", {}).items():
            is_other = name in properties and properties[name] != value
            properties[name] = {} if is_other else value
    top["properties"] = properties
    top["required"] = sorted(_required(schema, part) & properties.keys())
    top.pop("additionalProperties", None)  # of one of them it says nothing about the others
    return top


def _required(schema: Mapping[str, Any], part: Mapping[str, Any]) -> set[str]:
    """The properties that a schema requires, whichever of its alternatives is meant."""
    needed = set(part.get("required", ()))
    if isinstance(part.get("$ref"), str):
        needed |= _required(schema, _target(schema, part["$ref"]))
    for inner in part.get("allOf", ()):
        needed |= _required(schema, inner)
    for name in ("anyOf", "oneOf"):
        alternatives = [_required(schema, inner) for inner in part.get(name, ())]
        if alternatives:
            needed |= set.intersection(*alternatives)
    return needed


def _names_of_properties(schema: Mapping[str, Any]) -> Iterator[str]:
    for part in _parts(schema):
        properties = part.get("properties")
        if isinstance(properties, Mapping):
            yield from properties


def _in_words(schema: Mapping[str, Any]) -> str:
    said = {name: part for name, part in schema.items() if name not in _DROPPED}
    return f"Its arguments as JSON Schema: {cut(json.dumps(finite(said), ensure_ascii=False), MOST_IN_WORDS)}"
