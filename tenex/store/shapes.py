"""Our values as JSON, by their type hints: one pair of closures per type, built once.

snake_case becomes camelCase and a trailing underscore goes (`from_` is `from`). A field that equals its default is left
out, so a default that changes its value is a new version of the record. A union of dataclasses carries its member's
name under `is`. Reading is strict: a number is no truth value, a word outside an enum is no member.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

from tenex.core.errors import InternalError

from .containers import ANYTHING, frozenset_of, mapping_of, record_of, tuple_of
from .mismatch import Decoder, Encoder, Mismatch, Missing, Shape

TAG: Final = "is"


def camel(name: str) -> str:
    """The JSON name of a field."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


def shape_of(hint: Any, where: str) -> Shape:
    """The shape of a type.

    Raises:
        Bug: we cannot store that type; `where` is the field that has it.
    """
    if isinstance(hint, NewType):
        return shape_of(hint.__supertype__, where)
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(arguments, where)
    if origin is Literal:
        return _literal(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple_of(shape_of(arguments[0], where))
    if origin is tuple:
        return record_of([shape_of(argument, where) for argument in arguments])
    if origin is frozenset:
        return frozenset_of(shape_of(arguments[0], where))
    if origin in (Mapping, dict):
        return mapping_of(_key(arguments[0], where), shape_of(arguments[1], where))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return object_shape(hint)
    raise InternalError(f"{where} has the type {hint}, which the store does not know how to write")


def _key(hint: Any, where: str) -> Shape:
    """The shape of a mapping's keys, which are texts in JSON."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint is int:
        return _INTEGER_KEY
    if hint is str or (isinstance(hint, type) and issubclass(hint, Enum)):
        return shape_of(hint, where)
    raise InternalError(f"{where} has keys of the type {hint}, which the store does not know how to write")


def object_shape(kind: type, leave_out: Iterable[str] = (), tag: str | None = None) -> Shape:
    """The shape of a dataclass as an object.

    Args:
        kind: the dataclass.
        leave_out: fields that stand elsewhere; the decoder gives a dict of keyword arguments if there are any.
        tag: the value of `is`, where the object stands in a union.
    """
    hidden = frozenset(leave_out)
    hints = get_type_hints(kind)
    names: list[str] = []
    writers: list[tuple[str, Encoder, bool, Any]] = []
    readers: list[tuple[str, str, Decoder, bool]] = []
    for spec in dataclasses.fields(kind):
        if spec.name in hidden:
            continue
        shape = shape_of(hints[spec.name], f"{kind.__name__}.{spec.name}")
        optional, default = _default(spec)
        names.append(spec.name)
        writers.append((camel(spec.name), shape.encode, optional, default))
        readers.append((camel(spec.name), spec.name, shape.decode, not optional))
    keys = [key for key, _, _, _ in writers]
    if len(set(keys)) < len(keys) or TAG in keys:
        raise InternalError(f"{kind.__name__} has fields whose JSON names clash: {', '.join(sorted(keys))}")
    return Shape(_object_encoder(kind, names, writers, tag), _object_decoder(None if hidden else kind, readers))


def _default(spec: "dataclasses.Field[Any]") -> tuple[bool, Any]:
    if spec.default is not dataclasses.MISSING:
        return True, spec.default
    if spec.default_factory is not dataclasses.MISSING:
        return True, spec.default_factory()
    return False, None


def _object_encoder(
    kind: type, names: list[str], writers: list[tuple[str, Encoder, bool, Any]], tag: str | None
) -> Encoder:
    if not names:
        get: Callable[[Any], tuple[Any, ...]] = lambda _: ()  # noqa: E731 - attrgetter takes one name at least
    elif len(names) == 1:
        single = attrgetter(names[0])
        get = lambda value: (single(value),)  # noqa: E731 - attrgetter gives a bare value for one name
    else:
        get = attrgetter(*names)

    def encode(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise Mismatch(f"a {kind.__name__}", value)
        out: dict[str, Any] = {} if tag is None else {TAG: tag}
        key = ""
        try:
            for (key, write, optional, default), item in zip(writers, get(value), strict=True):
                if optional and (item is default or (default is not None and item == default)):
                    continue
                out[key] = write(item)
        except Mismatch as mismatch:
            mismatch.path.insert(0, key)
            raise
        return out

    return encode


def _object_decoder(kind: type | None, readers: list[tuple[str, str, Decoder, bool]]) -> Decoder:
    def decode(data: Any) -> Any:
        if type(data) is not dict:
            raise Mismatch("an object", data)
        arguments: dict[str, Any] = {}
        key = ""
        try:
            for key, name, read, required in readers:
                if key in data:
                    arguments[name] = read(data[key])
                elif required:
                    raise Missing("there", None)
        except Mismatch as mismatch:
            mismatch.path.insert(0, key)
            raise
        return arguments if kind is None else kind(**arguments)

    return decode


def _string(value: Any) -> Any:
    if type(value) is str or isinstance(value, str):
        return value
    raise Mismatch("a string", value)


def _integer(value: Any) -> Any:
    if type(value) is int:
        return value
    raise Mismatch("an integer", value)


def _truth(value: Any) -> Any:
    if type(value) is bool:
        return value
    raise Mismatch("true or false", value)


def _number(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is int and abs(value) < 2**53:  # beyond that a float would be another number
        return float(value)
    raise Mismatch("a number", value)


def _null(value: Any) -> Any:
    if value is None:
        return value
    raise Mismatch("null", value)


def _integer_key(text: Any) -> Any:
    if type(text) is str and text.removeprefix("-").isdecimal() and str(int(text)) == text:
        return int(text)
    raise Mismatch("an integer in quotes", text)


_INTEGER_KEY: Final = Shape(lambda value: str(_integer(value)), _integer_key)

_PLAIN: Final[dict[Any, Shape]] = {
    None: Shape(_null, _null),  # as it stands in `Mapping[str, None]`
    str: Shape(_string, _string),
    int: Shape(_integer, _integer),
    bool: Shape(_truth, _truth),
    float: Shape(_number, _number),
    Any: ANYTHING,
}


def _enum(kind: type[Enum]) -> Shape:
    by_value = {member.value: member for member in kind}
    wanted = "one of " + ", ".join(map(str, by_value))

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(wanted, value)
        return value.value

    def decode(value: Any) -> Any:
        if type(value) is str and value in by_value:
            return by_value[value]
        raise Mismatch(wanted, value)

    return Shape(encode, decode)


def _literal(allowed: tuple[Any, ...]) -> Shape:
    members = frozenset((type(word), word) for word in allowed)
    wanted = "one of " + ", ".join(map(repr, allowed))

    def check(value: Any) -> Any:
        if type(value) in (str, int, bool) and (type(value), value) in members:
            return value
        raise Mismatch(wanted, value)

    return Shape(check, check)


def _union(members: tuple[Any, ...], where: str) -> Shape:
    rest = tuple(member for member in members if member is not type(None))
    if len(rest) == 1:
        inner = shape_of(rest[0], where)
    elif all(isinstance(member, type) and dataclasses.is_dataclass(member) for member in rest):
        inner = _tagged(rest)
    else:
        raise InternalError(f"{where} may be one of several types that JSON cannot tell apart: {rest}")
    return _optional(inner) if len(rest) < len(members) else inner


def _optional(inner: Shape) -> Shape:
    write, read = inner.encode, inner.decode
    return Shape(
        lambda value: None if value is None else write(value), lambda value: None if value is None else read(value)
    )


def _tagged(members: tuple[type, ...]) -> Shape:
    shapes = {member.__name__: object_shape(member, tag=member.__name__) for member in members}
    writers = {member: shapes[member.__name__].encode for member in members}
    readers = {name: shape.decode for name, shape in shapes.items()}
    wanted = "one of " + ", ".join(shapes)

    def encode(value: Any) -> Any:
        write = writers.get(type(value))
        if write is None:
            raise Mismatch(wanted, value)
        return write(value)

    def decode(value: Any) -> Any:
        name = value.get(TAG) if type(value) is dict else None
        read = readers.get(name) if type(name) is str else None
        if read is None:
            raise Mismatch(f"an object whose `{TAG}` is {wanted}", value)
        return read(value)

    return Shape(encode, decode)
