"""What a mission returned, in the words of people."""

from collections.abc import Iterator, Mapping
from typing import Any


def result_words(value: Any) -> str:
    """A value of JSON as text: a line for each member of an object or item of a list, those within them indented."""
    if isinstance(value, (Mapping, list)) and value:
        return "\n".join(_lines(value, ""))
    return _word(value)


def _lines(value: Mapping[str, Any] | list[Any], indent: str) -> Iterator[str]:
    names: list[tuple[str, Any]]
    if isinstance(value, Mapping):
        names = [(f"{name.replace('_', ' ')}: ", each) for name, each in value.items()]
    else:
        names = [("", each) for each in value]
    for name, each in names:
        if isinstance(each, (Mapping, list)) and each:
            yield f"{indent}- {name}".rstrip()
            yield from _lines(each, f"{indent}  ")
        else:
            yield f"{indent}- {name}{_word(each)}"


def _word(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str() | int() | float() if value != "":
            return str(value)
        case _:  # null, or empty
            return "none"
