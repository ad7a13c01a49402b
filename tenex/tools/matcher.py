"""The matcher: looks for a regular expression in texts, in a process that can be killed.

It is run as a file. Python's `re` keeps the interpreter's lock while it backtracks, so a thread is no guard: one bad
expression would stop the whole daemon. It opens no file; the texts come on standard input.

Input is JSON lines: first `{"pattern", "ignore_case", "most", "longest"}`, then `[path, text]` each. Output is one
JSON object: `{"found": [[path, line number, line], ...], "more": bool}`, or `{"fault": sentence}`.
"""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any


def search(lines: Iterable[str]) -> dict[str, Any]:
    """Answer one search."""
    rest = iter(lines)
    asked = json.loads(next(rest))
    try:
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        return {"fault": str(error)}
    found: list[list[Any]] = []
    for path, text in map(json.loads, rest):
        for number, line in enumerate(text.split("\n"), 1):
            if pattern.search(line):
                if len(found) == asked["most"]:
                    return {"found": found, "more": True}
                found.append([path, number, line[: asked["longest"]]])
    return {"found": found, "more": False}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(search(sys.stdin)))
