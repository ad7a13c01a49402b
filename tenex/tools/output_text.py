"""What a program printed, as a model can read it."""

import re
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def as_printed(output: str) -> str:
    """The text without colours, without what was overwritten, and with marks for bytes that are no text."""
    lines = _ESCAPES.sub("", output).split("\n")
    seen = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("\ufffd", seen).strip("\n")
