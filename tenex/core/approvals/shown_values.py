"""A value of a call as a person reads it: in one form that no other value has, with nothing in it hidden.

A string is shown as it is where it can be mistaken for nothing else. Every other value, and every string that could be
read as another type, has line feeds, or holds a character that a person would not see or would take for another, is
shown as JSON with that character as an escape. So two values that differ have texts that differ, and the difference can
be seen.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from tenex.core.text.foreign import CONTROL, INVISIBLE

RUN: Final = 4
"""Blanks in a row within a line that are shown as escapes: padding moves what follows out of sight."""
INDENT: Final = 40
"""Blanks at the beginning of a line that are an indentation, and shown as they are."""
MARKS: Final = 2
"""Combining marks on a letter: written languages need no more."""

_PADDING: Final = re.compile(rf"(?<=[^\n ]) {{{RUN},}}| {{{INDENT},}}")
_OTHER_TYPE: Final = re.compile(
    r"true|false|null|none|nil|undefined|nan|yes|no|on|off|[-+]?(?:inf|infinity)|[-+]?(?:\d[\d._a-fox]*|\.\d+)(?:e[-+]?\d+)?",
    re.IGNORECASE,
)
"""What could be read as a boolean, as nothing, or as a number."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORD: Final = re.compile(r"\w+")

_LOOK_ALIKE_SCRIPTS: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "OSAGE")
"""Scripts with letters that look like Latin ones, by the names of their characters in Unicode."""
_LOOK_ALIKES: Final = frozenset("асеорухһіјѕԁԛԝкмтгпиьАВСЕНІЈКМОРЅТХУѴԌԚԜαοικνρυχωγηΑΒΕΖΗΙΚΜΝΟΡΤΥΧսոհցօզգԼՏՕՍ")
"""Letters of these that look like Latin ones (Unicode's confusables.txt): a word of nothing else can be mistaken."""
_LATIN_LOOK_ALIKES: Final = re.compile("[\u0131\u0138\u017f\u01c0-\u01c3\u0237\u0250-\u02ff\u1d00-\u1dbf\ua720-\ua7ff]")
"""Letters of phonetics and the like, which look like other Latin ones."""
_PUNCTUATION: Final = frozenset(
    "\u037e\u02d0\u0589\u05c3\u2010\u2011\u2012\u2013\u2015\u2212\u2044\u2215\u2216\u29f5\u29f8\u2571\u2572\u2236\ua789"
    "\u201a\u2018\u2019\u201b\u2032\u2035\u02b9\u2223\u2217\u204e\u2043\u02d7\u2800"
)
"""Characters that look like punctuation of ASCII, or like a blank."""


def shown_value(value: Any) -> str:
    """A value in a form that no other value has."""
    if isinstance(value, str) and _is_bare(value):
        return value
    return _as_json(value)


def shown_name(name: str) -> str:
    """The name of an argument, in quotes where it is no plain one."""
    return name if _NAME.fullmatch(name) else _as_json(name)


def shown_line(line: str) -> str:
    """A line of a text: behind a blank as it is, or in quotes where something in it would not be seen."""
    is_bare = line == line.rstrip(" ") and not odd_places(line)
    return f" {line}" if is_bare else _as_json(line)


def visible(text: str) -> str:
    """A text in which nothing is hidden: what a person would not see, or take for another character, as escapes."""
    places = odd_places(text) if not text.isascii() or not text.replace("\n", "").isprintable() else frozenset()
    return _escaped(text, places) if places else text


def _is_bare(text: str) -> bool:
    if not text or "\n" in text or text != text.strip(" ") or text[0] in '"[{':
        return False
    return _OTHER_TYPE.fullmatch(text) is None and not odd_places(text)


def _as_json(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False, default=str)
    unescaped = written.replace("\\n", "\n\n")  # of the same length: blanks behind it are an indentation
    places = odd_places(unescaped) - {place for place, char in enumerate(unescaped) if char == "\n"}
    return _escaped(written, places, is_json=True)


def _escaped(text: str, places: Iterable[int], *, is_json: bool = False) -> str:
    chars = list(text)
    for place in places:
        char = chars[place]
        if is_json:
            chars[place] = "\\u0020" if char == " " else json.dumps(char)[1:-1].replace("\x7f", "\\u007f")
        else:
            chars[place] = "\\u0020" if char == " " else char.encode("unicode_escape").decode("ascii")
    return "".join(chars)


# ---- what a person would not see, or take for another character ----


def odd_places(text: str) -> frozenset[int]:
    """The places of characters that are hidden, pad a line, or look like others."""
    padding = {place for run in _PADDING.finditer(text) for place in range(*run.span())}
    if text.isascii():
        return frozenset(padding | {place for place, char in enumerate(text) if not _is_visible(char)})
    places = padding | {place for place, char in enumerate(text) if not _is_visible(char) or _is_other(char)}
    places |= _stacked(text)
    foreign = [word for word in _WORD.finditer(text) if not word[0].isascii()]
    scripts = {script for word in foreign for char in word[0] if char not in _LOOK_ALIKES for script in [_script(char)]}
    for word in foreign:
        start = word.start()
        alike = {start + index for index, char in enumerate(word[0]) if _script(char)}
        is_mixed = any((char.isascii() and char.isalpha()) or _is_latin(char) for char in word[0])
        is_like_latin = all(char in _LOOK_ALIKES or char.isascii() for char in word[0])
        if is_mixed or (is_like_latin and not any(_script(word[0][place - start]) in scripts for place in alike)):
            places |= alike
    return frozenset(places)


def _is_visible(char: str) -> bool:
    if char in "\n ":
        return True
    return not (CONTROL.match(char) or INVISIBLE.match(char) or unicodedata.category(char)[0] in "CZ")


def _is_other(char: str) -> bool:
    """Whether a character looks like one of ASCII, or like a Latin letter that it is not."""
    if char.isascii():
        return False
    if char in _PUNCTUATION or _LATIN_LOOK_ALIKES.match(char):
        return True
    return unicodedata.normalize("NFKC", char).isascii()


def _stacked(text: str) -> set[int]:
    """The places of combining marks that lie over their letter, or are more than a letter has, or have none."""
    places: set[int] = set()
    count = MARKS  # at the beginning there is no letter
    for place, char in enumerate(text):
        category = unicodedata.category(char)
        if category[0] != "M":
            count = 0 if category[0] in "LN" else MARKS
            continue
        count += 1
        if count > MARKS or category == "Me" or unicodedata.combining(char) == 1:
            places.add(place)
    return places


def _script(char: str) -> str:
    """The script of a letter, of those with letters that look like Latin ones; else ""."""
    if char.isascii():
        return ""
    name = unicodedata.name(char, "")
    return next((script for script in _LOOK_ALIKE_SCRIPTS if name.startswith(script)), "")


def _is_latin(char: str) -> bool:
    return not char.isascii() and unicodedata.name(char, "").startswith("LATIN")
