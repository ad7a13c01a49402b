"""Splits Markdown at its headings of the first two levels."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class MarkdownSection:
    """A heading with its text, up to the next heading of level one or two."""

    level: int
    """1 or 2; 0 before the first heading."""
    heading: str
    line: int
    """Counted from 1, in the file."""
    text: str
    """Without the heading and surrounding space."""
    source: str
    """Heading and text as written."""


@cache
def _parser() -> MarkdownIt:
    # the text of a heading is used as it was written: parsing within it would only take time
    return MarkdownIt("commonmark").enable("heading").disable(["lheading", "html_block", "inline"])


def sections(text: str, first_line: int = 1) -> tuple[MarkdownSection, ...]:
    """Split a text; the first section is what comes before any heading, and may be empty.

    Args:
        text: Markdown; lines end in LF.
        first_line: The number of the text's first line in its file.
    """
    tokens = _parser().parse(text)
    lines = text.split("\n")
    starts: list[tuple[int, int, str]] = [(0, 0, "")]
    for token, content in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2") and token.map:
            starts.append((token.map[0], int(token.tag[1]), content.content.strip()))
    ends = [line for line, _, _ in starts[1:]] + [len(lines)]
    return tuple(
        MarkdownSection(
            level=level,
            heading=heading,
            line=first_line + start,
            text="\n".join(lines[start + (1 if level else 0) : end]).strip(),
            source="\n".join(lines[start:end]).strip(),
        )
        for (start, level, heading), end in zip(starts, ends, strict=True)
    )
