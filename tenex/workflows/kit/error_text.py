"""The text of an exception as one plain sentence: no list of pydantic's, no `repr`, no line breaks."""

import re
from typing import Final

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from tenex.core.errors import words_of

LONGEST: Final = 2_000
"""Characters of an error of user code: it is shown in a thread."""
LOOKED_AT: Final = 20_000
"""Characters of a serializer's error: it repeats the value for each of its fields, and five are shown."""
SHOWN: Final = 5
"""Complaints of one validation, or exceptions of one group."""

_EXPECTED = re.compile(
    r"Expected `(?P<wanted>[^`]+)`[^\[]*\[(?:field_name='(?P<field>[^']*)', )?.*?input_type=(?P<given>[\w.]+)\]",
    re.DOTALL,
)


def sentence_of(error: BaseException) -> str:
    """Return what went wrong; the name of the error's class where it has no text."""
    match error:
        case ValidationError():
            text = complaints(error)
        case PydanticSerializationError():
            text = _of_serializer(str(error))
        case BaseExceptionGroup():
            text = "; ".join(sentence_of(inner) for inner in error.exceptions[:SHOWN])
        case KeyError() if len(error.args) == 1:
            text = f"there is no key {error.args[0]}"
        case OSError() if error.strerror:
            text = error.strerror + (f": {error.filename}" if error.filename is not None else "")
        case _:
            text = words_of(error)
    text = re.sub(r"<class '(?:[\w<>]+\.)*(\w+)'>", r"\1", " ".join(text.split()))
    return cut(text or type(error).__name__)


def complaints(error: ValidationError) -> str:
    """What pydantic has against a value, field by field."""
    parts = [f"`{'.'.join(map(str, one['loc'])) or 'it'}`: {one['msg'].lower()}" for one in error.errors()[:SHOWN]]
    return "; ".join(parts)


def cut(words: str) -> str:
    """Words that fit into a message, in characters that UTF-8 can write."""
    return words[:LONGEST].encode("utf-8", "replace").decode()


def _of_serializer(words: str) -> str:
    parts = [
        f"`{found['field'] or 'it'}`: should be {found['wanted']}, and is {found['given']}"
        for found in _EXPECTED.finditer(words[:LOOKED_AT])
    ]
    return "; ".join(parts[:SHOWN]) or words.partition("\n")[0].removeprefix("Error calling function ")
