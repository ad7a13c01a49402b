"""Finds the code in a text in Markdown, because marks and tags that a text shows as code are part of the text."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

FENCE: Final = re.compile(r"[ \t]*(?:[-*+>] )?(`{3,}(?=[^`]*$)|~{3,})(.*)")
"""A line that opens a block; a line that closes one has no words after as many such characters, or more."""

_TICKS: Final = re.compile(r"`+")
_CODE_INDENT: Final = ("    ", "\t")


def closes(line: str, fence: str) -> bool:
    """Whether a line closes a block that was opened by `fence`."""
    words = line.strip()
    return len(words) >= len(fence) and not words.strip(fence[0])


class CodeSpans:
    """The code of a text: blocks between fences, indented blocks, and spans between backticks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans = sorted(_spans(text))
        self._starts = [start for start, _ in self._spans]

    def holds(self, at: int) -> bool:
        """Whether a position is within code."""
        place = bisect_right(self._starts, at) - 1
        return place >= 0 and at < self._spans[place][1]

    def quotes(self, start: int, end: int) -> bool:
        """Whether a piece of the text is within code or between two equal quotation marks."""
        before = self._text[start - 1 : start] if start else ""
        after = self._text[end : end + 1]
        return self.holds(start) or (bool(before) and before in "\"'`" and before == after)

    def unquoted(self, pattern: "re.Pattern[str]", start: int = 0) -> "re.Match[str] | None":
        """The first match of a pattern that is not quoted."""
        return next((found for found in pattern.finditer(self._text, start) if not self.quotes(*found.span())), None)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    at = began = paragraph = 0
    fence = ""
    is_after_blank = True
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        if fence:
            if closes(line, fence):
                yield began, end
                fence = ""
                paragraph = end
                is_after_blank = True
        elif opened := FENCE.match(line.rstrip("\r\n")):
            yield from _between_backticks(text, paragraph, at)
            fence = opened[1]
            began = at
        elif is_after_blank and at and line.startswith(_CODE_INDENT):
            yield at, end
            paragraph = end
        elif not line.strip():
            yield from _between_backticks(text, paragraph, at)
            paragraph = end
            is_after_blank = True
        else:
            is_after_blank = False
        at = end
    if fence:
        yield began, len(text)
    else:
        yield from _between_backticks(text, paragraph, at)


def _between_backticks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """From each run of backticks to the next of the same length in a paragraph."""
    runs = [run.span() for run in _TICKS.finditer(text, start, end)]
    following: dict[int, int] = {}
    closing: list[int] = [0] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = runs[place][1] - runs[place][0]
        closing[place] = following.get(length, 0)
        following[length] = place
    place = 0
    while place < len(runs):
        if closing[place]:
            yield runs[place][0], runs[closing[place]][1]
            place = closing[place]
        place += 1
