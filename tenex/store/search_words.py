"""Text as the index's full-text search takes it, and users' queries in SQLite's query language.

FTS5 finds words, and words are what is between spaces. Scripts that write none (Chinese, Japanese, Thai, ...) get
an invisible mark before each letter, so that their letters are words and a query in them is a phrase of letters.

A query is words that must all occur in one message, each also as the beginning of a longer word; words between double
quotes must occur whole and in that order. There is no other syntax, so no query has a syntax error.
"""

import re
import unicodedata
from typing import Final

from tenex.core.errors import UsageError
from tenex.core.text.foreign import composed

TOKENIZER: Final = "unicode61 remove_diacritics 2 categories ''L* N* Co Mn Mc''"
"""Letters without case and accents. Mn and Mc are the vowels of Devanagari and others, which would cut words in two."""

TEXT_CHARACTERS: Final = 20_000
"""Of a message; what follows them is not found. A long answer of a model has 8,000, a pasted log has no end."""

QUERY_CHARACTERS: Final = 1_000
QUERY_TERMS: Final = 32
"""Each costs a look into the index for itself and one for all words it begins."""

OPEN: Final = "\x02"
CLOSE: Final = "\x03"
"""Mark the beginning and end of a match in an excerpt of SQLite; no text holds them."""

_SEAM: Final = "\u200b"
"""A space of no width: no part of a word to SQLite, nothing to an eye."""

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_SEAMS: Final = re.compile(rf"(?<=[{_UNSPACED}])(?=\w)|(?<=\w)(?=[{_UNSPACED}])")
_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\ufeff]+")
"""What SQLite cannot take, and what steers a terminal; newline and tab stay."""
_TERMS: Final = re.compile(r'"([^"]*)"?|([^\s"]+)')


def indexed(text: str) -> str:
    """A message as it goes into the index: cut, without control characters, with seams."""
    return _seamed(clean(text[:TEXT_CHARACTERS]))


def shown(excerpt: str) -> str:
    """An excerpt of the index as it was written, what matched still between `OPEN` and `CLOSE`."""
    return excerpt.replace(_SEAM, "")


def match_of(query: str, *, some: bool = False) -> str:
    """A user's query in the language of FTS5's MATCH; with `some`, one of its words is enough.

    Raises:
        UsageError: it holds no word, or too many.
    """
    if len(query) > QUERY_CHARACTERS:
        raise UsageError(f"The query has {len(query):,} characters; {QUERY_CHARACTERS:,} is the most.")
    terms = [term for quoted, word in _TERMS.findall(query) if (term := _term(quoted, word))]
    if not terms:
        raise UsageError("The query holds no word: give letters or digits to look for.")
    if len(terms) > QUERY_TERMS:
        raise UsageError(f"The query has {len(terms)} words; {QUERY_TERMS} is the most.")
    return (" OR " if some else " AND ").join(terms)


def clean(text: str) -> str:
    """Text that SQLite can store and a terminal can show, newlines kept."""
    if text.isascii() and text.isprintable():  # as ids, keys and most titles are
        return text
    return composed(_STEERING.sub(" ", text))


def _term(quoted: str, word: str) -> str:
    text = _seamed(clean(quoted or word))
    if not any(unicodedata.category(char)[0] in "LN" for char in text):
        return ""  # to SQLite it would be a phrase of no words, which occurs nowhere
    return f'"{text}"' if quoted else f'("{text}" OR "{text}"*)'  # a whole word counts more than a beginning


def _seamed(text: str) -> str:
    return text if text.isascii() else _SEAMS.sub(_SEAM, text)
