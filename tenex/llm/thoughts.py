"""Separates a model's thoughts, which stay private, from the text of its answer.

Models write thoughts between tags. Many chat templates put the opening tag into the prompt, so that an answer reads
`...thought</think>answer`: a closing tag that nothing opened makes a thought of all text before it.
"""

import json
import re
from typing import Final

_TAGS: Final = (
    *("<think>", "</think>", "<thought>", "</thought>", "[THINK]", "[/THINK]", "<thinking>", "</thinking>"),
    *("<reasoning>", "</reasoning>", "<seed:think>", "</seed:think>", "◁think▷", "◁/think▷"),
)
"""DeepSeek and Qwen write the first pair, Gemma the second, Magistral the third; then Nova, Granite, Seed and Kimi."""

_TAG: Final = re.compile("|".join(map(re.escape, _TAGS)))
_LONGEST: Final = max(map(len, _TAGS))
_OPENING_QUOTE: Final = re.compile(r"""(?:^|[\s(\[{=,:])([`"'])$""")


class ThoughtSplitter:
    """Splits a text that arrives in pieces; each piece costs the same, however long the text before it was.

    `unopened`: whether a thought ended that no tag had opened: text given out before may then have been a thought.
    `has_thought`: whether a thought has been separated from the text.
    """

    def __init__(self, text: str = "") -> None:
        self.has_thought = False
        self.unopened = False
        self.length = 0
        """Characters of the text so far."""
        self._text: list[str] = []
        self._has_words = False
        """Whether the text so far is more than white space."""
        self._is_line_blank = True
        """Whether its last line is white space."""
        self._pending = ""
        """The end of what came, as long as it may be the beginning of a tag."""
        self._before = "\n"
        """The two characters before `_pending`."""
        self._open: str | None = None
        """The opening tag of the current thought; None outside of a thought."""
        self._may_be_text = False
        """Whether the current thought began within a line: it is text if it never closes."""
        self._thought: list[str] = []
        self._thoughts: list[str] = []
        if text:
            self._add_text(text)

    @property
    def text(self) -> str:
        """The text so far, without thoughts; costs as much as it is long."""
        self._text = ["".join(self._text)]
        return self._text[0]

    def add(self, piece: str) -> None:
        """Take the next piece."""
        self._pending += piece
        self._scan(is_whole=False)

    def end(self) -> tuple[str, str]:
        """The thoughts and the text, now that everything has come."""
        self._scan(is_whole=True)
        if self._open is not None and self._may_be_text:
            self._add_text(self._open + "".join(self._thought))
        elif self._open is not None:
            self._thoughts.append("".join(self._thought))
        return "\n\n".join(self._thoughts), self.text

    def _scan(self, *, is_whole: bool) -> None:
        text = self._pending
        begin = at = 0
        while tag := _TAG.search(text, at):
            before = (self._before + text[max(begin, tag.start() - 2) : tag.start()])[-2:]
            quote = _OPENING_QUOTE.search(before)
            if quote and tag.end() == len(text) and not is_whole:
                self._release(text[begin : tag.start()])
                self._pending = text[tag.start() :]
                return
            if quote and text[tag.end() : tag.end() + 1] == quote[1]:
                at = tag.end()  # the tag is quoted: the text is about it
                continue
            self._release(text[begin : tag.start()])
            self._take(tag[0])
            begin = at = tag.end()
        end = len(text) if is_whole else _settled(text, at)
        self._release(text[begin:end])
        self._pending = text[end:]

    def _take(self, tag: str) -> None:
        """Enter or leave a thought."""
        self._before = tag[-2:]
        if "/" not in tag:
            if self._open is None:
                self._open, self._may_be_text = tag, not self._is_line_blank
                if not self._has_words:
                    self._clear()
            else:
                self._thought.append(tag)
            return
        if self._open is None:
            self._thought, self.unopened = self._text, True
            self._clear()
        self._thoughts.append("".join(self._thought))
        self._open, self._thought, self.has_thought = None, [], True

    def _release(self, piece: str) -> None:
        """Pass on what is certain to be no tag."""
        if not piece:
            return
        self._before = (self._before + piece[-2:])[-2:]
        if self._open is not None:
            self._thought.append(piece)
        elif self.length or not self.has_thought:
            self._add_text(piece)
        else:
            self._add_text(piece.lstrip())

    def _add_text(self, piece: str) -> None:
        self._text.append(piece)
        self.length += len(piece)
        _, newline, line = piece.rpartition("\n")
        self._is_line_blank = (self._is_line_blank or bool(newline)) and not line.strip()
        self._has_words = self._has_words or bool(piece.strip())

    def _clear(self) -> None:
        self._text, self.length, self._has_words, self._is_line_blank = [], 0, False, True


def _settled(text: str, at: int) -> int:
    """Up to where nothing can belong to a tag any more."""
    for start in range(max(at, len(text) - _LONGEST + 1), len(text)):
        if any(tag.startswith(text[start:]) for tag in _TAGS):
            return start
    return len(text)


def split(text: str) -> ThoughtSplitter:
    """A whole text, split. A text that is one JSON value holds no thoughts, whatever its strings contain."""
    if text.lstrip().startswith("{") and _is_json(text):
        return ThoughtSplitter(text)
    splitter = ThoughtSplitter()
    splitter.add(text)
    return splitter


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def without_tags(thought: str) -> str:
    """A thought without the tags around thoughts."""
    return _TAG.sub("", thought)
