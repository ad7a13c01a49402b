"""Foreign text: made whole where it enters, recognised in one form, and made safe for a terminal.

A message is stored, published and shown to models as it was written: emoji are joined by a character of no width, and
Persian is spelt with one. `plain` is for recognising only: commands, names, keys, and settings that name something.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Final, Literal, TypeVar

CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 but tabs and line feeds, separators of lines, and marks that change the direction of what follows."""

_INVISIBLE_CLASS: Final = (
    # control characters that are not white space
    "\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f"
    # Default_Ignorable_Code_Point of Unicode 16: soft hyphen, joiners, direction, fillers, BOM, variations, tags
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
INVISIBLE: Final = re.compile(f"[{_INVISIBLE_CLASS}]")
"""An invisible character that is no white space."""
_BLANK: Final = re.compile(rf"[\s{_INVISIBLE_CLASS}]")
_LINE_END: Final = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_SPACE: Final = re.compile(r"[^\S\n\t ]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PIECE_LENGTH: Final = 256
_PIECE: Final = re.compile(rf"(?s).{{1,{_PIECE_LENGTH}}}(?!\S)|.{{1,{_PIECE_LENGTH}}}")
"""Normalising takes time that grows with the square of a run of combining characters: pieces bound the run."""

_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")

_NOSTR_PREFIXES: Final = ("nsec1", "ncryptsec1")
_VENDOR_PREFIXES: Final = ("gsk_", "csk-", "xai-", "pplx-", "nvapi-", "hf_", "AIza")
_NOSTR_KEY: Final = rf"(?:{'|'.join(_NOSTR_PREFIXES)})"
_VENDOR_KEY: Final = rf"(?:{'|'.join(_VENDOR_PREFIXES)})(?=[A-Za-z_-]{{0,60}}[0-9])[A-Za-z0-9_-]{{16,}}"
"""Keys of Groq, Cerebras, xAI, Perplexity, NVIDIA, Hugging Face and Google; others copy OpenAI's `sk-`.

Each has a digit near its beginning, which names such as the class `sk-toggleable__content` of HTML have not. Only the
beginning is searched for one: the text may be nothing but beginnings."""
_SECRET: Final = re.compile(
    rf"{_NOSTR_KEY}[a-z0-9]{{6,}}"
    rf"|(?<![A-Za-z0-9])(?:sk-(?=[A-Za-z_-]{{0,60}}[0-9])[A-Za-z0-9_-]{{16,}}|{_VENDOR_KEY})",
    re.IGNORECASE,
)
_KEY: Final = re.compile(
    rf"(?:{_NOSTR_KEY}|sk-).*|{_VENDOR_KEY}|[0-9a-f]{{64}}"
    # letters and digits without a break, as no name of a model or provider has them; an npub and an nprofile are public
    r"|(?!npub1|nprofile1)(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{32,}",
    re.IGNORECASE,
)
_PARTS: Final = re.compile(r"[\s:]+")
_VARIABLE: Final = re.compile(r"^[\"']?[A-Z][A-Z0-9_]*=")
HIDDEN: Final = "[redacted]"

_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:\s|\\[rn]){0,4}[A-Z][A-Za-z-]{1,20}: [^\r\n\\]{0,100}){0,4}(?:\s|\\[rn]){0,8}[A-Za-z0-9+/]{40}"
)
"""A key of TLS, SSH or PGP as text (PEM), also on one line of JSON; not where a text only names its first line."""
_KEYS_BY_START: Final = (
    *((start.lower().encode(), _SECRET) for start in (*_NOSTR_PREFIXES, *_VENDOR_PREFIXES, "sk-")),
    (b"-----begin ", _PRIVATE_KEY),
)
_LONGEST_KEY: Final = 1_000
"""Characters that are looked at from the beginning of a key on."""

Value = TypeVar("Value")


