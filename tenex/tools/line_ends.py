"""Line ends of a text that a model changes: it is shown LF and CRLF alike and writes LF, so both count as the same.

A passage is found whatever ends its lines have, and what takes its place gets the line ends that stood there: a line
that stays as it was keeps its own, a changed one takes that of the line in whose place it stands, a new one that of the
line before it. A lone CR ends no line; it is a character as any other.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

LF: Final = "\n"
CRLF: Final = "\r\n"

MOST_COMPARED: Final = 2_000
"""Lines between the first and the last change that are compared one by one; the time grows with the square."""


def as_models_write(text: str) -> str:
    """A text with LF only."""
    return text.replace(CRLF, LF)


def passages(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """The beginning and end of each match of a passage in a text, with any line ends; matches may overlap.

    `wanted` has LF only.
    """
    pattern = re.compile("\r?\n".join(map(re.escape, wanted.split(LF))))
    found = pattern.search(text)
    while found is not None:
        yield found.span()
        start = found.start()
        found = pattern.search(text, start + (2 if text.startswith(CRLF, start) else 1))


def with_line_ends(new: str, text: str, start: int, end: int) -> str:
    """What takes the place of a passage of a text, with the line ends that stand there.

    Args:
        new: has LF only.
        text: holds the passage.
        start: where the passage begins.
        end: where it ends.
    """
    if LF not in new or CRLF not in text:
        return new
    *whole, rest = text[start:end].split(LF)
    old = [line.removesuffix("\r") for line in whole]
    ends = [CRLF if line.endswith("\r") else LF for line in whole]
    if rest:  # the last line goes on behind the passage
        old.append(rest)
        ends.append(_end_of_line(text, text.find(LF, end)))
    kinds = set(ends) - {""} or {_end_of_line(text, text.rfind(LF, 0, start)) or LF}
    if len(kinds) == 1:
        return new.replace(LF, kinds.pop())

    lines = new.split(LF)
    places = _places(old, lines if lines[-1] else lines[:-1])
    written: list[str] = []
    before = next(filter(None, ends))
    for number, line in enumerate(lines[:-1]):
        place = places.get(number)
        before = (ends[place] if place is not None else "") or before
        written += [line, before]
    return "".join([*written, lines[-1]])


def _end_of_line(text: str, position: int) -> str:
    """The line end whose LF is at a position; empty for none."""
    if position < 0:
        return ""
    return CRLF if text[max(0, position - 1) : position] == "\r" else LF


def _places(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """By the number of each new line the old line that it is, or in whose place it stands."""
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    places = {number: number for number in range(first)}
    places |= {len(new) - 1 - number: len(old) - 1 - number for number in range(last)}

    old = old[first : len(old) - last]
    new = new[first : len(new) - last]
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(old), 0, len(new))]
    if max(len(old), len(new)) <= MOST_COMPARED:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for _, old_start, old_end, new_start, new_end in blocks:
        for number in range(min(old_end - old_start, new_end - new_start)):
            places[first + new_start + number] = first + old_start + number
    return places
