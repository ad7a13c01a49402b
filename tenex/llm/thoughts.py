"""Separates a model's thoughts, which stay private, from the text of its answer.

Models write thoughts between tags. Many chat templates put the opening tag into the prompt, so that an answer reads
`...thought</think>answer`: a closing tag that nothing opened makes a thought of all text before it. Tags in code that
open and close there are shown, and no thoughts.
"""

import json
import re
from typing import Final

from .code_spans import FENCE, closes

LONGEST_FENCE: Final = 200
"""Characters of a line that opens a block of code."""

_NAMES: Final = ("think", "thinking", "thought", "reasoning")
_SPELLINGS: Final = tuple(spelling(name) for name in _NAMES for spelling in (str.lower, str.capitalize, str.upper))
_OPENING: Final = frozenset(
    {
        *(f"<{name}>" for name in (*_SPELLINGS, "seed:think", "mm:think", "antThinking", "scratchpad")),
        *("[THINK]", "◁think▷", "<|think|>", "<|thinking|>", "<|START_THINKING|>", "<|begin_of_thought|>"),
        "<|channel>thought",
    }
)
_CLOSING: Final = frozenset(
    {
        *(f"</{name}>" for name in (*_SPELLINGS, "seed:think", "mm:think", "antThinking", "scratchpad")),
        *("[/THINK]", "◁/think▷", "<|/think|>", "<|/thinking|>", "<|END_THINKING|>", "<|end_of_thought|>"),
        *("<channel|>", "[BEGIN FINAL RESPONSE]"),
    }
)
"""DeepSeek, Qwen and Granite write `<think>`, Gemma `<thought>` or a channel, Magistral `[THINK]`; the others are Nova,
Seed, MiniMax, Kimi, Command and Apriel, whose thoughts end where the final response begins."""

_TAGS: Final = (*_OPENING, *_CLOSING)
_TAG: Final = re.compile("|".join(map(re.escape, _TAGS)))
_LONGEST: Final = max(map(len, _TAGS))
_BEGINNINGS: Final = frozenset(tag[:size] for tag in _TAGS for size in range(1, len(tag)))
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
        self._fence = ""
        """What opened the block of code in which the text is."""
        self._line = ""
        """The last line of the text, as far as it has come."""
        self._shown = 0
        """Tags that opened within this code: they and those that close them are text."""
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
            begin = at = tag.end()
            if self._is_shown(tag[0], is_quoted=quote is not None and quote[1] == "`"):
                self._release(tag[0])
            else:
                self._take(tag[0])
        end = len(text) if is_whole else _settled(text, at)
        self._release(text[begin:end])
        self._pending = text[end:]

    def _is_shown(self, tag: str, *, is_quoted: bool) -> bool:
        """Whether a tag is part of a text that shows it as code; one that nothing opened there ends a thought."""
        if self._open is not None:
            return False
        if tag in _OPENING:
            self._shown += bool(self._fence or is_quoted)
            return bool(self._fence or is_quoted)
        self._shown -= 1
        return self._shown >= 0

    def _take(self, tag: str) -> None:
        """Enter or leave a thought."""
        self._before = tag[-2:]
        self._shown = 0
        if tag in _OPENING:
            if self._open is None:
                self._open, self._may_be_text = tag, not self._is_line_blank
                if not self._has_words:
                    self._clear()
            else:
                self._thought.append(tag)
            return
        if self._open is None:
            self._thought = self._text
            self.unopened = True
            self._clear()
        self._thoughts.append("".join(self._thought))
        self._open = None
        self._thought = []
        self.has_thought = True

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
        self._follow_fences(piece)
        _, newline, line = piece.rpartition("\n")
        self._is_line_blank = (self._is_line_blank or bool(newline)) and not line.strip()
        self._has_words = self._has_words or bool(piece.strip())

    def _follow_fences(self, piece: str) -> None:
        """Note whether the text is within a block of code now."""
        *ended, rest = piece.split("\n")
        for words in ended:
            line = (self._line + words)[:LONGEST_FENCE]
            self._line = ""
            if self._fence:
                self._fence = "" if closes(line, self._fence) else self._fence
            elif opened := FENCE.match(line):
                self._fence = opened[1]
            if not self._fence:
                self._shown = 0
        self._line = (self._line + rest)[:LONGEST_FENCE]

    def _clear(self) -> None:
        self._text = []
        self.length = 0
        self._has_words = False
        self._is_line_blank = True
        self._fence = ""
        self._line = ""
        self._shown = 0


def _settled(text: str, at: int) -> int:
    """Up to where nothing can belong to a tag any more."""
    for start in range(max(at, len(text) - _LONGEST + 1), len(text)):
        if text[start:] in _BEGINNINGS:
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
