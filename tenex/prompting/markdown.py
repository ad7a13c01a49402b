"""Splits Markdown at its headings of the first two levels."""

import re
from dataclasses import dataclass

_HEADING = re.compile(r"(#{1,2})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it, up to the next heading of level one or two."""

    level: int
    """1 or 2; 0 for what stands before the first heading."""
    heading: str
    line: int
    """Counted from 1, in the file."""
    text: str
    """Without the heading, without space around it."""
    source: str
    """Heading and text exactly as they were written."""


def sections(text: str, first_line: int = 1) -> tuple[Section, ...]:
    """Split a text; a `#` inside a code fence is no heading. The first section is what stands before any heading.

    Args:
        text: Markdown; lines end in LF.
        first_line: The number of the text's first line in its file.
    """
    starts: list[tuple[int, int, str]] = [(0, 0, "")]
    lines = text.split("\n")
    fence = ""
    for index, line in enumerate(lines):
        mark = _FENCE.fullmatch(line)
        if mark is not None:
            fence = _next_fence(fence, mark.group(1), mark.group(2))
        elif not fence and (heading := _HEADING.fullmatch(line)) is not None:
            starts.append((index, len(heading.group(1)), (heading.group(2) or "").strip()))
    ends = [index for index, _, _ in starts[1:]] + [len(lines)]
    return tuple(
        Section(
            level=level,
            heading=heading,
            line=first_line + start,
            text="\n".join(lines[start + (1 if level else 0) : end]).strip(),
            source="\n".join(lines[start:end]).strip(),
        )
        for (start, level, heading), end in zip(starts, ends, strict=True)
    )


def _next_fence(fence: str, mark: str, rest: str) -> str:
    """The open fence after a line that looks like one: CommonMark closes with as many of the same, and nothing else."""
    if not fence:
        return "" if mark[0] == "`" and "`" in rest else mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip()
    return "" if closes else fence
