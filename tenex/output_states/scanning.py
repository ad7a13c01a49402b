"""Scanners of one content, a character at a time: what is content, what is held back, and whether it has closed."""

from dataclasses import dataclass, field
from typing import Protocol

from .endings import SPACES, WHITE, Ending, Position
from .json_extent import Extent


class Scanner(Protocol):
    """Reads one content."""

    closed: bool
    fault: str
    """The first thing it found wrong; it goes on to the closing delimiter."""

    def step(self, character: str) -> str:
        """The characters that are now known to be content."""
        ...

    def finish(self) -> str:
        """The output ends here: what was held back and is content; `closed` if the end closes it."""
        ...


@dataclass(slots=True)
class TextScanner:
    """Everything up to the closing delimiter."""

    ending: Ending
    closed: bool = False
    fault: str = ""
    _at: Position = field(init=False)
    _held: str = ""

    def __post_init__(self) -> None:
        self._at = self.ending.start

    def step(self, character: str) -> str:
        """See `Scanner.step`."""
        after = self.ending.step(self._at, character)
        if after is None:
            self.closed, self._held = True, ""
            return ""
        known = self._held + character
        keep = self.ending.held(after)
        self._at, self._held = after, known[len(known) - keep :]
        return known[: len(known) - keep]

    def finish(self) -> str:
        """See `Scanner.finish`."""
        self.closed = self.closed or self.ending.closes_at_end(self._at)
        held, self._held = self._held, ""
        return "" if self.closed else held


@dataclass(slots=True)
class JsonScanner:
    """White space, one object or list, white space, the closing delimiter; delimiters within strings close nothing.

    Once something is wrong it only looks for the closing delimiter, and what it passes is no content.
    """

    ending: Ending
    closed: bool = False
    fault: str = ""
    _extent: Extent | None = None
    _around: TextScanner = field(init=False)
    """Looks for the closing delimiter before the value and behind it."""
    _is_read: bool = False
    _spaces: int = 0

    def __post_init__(self) -> None:
        self._around = TextScanner(self.ending)

    def step(self, character: str) -> str:
        """See `Scanner.step`."""
        if self._extent is None and not self._is_read and character in "{[":
            self._extent, self._spaces = Extent(), 0
        if self._extent is None:
            self._look(self._around.step(character))
            return ""
        if self._extent.step(character) or self._extent.fault:
            self.fault, self._is_read = self.fault or self._extent.fault, True
            self._extent, self._around = None, TextScanner(self.ending.within_line())
        return character

    def finish(self) -> str:
        """See `Scanner.finish`."""
        if self._extent is None:
            self._look(self._around.finish())
        return ""

    def _look(self, text: str) -> None:
        self._spaces += len(text)
        self.closed = self._around.closed
        if self.fault:
            return
        if text.strip(WHITE):
            place = "Behind the JSON comes more text" if self._is_read else "Before the JSON stands text"
            self.fault = f"{place}; it must be alone between its delimiters."
        elif self._spaces > SPACES:
            self.fault = f"More than {SPACES} characters of white space stand around the JSON."
        elif self.closed and not self._is_read:
            self.fault = "There is no JSON; one object must stand between the delimiters."
        self._is_read = self._is_read or bool(self.fault)
