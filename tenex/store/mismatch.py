"""What a shape is, and how a value says that it has another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Encoder = Callable[[Any], Any]
Decoder = Callable[[Any], Any]


class Mismatch(ValueError):
    """A JSON value is not what its place asks for; `path` grows outwards as the error travels."""

    def __init__(self, wanted: str, got: object) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.got = _JSON_NAMES.get(type(got), type(got).__name__)
        self.path: list[str] = []

    def __str__(self) -> str:
        """What was wanted where, and the kind of thing that was there."""
        return f"`{'.'.join(self.path) or 'data'}` must be {self.wanted}, but is {self.got}"


class Missing(Mismatch):
    """An object lacks a field it must have."""

    def __str__(self) -> str:
        """Which field."""
        return f"`{'.'.join(self.path)}` is missing"


_JSON_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number with a fraction",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How values of one type are written and read.

    `encode` raises `Mismatch` for a value of another type, so that nothing is written that could not be read again.
    """

    encode: Encoder
    decode: Decoder
