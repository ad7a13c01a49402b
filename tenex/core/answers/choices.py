"""Which of several choices a text means: one that says exactly that and nothing else, by its words or its number.

    blue · Blue. · “BLUE” · @executor blue    by its words
    2 · 2. · (2) · #2 · 2️⃣                     by its number, where the choices are shown with numbers

The words come first: of the choices "3", "2", "1" the text “3” means the first. A text that fits two choices means
neither.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from tenex.core.answers.pictures import number_in, plain_picture
from tenex.core.text.foreign import plain
from tenex.core.text.names import without_leading_mentions

_NUMBER: Final = re.compile(r"[(\[#\s]*([0-9]{1,2})[.)\]:\s]*")


def worded_choice(text: str, choices: Sequence[str]) -> int | None:
    """The place of the choice whose words a text has, whatever its case and what marks are around; None for none."""
    for form in (_small, _words):  # `C` and `C#` differ by a mark
        wanted = form(text)
        fitting = [place for place, choice in enumerate(choices) if form(choice) == wanted]
        if wanted and fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def chosen(text: str, choices: Sequence[str]) -> int | None:
    """The place of the choice that a text means by its words or by its number, which begins at 1; None for none."""
    said = without_leading_mentions(text)
    worded = worded_choice(said, choices)
    if worded is not None:
        return worded
    match = _NUMBER.fullmatch(plain(said).strip())
    number = int(match[1]) if match is not None else number_in(plain_picture(said))
    return number - 1 if 1 <= number <= len(choices) else None


def _small(text: str) -> str:
    return " ".join(plain(text).casefold().split())


def _words(text: str) -> str:
    """A text in small letters, without the space and the marks around it; one of marks alone as it is."""
    said = _small(text)
    start = 0
    end = len(said)
    while start < end and _is_around(said[start]):
        start += 1
    while end > start and _is_around(said[end - 1]):
        end -= 1
    return said[start:end] or said


def _is_around(char: str) -> bool:
    return char.isspace() or char == "`" or unicodedata.category(char).startswith("P")
