"""Markdown as plain text, for the kinds of events whose clients show it as it is written.

Damus, Amethyst and Primal show the asterisks of a kind 1.

What is a block, a span of code or a link is what markdown-it-py says. Only lines that hold running text are written
again, from its tokens; all other lines are copied, so blocks of code stay as they are:

    # Heading, **bold**, *italic*   without their marks
    [text](address)                 text (address)
    | a | b |                       a | b, without the line of dashes
    `code`, lists, > quotations     as they are

No letter and no digit is lost; entities in addresses are resolved. Underscores stay, since `__init__.py` is more
often a name than bold.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

LONGEST: Final = 32_000
"""Characters that are read as Markdown: hostile text takes half a second. Longer text is returned as it is."""

_MARKUP: Final = re.compile(r"[*\[<|#\\]|^[ \t>]*(?:=+|-+)[ \t]*$", re.MULTILINE)
"""Without any of these nothing changes."""
_ESCAPED: Final = frozenset("*_`#|~")
"""Marks that are written behind a backslash so that they are no Markdown."""
_CELLS: Final = re.compile(r"(?<!\\)\|")
_AROUND: Final = re.compile(r"[ \t>]*")


class _Reader(MarkdownIt):
    """Markdown whose addresses stay as they were written."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
        """An address as it is, not percent-encoded."""
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802
        """An address between angle brackets as it is."""
        return link

    def validateLink(self, url: str) -> bool:  # noqa: N802
        """Every address is one: nothing follows it here."""
        del url
        return True


@cache
def _reader() -> MarkdownIt:
    # references stay as they are, since their addresses are elsewhere; entities and escapes are looked at one by one
    return _Reader("commonmark", {"html": False}).enable("table").disable(["reference", "text_join"])


def plain_text(markdown: str) -> str:
    """Write a text without the marks of Markdown; blocks of code are unchanged."""
    if len(markdown) > LONGEST or not _MARKUP.search(markdown):
        return markdown
    tokens = _reader().parse(markdown)
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    written: list[str] = []
    done = 0
    for start, end, text in _blocks(tokens, lines):
        if start >= done:
            written += [*lines[done:start], *text]
            done = end
    return "\n".join([*written, *lines[done:]])


def _blocks(tokens: Sequence[Token], lines: Sequence[str]) -> list[tuple[int, int, list[str]]]:
    """The blocks that are written again: their first line, the line after their last, and what takes their place."""
    blocks: list[tuple[int, int, list[str]]] = []
    for index, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        text: list[str] | None = None
        if token.type == "table_open":
            text = _table(lines[start:end])
        elif token.type in ("heading_open", "paragraph_open"):
            inline = tokens[index + 1]
            is_marked = token.type == "heading_open" and token.markup.startswith("#")
            text = (
                _heading(lines[start], token.markup, inline) if is_marked else _running_text(lines[start:end], inline)
            )
        if text is not None:
            blocks.append((start, end, text))
    return blocks


def _heading(line: str, mark: str, inline: Token) -> list[str] | None:
    before, is_there, _ = line.partition(mark)
    return [before + _written(inline.children or ())] if is_there else None


def _running_text(lines: Sequence[str], inline: Token) -> list[str] | None:
    """A paragraph, or a heading with a line below it, each line behind its own spaces and marks of lists."""
    before: list[str] = []
    for content, line in zip(inline.content.split("\n"), lines, strict=False):
        source = line.rstrip()
        words = content.strip()
        if not source.endswith(words):
            return None
        before.append(source[: len(source) - len(words)])
    written = _written(inline.children or ()).split("\n")
    return [before[min(number, len(before) - 1)] + text for number, text in enumerate(written)]


def _table(lines: Sequence[str]) -> list[str]:
    """The rows of a table without the outer marks, and without the line of dashes below the first."""
    rows: list[str] = []
    for line in (*lines[:1], *lines[2:]):
        around = _AROUND.match(line)
        before = around[0] if around is not None else ""
        cells = [cell.strip() for cell in _CELLS.split(line[len(before) :].strip().strip("|"))]
        if any(cells):
            (inline,) = _reader().parseInline(" | ".join(cells))
            rows.append(before + _written(inline.children or ()))
    return rows


def _written(tokens: Sequence[Token]) -> str:
    """Running text without its marks."""
    kept = _kept_marks(tokens)
    parts: list[str] = []
    links: list[tuple[int, Token]] = []
    for index, token in enumerate(tokens):
        match token.type:
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "code_inline":
                space = " " if token.content[:1] == "`" or token.content[-1:] == "`" else ""
                parts.append(f"{token.markup}{space}{token.content}{space}{token.markup}")
            case "text_special":
                is_mark = token.info == "escape" and token.content in _ESCAPED
                parts.append(token.content if is_mark else token.markup)
            case "strong_open" | "strong_close" | "em_open" | "em_close":
                parts.append(token.markup if index in kept else "")
            case "link_open":
                links.append((len(parts), token))
            case "link_close":
                start, opened = links.pop()
                text = "".join(parts[start:])
                parts[start:] = [_link(text, opened, "href")]
            case "image":
                parts.append(_link(_written(token.children or ()), token, "src"))
            case _:
                parts.append(token.content)
    return "".join(parts)


def _link(text: str, token: Token, attribute: str) -> str:
    """A link as its text, with the address and the title behind it."""
    address = str(token.attrs.get(attribute, ""))
    title = str(token.attrs.get("title", ""))
    behind = " ".join(part for part in (address, f"“{title}”" if title else "") if part)
    shows_address = "://" in behind or "@" in behind
    if not behind or (shows_address and text in (behind, behind.removeprefix("mailto:"))):
        return text
    return f"{text} ({behind})" if text else behind


def _kept_marks(tokens: Sequence[Token]) -> set[int]:
    """The marks of emphasis that stay: underscores, and asterisks next to a letter or digit, as in `2*3*4`."""
    kept: set[int] = set()
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.type in ("strong_open", "em_open"):
            opened.append(index)
        elif token.type in ("strong_close", "em_close") and opened:
            start = opened.pop()
            before = _text(tokens, start - 1)[-1:]
            after = _text(tokens, index + 1)[:1]
            is_within_word = any(char.isascii() and char.isalnum() for char in (before, after) if char)
            if token.markup.startswith("_") or is_within_word:
                kept |= {start, index}
    return kept


def _text(tokens: Sequence[Token], index: int) -> str:
    """The words of a token; "" where it is none, or not running text."""
    is_text = 0 <= index < len(tokens) and tokens[index].type == "text"
    return tokens[index].content if is_text else ""
