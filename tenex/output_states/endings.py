"""Where a state's content ends in a stream: scanners that take a character at a time.

White space is space, tab, carriage return and line feed, nothing else.

* **A fence** is a closing delimiter made of a line feed and three or more backticks, or tildes. It closes where exactly
  that many of them begin a line and white space or the end of the output follows. The white space is not part of it.
  More of them in a row are text. Exactly that many with anything else behind them (such as a language) open a block of
  code *within* the content, and the next closing fence closes that block; blocks do not nest. Where the opening
  delimiter ends with a line feed, the content begins at the beginning of a line.
* **A mark** is any other closing delimiter, such as `</plan>`. Its first occurrence closes.

A delimiter that has begun is held back until it is certain that it is none: the held text is then content.
"""

import re
from typing import Final, Protocol

WHITE: Final = " \t\r\n"
"""White space, as in JSON."""

SPACES: Final = 32
"""White space that may follow in a row where it means nothing: a model can write it without end."""

DEPTH: Final = 64
"""Levels of nested JSON values; no tool needs half of that."""

Delimiters = tuple[str, str]

_FENCE: Final = re.compile(r"\n(`{3,}|~{3,})")


class Scanner(Protocol):
    """Reads one content."""

    gives_back: bool
    """Whether the character that closes the content belongs to what follows."""
    closed: bool
    fault: str
    """The first error found; the scanner continues to the closing delimiter."""

    def step(self, character: str) -> str:
        """Return the characters that are now known to be content."""
        ...

    def finish(self) -> str:
        """End the output and return what was held back and is content; `closed` if the end closes it."""
        ...


def text_scanner(delimiters: Delimiters, *, is_within_line: bool = False) -> Scanner:
    """Return the scanner of free text; `is_within_line` where it does not start behind the opening delimiter."""
    opening, closing = delimiters
    if fence := _FENCE.fullmatch(closing):
        return FenceScanner(fence[1][0], len(fence[1]), opening.endswith("\n") and not is_within_line)
    return MarkScanner(closing)


class FenceScanner:
    """Free text up to a run of `length` equal characters alone at the beginning of a line."""

    gives_back = True

    def __init__(self, character: str, length: int, at_line_start: bool) -> None:
        self.closed = False
        self.fault = ""
        self._character = character
        self._length = length
        self._run = 0 if at_line_start else -1
        """Characters of the fence read since the line began; -1 within a line."""
        self._is_first = at_line_start
        """Whether the line began with the opening delimiter, not with a line feed of the content."""
        self._in_block = False
        self._held = ""

    def step(self, character: str) -> str:
        """See `Scanner.step`."""
        if self._run == self._length and character != self._character:
            if character in WHITE and not self._in_block:
                self.closed = True
                self._held = ""
                return ""
            self._in_block = character not in WHITE
        if self._run >= 0 and character == self._character:
            self._run = self._run + 1 if self._run < self._length else -1
        else:
            self._run = 0 if character == "\n" else -1
            self._is_first = False
        known = self._held + character
        certain = len(known) - (self._run + 1 - self._is_first if self._run >= 0 else 0)
        self._held = known[certain:]
        return known[:certain]

    def finish(self) -> str:
        """See `Scanner.finish`."""
        self.closed = self.closed or (self._run == self._length and not self._in_block)
        held = self._held
        self._held = ""
        return "" if self.closed else held


class MarkScanner:
    """Free text up to the first occurrence of a literal."""

    gives_back = False

    def __init__(self, closing: str) -> None:
        self.closed = False
        self.fault = ""
        self._closing = closing
        self._held = ""

    def step(self, character: str) -> str:
        """See `Scanner.step`; costs no more than the delimiter is long."""
        known = held = self._held + character
        while held and not self._closing.startswith(held):
            held = held[1:]
        self.closed = held == self._closing
        self._held = "" if self.closed else held
        return known[: len(known) - len(held)]

    def finish(self) -> str:
        """See `Scanner.finish`."""
        held = self._held
        self._held = ""
        return held


class JsonScanner:
    """White space, one object or list, white space, the closing delimiter; delimiters within strings close nothing.

    After an error it only looks for the closing delimiter, and what it passes is not content.
    """

    def __init__(self, delimiters: Delimiters) -> None:
        self.closed = False
        self.fault = ""
        self._delimiters = delimiters
        self._around = text_scanner(delimiters)
        """Looks for the closing delimiter before the value and after it."""
        self.gives_back = self._around.gives_back
        self._value: JsonExtent | None = None
        self._is_read = False
        self._spaces = 0

    def step(self, character: str) -> str:
        """See `Scanner.step`."""
        if self._value is None and not self._is_read and character in "{[":
            self._value = JsonExtent()
            self._spaces = 0
        if self._value is None:
            self._look(self._around.step(character))
            return ""
        if self._value.step(character) or self._value.fault:
            self.fault = self.fault or self._value.fault
            self._is_read = True
            self._value, self._around = None, text_scanner(self._delimiters, is_within_line=True)
        return character

    def finish(self) -> str:
        """See `Scanner.finish`."""
        if self._value is None:
            self._look(self._around.finish())
        return ""

    def _look(self, text: str) -> None:
        self._spaces += len(text)
        self.closed = self._around.closed
        if self.fault:
            return
        if text.strip(WHITE):
            place = "More text follows the JSON" if self._is_read else "Text precedes the JSON"
            self.fault = f"{place}; it must be alone between its delimiters."
        elif self._spaces > SPACES:
            self.fault = f"More than {SPACES} characters of white space surround the JSON."
        elif self.closed and not self._is_read:
            self.fault = "There is no JSON; one object must be between the delimiters."
        self._is_read = self._is_read or bool(self.fault)


class JsonExtent:
    """Finds the end of one object or list, a character at a time, without keeping any."""

    def __init__(self) -> None:
        self.fault = ""
        self._depth = self._spaces = 0
        self._in_string = self._is_escaped = False

    def step(self, character: str) -> bool:
        """Whether the value ends with this character."""
        if self._in_string:
            self._in_string = self._is_escaped or character != '"'
            self._is_escaped = character == "\\" and not self._is_escaped
            return False
        self._spaces = self._spaces + 1 if character in WHITE else 0
        if self._spaces > SPACES:
            self.fault = f"More than {SPACES} characters of white space follow in a row in the JSON."
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
            if self._depth > DEPTH:
                self.fault = f"The JSON is nested deeper than {DEPTH} values."
        elif character in "}]":
            self._depth -= 1
            return self._depth <= 0
        return False
