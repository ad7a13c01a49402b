"""Where a state's content ends: the rules for closing delimiters, as finite automata over characters.

The parser runs them and the grammars are drawn from them, so that both have one opinion. White space is space, tab,
carriage return and line feed, nothing else.

* **A fence** is a closing delimiter made of a line feed and three or more backticks, or tildes. It closes where exactly
  that many of them begin a line and white space or the end of the output follows. The white space is not part of it.
  More of them in a row are text. Exactly that many with anything else behind them (a language, say) open a block of
  code *within* the content, and the next closing fence closes that block; blocks do not stand in blocks. Where the
  opening delimiter ends with a line feed, the content begins at the beginning of a line.
* **A mark** is any other closing delimiter, such as `</plan>`. Its first occurrence closes.

A delimiter that has begun is held back until it is certain that it is none: the held text is then content.
"""

import re
from dataclasses import dataclass, replace
from typing import Final, Protocol

WHITE: Final = " \t\r\n"
"""White space, as in JSON."""

SPACES: Final = 32
"""White space that may stand in a row where it means nothing: a model held to a grammar can write it for ever."""

Position = tuple[int, ...]

_FENCE: Final = re.compile(r"\n(`{3,}|~{3,})")


class Ending(Protocol):
    """An automaton that finds the end of a content."""

    @property
    def letters(self) -> str:
        """The characters it tells apart; all others are alike."""
        ...

    @property
    def start(self) -> Position:
        """Right behind the opening delimiter."""
        ...

    @property
    def spaced(self) -> bool:
        """Whether white space or the end of the output must follow, and the character that closes is not consumed."""
        ...

    def step(self, at: Position, character: str) -> Position | None:
        """The position after a character; None: closed."""
        ...

    def held(self, at: Position) -> int:
        """How many of the last characters are held back."""
        ...

    def closes_at_end(self, at: Position) -> bool:
        """Whether the content is closed if the output ends here."""
        ...

    def within_line(self) -> "Ending":
        """The same, for one who does not stand at the beginning of a line."""
        ...


def ending_of(delimiters: tuple[str, str]) -> Ending:
    """The automaton for a pair of delimiters."""
    opening, closing = delimiters
    fence = _FENCE.fullmatch(closing)
    if fence:
        return Fence(fence[1][0], len(fence[1]), opening.endswith("\n"))
    return Mark(closing)


@dataclass(frozen=True, slots=True)
class Fence:
    """A run of `length` equal characters alone at the beginning of a line.

    A position is (characters of the run seen since the line began, or -1 within a line; whether in a block; whether
    the line began with the opening delimiter and not with a line feed of the content).
    """

    character: str
    length: int
    at_line_start: bool

    @property
    def letters(self) -> str:
        """The character of the fence, and white space."""
        return self.character + WHITE

    @property
    def start(self) -> Position:
        """Right behind the opening delimiter."""
        return (0, 0, 1) if self.at_line_start else (-1, 0, 0)

    @property
    def spaced(self) -> bool:
        """Always: a fence stands alone."""
        return True

    def step(self, at: Position, character: str) -> Position | None:
        """See `Ending.step`."""
        run, block, first = at
        if run == self.length and character != self.character:
            if character in WHITE:
                return (_begun(character), 0, 0) if block else None
            return (-1, 1, 0)
        if run >= 0 and character == self.character:
            return (run + 1, block, first) if run < self.length else (-1, block, 0)
        return (_begun(character), block, 0)

    def held(self, at: Position) -> int:
        """See `Ending.held`."""
        run, _, first = at
        return 0 if run < 0 else run + 1 - first

    def closes_at_end(self, at: Position) -> bool:
        """See `Ending.closes_at_end`."""
        return at[0] == self.length and not at[1]

    def within_line(self) -> "Fence":
        """See `Ending.within_line`."""
        return replace(self, at_line_start=False)


def _begun(character: str) -> int:
    return 0 if character == "\n" else -1


@dataclass(frozen=True, slots=True)
class Mark:
    """A literal; a position is (how much of it the last characters are)."""

    closing: str

    @property
    def letters(self) -> str:
        """The characters of the literal, each once."""
        return "".join(dict.fromkeys(self.closing))

    @property
    def start(self) -> Position:
        """Nothing of it has been seen."""
        return (0,)

    @property
    def spaced(self) -> bool:
        """Never: whatever follows, it has closed."""
        return False

    def step(self, at: Position, character: str) -> Position | None:
        """See `Ending.step`; a step costs no more than the delimiter is long."""
        seen = self.closing[: at[0]] + character
        while seen and not self.closing.startswith(seen):
            seen = seen[1:]
        return None if len(seen) == len(self.closing) else (len(seen),)

    def held(self, at: Position) -> int:
        """See `Ending.held`."""
        return at[0]

    def closes_at_end(self, at: Position) -> bool:
        """Never: it closes when its last character comes, and then there is no position."""
        return at[0] == len(self.closing)

    def within_line(self) -> "Mark":
        """The same: lines mean nothing to it."""
        return self
