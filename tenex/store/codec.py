"""The fields of a dataclass as a JSON object: pydantic's schema of it, with the conventions of the journals.

snake_case becomes camelCase and a trailing underscore goes (`from_` is `from`). A field that equals its default is left
out, so a default that changes its value is a new version of the record. A union of dataclasses carries its member's
name under `is`. Sets are sorted, so that equal values have equal bytes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaSerializer, SchemaValidator, core_schema

from tenex.core.kind_format import FORMATS
from tenex.core.state import KindState

TAG: Final = "is"


def camel(name: str) -> str:
    """The JSON name of a field."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


# A model may send NaN: a line that goes beyond JSON is better than a conversation that can never continue.
_CONFIG: Final = ConfigDict(alias_generator=camel, strict=True, ser_json_inf_nan="constants")
_NESTED: Final = ("schema", "items_schema", "keys_schema", "values_schema", "choices", "fields", "definitions")
# Neither Python nor pydantic reads an integer of more than 4,300 digits.
_LONGEST_NUMBER: Final = 4_300
_LONG_NUMBER: Final = re.compile(rb"(?<!\d)\d{4301}")
# What pydantic writes, without an error, for a lone surrogate in the key of a mapping.
_REPLACED: Final = "\ufffd\ufffd\ufffd".encode()
_UNEXPECTED: Final = re.compile(r"Expected `([^`]+)`[^[]*\[field_name='(\w+)'")


