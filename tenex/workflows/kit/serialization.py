"""Values of a workflow as JSON and back, by their types: what is journaled, and what comes back of it.

Both ways go through pydantic. A value that is written without a type must be JSON already, so that it is the same
before and after a restart.
"""

import json
import math
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import PydanticSerializationError

from tenex.core.errors import DeserializationError, SerializationError
from tenex.workflows.kit.error_text import sentence_of

T = TypeVar("T")

UNTYPED = (Any, object)


def _compiled(kind: Any) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.json_schema(mode="serialization")  # a type without a JSON form raises here
    return adapter


_cached = lru_cache(maxsize=256)(_compiled)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """The type, compiled; a step asks for it each time it runs, and compiling takes milliseconds."""
    try:
        hash(kind)
    except TypeError:
        return _compiled(kind)
    return _cached(kind)


class Typed(Generic[T]):
    """One type's way to JSON and back."""

    def __init__(self, kind: Any, what: str) -> None:
        """Compile a type.

        Raises:
            SerializationError: no value of it can be journaled; `what` names the place.
        """
        self.what = what
        self.kind = kind
        self._is_untyped = kind in UNTYPED or isinstance(kind, TypeVar)
        try:
            self._adapter = _adapter(Any if self._is_untyped else kind)
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation) as fault:
            first = str(fault).splitlines()[0]
            raise SerializationError(f"{what} cannot be journaled: {first}") from fault

    def dump(self, value: Any) -> Any:
        """The value as JSON; numbers that JSON has no word for are written as texts, which read back as numbers.

        Raises:
            SerializationError: it is not of its type, or not JSON where it has none.
        """
        if self._is_untyped:
            return self._plain(value)
        try:
            written = self._adapter.dump_python(value, mode="json", by_alias=False, warnings="error")
            self._adapter.validate_python(written, by_name=True, by_alias=False)
        except (PydanticSerializationError, ValidationError) as fault:
            raise SerializationError(
                f"{self.what} is no {_name(self.kind)} that can be journaled: {sentence_of(fault)}"
            ) from fault
        except UnicodeDecodeError as fault:  # of pydantic, which writes bytes as UTF-8
            raise SerializationError(
                f"{self.what} holds bytes that are no UTF-8 text: annotate them as `pydantic.Base64Bytes`"
            ) from fault
        return self._writable(_finite(written))

    def _plain(self, value: Any) -> Any:
        try:
            copy = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as fault:
            raise SerializationError(
                f"{self.what} has no type and is not JSON ({type(fault).__name__}): annotate it, or give plain values"
            ) from fault
        if not _same(copy, value):
            raise SerializationError(
                f"{self.what} has no type and would come back from the journal as something else: annotate it"
            )
        return self._writable(copy)

    def _writable(self, value: Any) -> Any:
        if _is_utf8(value):
            return value
        raise SerializationError(f"{self.what} holds half a character (a lone surrogate), which UTF-8 cannot write")

    def load(self, written: Any) -> Any:
        """Return the value of a JSON value.

        Raises:
            DeserializationError: it is none of this type.
        """
        if self._is_untyped:
            return json.loads(json.dumps(written))  # the journal's own value must not be changed by the caller
        try:
            return self._adapter.validate_python(written, by_name=True, by_alias=False)
        except ValidationError as fault:
            raise DeserializationError(
                f"{self.what} was journaled as something else than {_name(self.kind)}: {sentence_of(fault)}"
            ) from fault


def field_names(kind: Any) -> frozenset[str] | None:
    """The fields of a type that can be a mission's state; None if it cannot."""
    if kind is None or kind is type(None):
        return frozenset()
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return frozenset(kind.model_fields)
    if isinstance(kind, type) and is_dataclass(kind):
        return frozenset(spec.name for spec in fields(kind))
    return None


def is_text(kind: Any, name: str) -> bool:
    """Whether a state has a field of that name that holds a text."""
    hint: Any
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        hint = kind.model_fields[name].annotation if name in kind.model_fields else None
    else:
        hint = next((spec.type for spec in fields(kind) if spec.name == name), None) if is_dataclass(kind) else None
    return hint in (str, str | None, "str", "str | None")


def restore(state: Any, recorded: Any, names: frozenset[str]) -> None:
    """Give an object the recorded values of these fields, in place, since code holds on to the object."""
    for name in names:
        if isinstance(state, BaseModel):
            state.__dict__[name] = getattr(recorded, name)
            state.__pydantic_fields_set__.add(name)
        else:
            object.__setattr__(state, name, getattr(recorded, name))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _is_utf8(value: Any) -> bool:
    match value:
        case str():
            return value.isascii() or value.encode("utf-8", "replace").decode() == value
        case dict():
            return all(_is_utf8(name) and _is_utf8(item) for name, item in value.items())
        case list():
            return all(map(_is_utf8, value))
    return True


def _same(copy: Any, value: Any) -> bool:
    if type(copy) is not type(value):
        return False
    if isinstance(copy, dict):
        return copy.keys() == value.keys() and all(_same(copy[key], value[key]) for key in copy)
    if isinstance(copy, list):
        return all(map(_same, copy, value))
    return bool(copy == value)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
