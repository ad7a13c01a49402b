"""Separates a model's thoughts, which stay private, from the text of its answer.

Models write thoughts between tags. Many chat templates put the opening tag into the prompt, so that an answer reads
`...thought</think>answer`: a closing tag that nothing opened makes a thought of all text before it.
"""

import json
import re
from typing import Final

_TAGS: Final = ("<think>", "</think>", "<thought>", "</thought>", "[THINK]", "[/THINK]")
"""DeepSeek and Qwen write the first pair, Gemma the second, Magistral the third."""

_TAG: Final = re.compile("|".join(map(re.escape, _TAGS)))
_LONGEST: Final = max(map(len, _TAGS))
_OPENING_QUOTE: Final = re.compile(r"""(?:^|[\s(\[{=,:])([`"'])$""")


class ThoughtSplitter:
    """Splits a text that arrives in pieces; each piece costs the same, however long the text before it was.

    `text` is the answer so far. `unopened`: whether a thought ended that no tag had opened: text given out before
    may then have been a thought. `has_thought`: whether a thought has been separated from the text.
    """

    def __init__(self) -> None:
        self.text = ""
        self.has_thought = False
        self.unopened = False
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

    def add(self, piece: str) -> str:
        """Take the next piece; returns the text so far, without thoughts."""
        self._pending += piece
        self._scan(is_whole=False)
        return self.text

    def end(self) -> tuple[str, str]:
        """The thoughts and the text, now that everything has come."""
        self._scan(is_whole=True)
        if self._open is not None and self._may_be_text:
            self.text += self._open + "".join(self._thought)
        elif self._open is not None:
            self._thoughts.append("".join(self._thought))
        return "\n\n".join(self._thoughts), self.text

    def _scan(self, *, is_whole: bool) -> None:
        at = 0
        while tag := _TAG.search(self._pending, at):
            quote = _OPENING_QUOTE.search((self._before + self._pending[: tag.start()])[-2:])
            if quote and tag.end() == len(self._pending) and not is_whole:
                self._release(tag.start())
                return
            if quote and self._pending[tag.end() : tag.end() + 1] == quote[1]:
                at = tag.end()  # the tag is quoted: the text is about it
                continue
            self._release(tag.start())
            self._take(tag[0])
            at = 0
        self._release(len(self._pending) if is_whole else self._settled(at))

    def _take(self, tag: str) -> None:
        """Enter or leave a thought."""
        self._pending, self._before = self._pending[len(tag) :], tag[-2:]
        if "/" not in tag:
            if self._open is None:
                line = self.text.rpartition("\n")[2]
                self._open, self._may_be_text = tag, bool(line.strip())
                self.text = self.text if self.text.strip() else ""
            else:
                self._thought.append(tag)
            return
        if self._open is None:
            self._thought, self.text, self.unopened = [self.text], "", True
        self._thoughts.append("".join(self._thought))
        self._open, self._thought, self.has_thought = None, [], True

    def _settled(self, at: int) -> int:
        """Up to where nothing can belong to a tag any more."""
        for start in range(max(at, len(self._pending) - _LONGEST + 1), len(self._pending)):
            if any(tag.startswith(self._pending[start:]) for tag in _TAGS):
                return start
        return len(self._pending)

    def _release(self, end: int) -> None:
        """Pass on what is certain to be no tag."""
        piece, self._pending = self._pending[:end], self._pending[end:]
        if not piece:
            return
        self._before = (self._before + piece[-2:])[-2:]
        if self._open is not None:
            self._thought.append(piece)
        else:
            self.text += piece if self.text or not self.has_thought else piece.lstrip()


def split(text: str) -> ThoughtSplitter:
    """A whole text, split. A text that is one JSON value holds no thoughts, whatever its strings contain."""
    splitter = ThoughtSplitter()
    if text.lstrip().startswith("{") and _is_json(text):
        splitter.text = text
    else:
        splitter.add(text)
    return splitter


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
