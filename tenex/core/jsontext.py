"""Values as JSON text, by a writer that is made once.

`json.dumps`, and `JSONEncoder.encode` too, make the C encoder again for every call, which costs more than writing a
record or a short frame does.
"""

import json
from collections.abc import Callable
from json import encoder
from typing import Any

Writer = Callable[[Any], str]


def json_writer(
    *,
    ensure_ascii: bool = False,
    separators: tuple[str, str] = (", ", ": "),
    default: Callable[[Any], Any] | None = None,
) -> Writer:
    """What writes a value as `json.dumps` does with these arguments; may be used in any thread.

    What it gives raises TypeError and ValueError as `json.dumps` does, but RecursionError where a value holds itself.
    """
    plain = json.JSONEncoder(ensure_ascii=ensure_ascii, separators=separators, default=default, check_circular=False)
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return plain.encode
    quoted = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    item, key = separators
    # no markers, the default, the strings, no indent, the separators, not sorted, no keys skipped, NaN allowed
    chunks: Callable[[Any, int], tuple[str, ...]] = make(
        None, plain.default, quoted, None, key, item, False, False, True
    )
    return lambda value: "".join(chunks(value, 0))