def well_formed(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which has no UTF-8; two that form a pair become their character."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_value(value: Value) -> Value:
    """The value with all texts in it well-formed, keys of mappings too: JSON, tuples, and frozen dataclasses.

    JSON lets a model write half of a surrogate pair. The same object where nothing is to be replaced.
    """
    try:
        return value if _is_well_formed(value) else _replaced(value)
    except RecursionError:  # no journal can hold it either, and says so
        return value


def plain(text: str) -> str:
    """The text in the one form in which it is recognised.

    Compatibility forms are replaced (full-width `／` is `/`), invisible characters are removed, white space but
    a tab is a space, every end of a line is a line feed.
    """
    if text.isascii() and (text.isprintable() or text.replace("\n", " ").replace("\t", " ").isprintable()):
        return text
    text = INVISIBLE.sub("", well_formed(text))
    if not text.isascii():
        text = _normalised("NFKC", text)
    if text.isprintable():
        return text
    return _SPACE.sub(" ", _LINE_END.sub("\n", text))


def composed(text: str) -> str:
    """The text in normal form NFC, in time that grows with its length only."""
    return text if text.isascii() else _normalised("NFC", text)


def trimmed(text: str) -> str:
    """The text, well-formed, without white space and invisible characters at its ends."""
    text = well_formed(text).strip()
    first = 0
    last = len(text)
    while first < last and _BLANK.match(text, first):
        first += 1
    while first < last and _BLANK.match(text, last - 1):
        last -= 1
    return text[first:last]


def decode(data: bytes) -> str:
    """What a file of text holds, without a byte order mark, its lines ending in LF.

    Raises:
        UnicodeDecodeError: a byte is not UTF-8.
        ValueError: it is UTF-16, or no text; the message is a clause about the file, with what to do.
    """
    if data.startswith(_UTF16):
        raise ValueError("is UTF-16; save the file as UTF-8")
    text = data.decode("utf-8-sig")
    before, nul, _ = text.partition("\0")
    if nul:  # UTF-16 without its mark, or no text
        line = before.count("\n") + 1
        raise ValueError(f"holds a NUL in line {line}; save the file as UTF-8 text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def character(char: str) -> str:
    """A character as a user can look for it: `U+201C LEFT DOUBLE QUOTATION MARK`."""
    name = unicodedata.name(char, "a control character" if unicodedata.category(char) == "Cc" else "")
    return f"U+{ord(char):04X} {name}".rstrip()


def printable(text: str) -> str:
    """Make characters visible that would steer a terminal; tabs and line feeds stay."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def redact(text: str) -> str:
    """Replace what looks like a secret key in a text."""
    return _SECRET.sub(HIDDEN, text)


def holds_key(data: bytes) -> bool:
    """Whether a file of any kind holds what looks like a secret key: what `redact` replaces, or a private key (PEM).

    Keys are ASCII, so without its NULs UTF-16 is read too. It is matched only where a key could begin: 20 MB of a log
    take a second or two, so call it off the loop.
    """
    octets = data.replace(b"\0", b"")
    text = octets.decode("latin-1")
    lowered = octets.lower()
    for start, key in _KEYS_BY_START:
        place = lowered.find(start)
        while place >= 0:
            if key.match(text, place, place + _LONGEST_KEY):
                return True
            place = lowered.find(start, place + 1)
    return False


def is_like_key(text: str) -> bool:
    """Whether a word, or a part of it between colons, is more like a secret key than like a name.

    Also one as it is copied from a header or a shell: `Bearer sk-...`, `export OPENAI_API_KEY="sk-..."`.
    """
    return any(_KEY.fullmatch(_VARIABLE.sub("", part).strip("'\"")) for part in _PARTS.split(plain(text)))


def _normalised(form: Literal["NFC", "NFKC"], text: str) -> str:
    pieces = _PIECE.findall(text) if len(text) > _PIECE_LENGTH else [text]
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def _is_well_formed(value: Any) -> bool:
    """Whether no text in a value holds a surrogate. Without recursion, so that no depth of JSON matters."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if not item.isascii() and _SURROGATE.search(item):
                return False
            continue
        values_of = _container(item.__class__)
        if values_of is not None:
            left += values_of(item)
    return True


@cache
def _container(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """What gives the values in a value of this class; None where it holds none."""
    if issubclass(kind, Mapping):
        return lambda mapping: chain(mapping, mapping.values())
    if issubclass(kind, list | tuple):
        return iter
    if is_dataclass(kind) and _is_frozen(kind):
        names = [field.name for field in fields(kind)]
        return lambda item: [getattr(item, name) for name in names]
    return None


def _replaced(value: Any) -> Any:
    match value:
        case str():
            text = well_formed(value)
            return value if text == value else text
        case Mapping():
            return {_replaced(key): _replaced(item) for key, item in value.items()}
        case list():
            return [_replaced(item) for item in value]
        case tuple():
            items = [_replaced(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case _ if is_dataclass(value) and not isinstance(value, type) and _is_frozen(type(value)):
            changed = {field.name: _replaced(getattr(value, field.name)) for field in fields(value) if field.init}
            return replace(value, **changed)
    return value


def _is_frozen(kind: type) -> bool:
    """Whether values of a dataclass do not change; others, as a whole state, are made of what has come in."""
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
