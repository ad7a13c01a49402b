"""The shapes of what holds several values: tuples, sets and mappings.

Sets are written in order, so that equal values have equal bytes; mappings keep theirs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from .mismatch import Mismatch, Shape


def _same(value: Any) -> Any:
    return value


ANYTHING: Final = Shape(_same, _same)
"""A value that is JSON already."""


def tuple_of(item: Shape) -> Shape:
    """A tuple of any length, as an array."""
    return Shape(
        lambda values: _items(_checked(values, tuple, "a tuple"), item.encode),
        lambda values: tuple(_items(_checked(values, list, "an array"), item.decode)),
    )


def record_of(items: Sequence[Shape]) -> Shape:
    """A tuple of a fixed length, each place with a type of its own, as an array."""
    wanted = f"{len(items)} values"

    def each(values: Sequence[Any], translate: Callable[[Shape], Callable[[Any], Any]]) -> list[Any]:
        if len(values) != len(items):
            raise Mismatch(wanted, values)
        return _items(zip(items, values, strict=True), lambda pair: translate(pair[0])(pair[1]))

    return Shape(
        lambda values: each(_checked(values, tuple, "a tuple"), lambda shape: shape.encode),
        lambda values: tuple(each(_checked(values, list, "an array"), lambda shape: shape.decode)),
    )


def frozenset_of(item: Shape) -> Shape:
    """A set of what can be put in order once written, as an array."""
    return Shape(
        lambda values: sorted(_items(_checked(values, frozenset, "a set"), item.encode)),
        lambda values: frozenset(_items(_checked(values, list, "an array"), item.decode)),
    )


def mapping_of(key: Shape, item: Shape) -> Shape:
    """A mapping whose keys are texts once written, as an object."""

    def translate(values: Mapping[Any, Any], name: Callable[[Any], Any], each: Callable[[Any], Any]) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for known, value in values.items():
            try:
                out[name(known)] = each(value)
            except Mismatch as mismatch:
                mismatch.path.insert(0, "(a key)")  # the key itself may be a person's word
                raise
        return out

    def encode(values: Any) -> Any:
        if not isinstance(values, Mapping):
            raise Mismatch("an object", values)
        return translate(values, key.encode, item.encode)

    return Shape(encode, lambda values: translate(_checked(values, dict, "an object"), key.decode, item.decode))


def _checked(values: Any, kind: type, wanted: str) -> Any:
    if type(values) is not kind:
        raise Mismatch(wanted, values)
    return values


def _items(values: Iterable[Any], translate: Callable[[Any], Any]) -> list[Any]:
    out: list[Any] = []
    try:
        for value in values:
            out.append(translate(value))  # noqa: PERF401 - the handler needs to know how far it came
    except Mismatch as mismatch:
        mismatch.path.insert(0, str(len(out)))
        raise
    return out
