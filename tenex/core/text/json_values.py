"""Values that JSON in UTF-8 can hold: what is wrong with one, and one with containers of its own."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

DEEPEST = 32
"""Levels of lists and objects in one variable: no one writes more by hand, and a value that holds itself ends here."""
LONGEST = 4_096
"""Bits of a whole number: readers of JSON bound its digits, Python itself at 4,300."""


def plain(value: Any) -> Any:
    """The value with containers of its own, as JSON would give it back: tuples are lists. For what has no faults."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def faults_of_value(value: Any, where: str, depth: int = 0) -> Iterator[str]:
    """Why JSON in UTF-8 cannot hold a value, each reason as a sentence that begins with `where`."""
    if depth > DEEPEST:
        yield f"{where} is nested more than {DEEPEST} levels deep."
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(key, str):
                yield from faults_of_value(key, f"a key of {where}", depth + 1)
                yield from faults_of_value(part, f"{where}.{key}", depth + 1)
            else:
                yield f"{where} has a key that is no string but {type(key).__name__}."
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from faults_of_value(part, f"{where}[{place}]", depth + 1)
    else:
        yield from _faults_of_scalar(value, where)


def _faults_of_scalar(value: Any, where: str) -> Iterator[str]:
    match value:
        case None:
            pass
        case str():
            if not _is_text(value):
                yield f"{where} holds half of a surrogate pair, which is no text."
        case int():
            if value.bit_length() > LONGEST:
                yield f"{where} is a number of more than {LONGEST} bits, which other programs cannot read."
        case float():
            if not math.isfinite(value):
                yield f"{where} is {value}, which JSON has no word for."
        case _:
            yield f"{where} is a {type(value).__name__}; only values that JSON can hold are allowed."


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
