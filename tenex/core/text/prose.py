"""What a message says in its author's own words: without code, quotations and links, in which a name calls no agent.

Blocks are those of CommonMark, read by lines in one pass: a Markdown parser takes two seconds for 60 kB of nested
quotations. Two things differ on purpose. A line after a quotation is the author's, also without a blank line between
them: phones write none. And a text that begins with spaces does not begin with code.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from tenex.core.text.foreign import plain

_CODE_INDENT: Final = 4
_FENCE: Final = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
_QUOTED: Final = re.compile(r"(?:(?:[-+*]|\d{1,9}[.)]) +)*>")
_LIST: Final = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?: +|$)")
_TICKS: Final = re.compile(r"`+")
_LINK: Final = re.compile(
    r"\[[^\[\]\n]*\]\((?!nostr:)[^()\n]*\)"  # [text](address)
    r"|\b(?a:(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[!-~]*)",  # an address; beyond ASCII a sentence goes on
    re.IGNORECASE,
)


def prose(text: str) -> str:
    """The text in its plain form, a space in place of each code span and link, an empty line in place of a block."""
    text = plain(text).strip()
    if not text:
        return ""
    paragraphs = (_without_code(paragraph) for paragraph in _paragraphs(text))
    return _without_links("\n\n".join(paragraphs))


@lru_cache(maxsize=4)  # names and keys are looked for in the same text
def readings(text: str) -> tuple[str, ...]:
    """The prose of a text, as often as it can be read: a zero-width space is within a word, or is between two."""
    return tuple(prose(spelling) for spelling in _spellings(text))


@lru_cache(maxsize=4)
def folded(text: str) -> str:
    """The whole text in lower case, ten times as fast: a word that is not in it is in none of its readings."""
    return "\n".join(plain(spelling) for spelling in _spellings(text)).lower()


def _spellings(text: str) -> tuple[str, ...]:
    spaced = text.replace("\u200b", " ")
    return (text,) if spaced == text else (text, spaced)


def fenced(text: str) -> str:
    """A text as a code block of Markdown, whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _without_links(text: str) -> str:
    is_possible = "](" in text or "://" in text or "www." in text.lower()
    return _LINK.sub(" ", text) if is_possible else text


def _paragraphs(text: str) -> Iterator[str]:
    """The lines that are neither code nor quotation, joined up to the next blank line or block."""
    kept: list[str] = []
    fence = ""
    content = 0
    """Columns by which the text of the last item of a list is indented; 0 outside lists."""
    for line in text.expandtabs(4).split("\n"):
        words = line.strip(" ")
        indent = len(line) - len(line.lstrip(" "))
        if fence:
            is_end = len(words) >= len(fence) and not words.strip(fence[0])
            fence = "" if is_end else fence
            continue
        opened = _FENCE.match(words)
        is_after_text = bool(kept)
        if words and indent < content and not is_after_text:
            content = 0  # the list has ended
        is_code = indent >= content + _CODE_INDENT and not is_after_text
        if words and not is_code and not opened and not _QUOTED.match(words):
            if item := _LIST.match(words):
                content = indent + item.end()
            kept.append(words)
            continue
        if kept:
            yield "\n".join(kept)
            kept = []
        if opened and not is_code:
            fence = opened[1]
    if kept:
        yield "\n".join(kept)


def _without_code(paragraph: str) -> str:
    """A paragraph with a space in place of each code span: from a run of backticks to the next of the same length."""
    runs = [match.span() for match in _TICKS.finditer(paragraph)]
    closes: dict[int, int] = {}
    """By the place of a run, that of the next run of the same length."""
    later: dict[int, int] = {}
    for place in range(len(runs) - 1, -1, -1):
        length = runs[place][1] - runs[place][0]
        if length in later:
            closes[place] = later[length]
        later[length] = place
    parts: list[str] = []
    place = 0
    end = 0
    while place < len(runs):
        if place in closes:
            parts.append(paragraph[end : runs[place][0]])
            end = runs[closes[place]][1]
            place = closes[place]
        place += 1
    parts.append(paragraph[end:])
    return " ".join(parts)