class UnregisteredKind(Exception):
    """Data is of a kind of conversation that is not registered here."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"it is of the kind of conversation {kind[:80]!r}, which is not installed here")


class FieldsCodec:
    """Writes and reads the fields of one dataclass; its schema is compiled at first use."""

    def __init__(self, kind: type, leave_out: Iterable[str] = ()) -> None:
        self._kind = kind
        self._leave_out = frozenset(leave_out)
        self._names: set[str] = set()
        """The parts of an error's path that are names of fields and types, not text of a user."""

    def encode(self, value: Any) -> bytes:
        """The fields as a JSON object; a lone surrogate is kept, as an escape.

        Raises:
            ValueError: a field holds what its type forbids, or JSON cannot hold it; the message quotes no value.
        """
        write = self._schemas[0]
        try:
            data = write.to_json(value, by_alias=True, exclude_defaults=True, warnings="error", fallback=_as_dict)
        except PydanticSerializationError as error:
            if wrong := _UNEXPECTED.search(str(error)):
                raise ValueError(f"`{camel(wrong[2])}` must be {wrong[1]}") from None
        else:
            if len(data) > _LONGEST_NUMBER and _LONG_NUMBER.search(data):
                self.decode(data)  # what cannot be read again is not written
            if _REPLACED not in data:
                return data
        try:  # a lone surrogate has no UTF-8: escaped it survives
            data = write.to_python(value, by_alias=True, exclude_defaults=True)
            return json.dumps(data, separators=(",", ":"), default=_as_dict).encode()
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"JSON cannot hold it ({type(error).__name__})") from error

    def decode(self, data: bytes) -> dict[str, Any]:
        """The fields of a JSON object as keyword arguments.

        Raises:
            ValueError: it is not JSON, or a field is missing or wrong; the message quotes no value.
        """
        read = self._schemas[1]
        try:
            try:
                fields, _ = read.validate_json(data)
            except ValidationError as error:
                if error.errors()[0]["type"] != "json_invalid":
                    raise
                fields, _ = read.validate_python(json.loads(data), strict=False)  # lone surrogates, deep nesting
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            path = ".".join(
                str(part) if isinstance(part, int) or part in self._names else "(a key)" for part in first["loc"]
            )
            wrong = {"missing": "is missing", "union_tag_invalid": f"has an unknown `{TAG}`"}.get(first["type"])
            raise ValueError(f"`{path or 'data'}` {wrong or first['msg'].replace('Input should', 'must')}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError("its data is not JSON") from error
        return fields  # type: ignore[no-any-return]

    @cached_property
    def _schemas(self) -> tuple[SchemaSerializer, SchemaValidator]:
        schema: Any = TypeAdapter(list[self._kind], config=_CONFIG).core_schema  # type: ignore[name-defined]
        shared = {one["ref"]: one for one in schema.get("definitions", ())}
        adapted = self._adapted(schema, shared)
        whole = adapted.get("schema", adapted)["items_schema"]
        fields = next(one for one in (whole, *adapted.get("definitions", ())) if one.get("cls") is self._kind)["schema"]
        fields["fields"] = [one for one in fields["fields"] if one["name"] not in self._leave_out]
        definitions = adapted.get("definitions", [])
        return (
            SchemaSerializer(core_schema.definitions_schema(whole, definitions), {"ser_json_inf_nan": "constants"}),
            SchemaValidator(core_schema.definitions_schema(fields, definitions), {"strict": True}),
        )

    def _adapted(self, node: Any, shared: Mapping[str, Any]) -> Any:
        """A schema with tags on the members of unions, and with sorted sets."""
        if isinstance(node, list):
            return [self._adapted(one, shared) for one in node]
        if not isinstance(node, dict):
            return node
        adapted = {key: self._adapted(value, shared) if key in _NESTED else value for key, value in node.items()}
        match node["type"]:
            case "dataclass-field":
                self._names.add(node["validation_alias"])
            case "dict" if _class_of(node["values_schema"], shared) is KindState:
                return _KIND_STATES
            case "frozenset":
                adapted["serialization"] = core_schema.wrap_serializer_function_ser_schema(
                    lambda value, write: sorted(write(value))
                )
            case "union":
                kinds = [shared.get(one.get("schema_ref"), one).get("cls") for one in node["choices"]]
                if all(kinds):
                    names = [kind.__name__ for kind in kinds]
                    self._names.update(names)
                    return core_schema.tagged_union_schema(
                        dict(zip(names, adapted["choices"], strict=True)),
                        TAG,
                        serialization=core_schema.wrap_serializer_function_ser_schema(
                            lambda value, write: {TAG: type(value).__name__, **write(value)},
                            schema=adapted,
                        ),
                    )
        return adapted


def _class_of(schema: Any, shared: Mapping[str, Any]) -> Any:
    return shared.get(schema.get("schema_ref"), schema).get("cls")


def _kind_codec(kind: str) -> tuple[type[KindState], "FieldsCodec"]:
    """The class of the part of a kind, and its codec.

    Raises:
        UnregisteredKind: there is no such kind here.
    """
    state = FORMATS[kind].state if kind in FORMATS else None
    if state is None:
        raise UnregisteredKind(kind)
    if state not in _KIND_CODECS:
        _KIND_CODECS[state] = FieldsCodec(state)
    return state, _KIND_CODECS[state]


def _read_kinds(kinds: Any) -> dict[str, KindState]:
    """The parts of kinds, by the name of each."""
    if not isinstance(kinds, Mapping):
        raise ValueError("must be an object")  # noqa: TRY004 pydantic takes it for an error of the data
    parts: dict[str, KindState] = {}
    for kind, data in kinds.items():
        state, codec = _kind_codec(str(kind))
        parts[str(kind)] = state(**codec.decode(json.dumps(data).encode()))
    return parts


def _write_kinds(parts: Mapping[str, KindState]) -> dict[str, Any]:
    return {kind: json.loads(_kind_codec(kind)[1].encode(part)) for kind, part in parts.items()}


_KIND_CODECS: Final[dict[type[KindState], FieldsCodec]] = {}

_KIND_STATES: Final[Any] = core_schema.no_info_plain_validator_function(
    _read_kinds, serialization=core_schema.plain_serializer_function_ser_schema(_write_kinds)
)
"""Of `State.kinds`: which class each value has is said by its key."""


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):  # a read-only view inside what a model or a relay gave
        return dict(value)
    raise TypeError(type(value).__name__)
