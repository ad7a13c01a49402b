"""How commands speak: results on stdout, everything else on stderr, errors in one form."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.text import CONTROL, printable


def result(text: str) -> None:
    """Print what the command was asked for; what would steer a terminal is made visible."""
    sys.stdout.write(f"{printable(text)}\n")


def result_json(value: Any) -> None:
    """Print what the command was asked for, for programs; what would steer a terminal is a JSON escape."""
    result(json_escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def json_escaped(text: str) -> str:
    """The same JSON with what would steer a terminal as escapes; that stands in strings only."""
    return CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def say(text: str) -> None:
    """Tell the person something beside the result; what would steer a terminal is made visible."""
    sys.stderr.write(f"{printable(text)}\n")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under a head, in columns as wide as their widest cell."""
    lines = [tuple(name.upper() for name in head), *(tuple(one_line(text) for text in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def one_line(text: str) -> str:
    """A text of somebody else's on one line, with nothing in it that would steer a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def explain(fault: TenexError) -> str:
    """What went wrong, for the person; several faults of a configuration as a list."""
    if isinstance(fault, ConfigurationError):
        if len(fault.faults) == 1:
            return f"tenex: {fault.faults[0]}"
        listed = "\n".join(f"  - {line}" for line in fault.faults)
        return f"tenex: {len(fault.faults)} faults in the configuration:\n{listed}"
    return f"tenex: {fault}"
