"""What is a clear yes or no: the whole of a text, in some languages and pictures, and nothing else."""

import unicodedata
from typing import Final

from tenex.core.cycle.reducers import ANSWER_WORDS
from tenex.core.text import plain

_YES_WORDS = "yes y yeah yep ok okay sure ja jawohl oui sí si sì sim да tak evet はい 是 是的 好的 네 👍 👌 ✅"
_NO_WORDS = "no n nope nah nein nee non não нет nie hayır いいえ 不 不是 不行 아니요 👎"
_COURTESY_WORDS = (
    "please thanks thank you bitte danke merci beaucoup por favor gracias grazie obrigado obrigada proszę пожалуйста "
    "спасибо お願いします 谢谢 sorry pardon 🙏 🙂 😊 😀 🎉 ❤"
)
_COURTESY: Final = frozenset(_COURTESY_WORDS.split())
_YES: Final = frozenset(_YES_WORDS.split())
_NO: Final = frozenset(_NO_WORDS.split())
_QUESTION_MARKS: Final = frozenset("?؟‽")
_PICTURES: Final = "👍👌✅👎🙏🙂😊😀🎉❤"
"""Each is a word, also without a space before it."""
_SKIN_TONES: Final = dict.fromkeys(range(0x1F3FB, 0x1F400))


def is_clear_yes(text: str) -> bool:
    """Whether the whole text is a yes: at most three words, all of them yes or courtesy, and no question mark."""
    return _says_only(text, _YES)


def is_clear_no(text: str) -> bool:
    """Whether the whole text is a no, likewise: it asks for nothing else."""
    return _says_only(text, _NO)


def is_courtesy(text: str) -> bool:
    """Whether a text says thanks, yes or no, and nothing else, in a few words."""
    return _says_only(text, _YES | _NO | _COURTESY)


def is_no_word(word: str) -> bool:
    """Whether a word says no."""
    return plain(word).casefold().translate(_SKIN_TONES) in _NO


def without_skin_tone(text: str) -> str:
    """A picture in its plain form."""
    return text.translate(_SKIN_TONES)


def _says_only(text: str, wanted: frozenset[str]) -> bool:
    said = plain(text).casefold().translate(_SKIN_TONES)
    for picture in _PICTURES:
        said = said.replace(picture, f" {picture} ")
    if not _QUESTION_MARKS.isdisjoint(said):
        return False
    kept = (" " if _is_punctuation(char) else char for char in said)
    words = "".join(kept).split()
    return len(words) <= ANSWER_WORDS and not wanted.isdisjoint(words) and (wanted | _COURTESY).issuperset(words)


def _is_punctuation(char: str) -> bool:
    return char in "`´\ufe0f" or unicodedata.category(char).startswith("P")
