"""What a picture alone says, as people send it in a reaction (NIP-25): yes, no, stop, or the number of a choice.

Only fixed lists count: a heart, and most other pictures, are thanks.
"""

from typing import Final

YES: Final = frozenset(["+", "👍", "👌", "✅", "🤙"])
NO: Final = frozenset(["-", "👎", "❌", "🛑"])
STOP_SIGN: Final = "🛑"
STOP: Final = frozenset([STOP_SIGN, "✋"])
_KEYCAP: Final = "\u20e3"
NUMBERS: Final = (*(f"{number}\ufe0f{_KEYCAP}" for number in range(1, 10)), "🔟")
"""The pictures of 1 to 10."""
_SKIN_TONES: Final = dict.fromkeys(range(0x1F3FB, 0x1F400))
_BARE_NUMBERS: Final = tuple(number.replace("\ufe0f", "") for number in NUMBERS)


YES_BUTTON: Final = "👍"
NO_BUTTON: Final = "👎"


def without_skin_tone(text: str) -> str:
    """A text with its pictures in their plain form."""
    return text.translate(_SKIN_TONES)


def plain_picture(content: str) -> str:
    """A picture as the lists have it: without the tone of a skin and the mark of a picture."""
    return without_skin_tone(content.strip()).replace("\ufe0f", "")


def number_in(picture: str) -> int:
    """The number of a plain picture; 0 where it shows none."""
    return _BARE_NUMBERS.index(picture) + 1 if picture in _BARE_NUMBERS else 0
