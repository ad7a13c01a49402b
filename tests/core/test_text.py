"""Foreign text: what is recognised in it, what is replaced where it enters, and that no text takes long."""

import time
import unicodedata
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.text.foreign import character, composed, decode, plain, trimmed, well_formed, well_formed_value
from tenex.core.text.prose import fenced, prose, readings

ANY = st.text(st.characters(exclude_categories=()), max_size=60)
"""Any text a Python string can hold, lone surrogates too."""
VALUES = st.recursive(
    st.none() | st.integers() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


class Pair(NamedTuple):
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    text: str
    values: Any = None


@dataclass
class Open:
    text: str


def texts_of(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for part in pair for text in texts_of(part)]
        case list() | tuple():
            return [text for part in value for text in texts_of(part)]
        case Frozen():
            return [value.text, *texts_of(value.values)]
    return []


@given(VALUES)
def test_a_well_formed_value_has_utf_8_everywhere_and_stays_as_it_is(value: Any) -> None:
    done = well_formed_value(Frozen(text="x", values=value))
    for text in texts_of(done):
        text.encode()
    assert well_formed_value(done) is done, "the same object where nothing is to be replaced"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_that_has_utf_8_is_not_changed(text: str) -> None:
    assert well_formed(text) == text
    value = {"a": [text, (text,)], text: Frozen(text=text)}
    assert well_formed_value(value) is value


def test_surrogates_are_replaced_in_keys_and_in_every_kind_of_value() -> None:
    """A pair becomes its character; an object that may change is left to who made it."""
    half, whole = "a\ud800b", "a\ufffdb"
    given = Frozen(text=half, values={half: [half, (half,), Pair("x", half)], "m": MappingProxyType({half: 1})})
    wanted = Frozen(text=whole, values={whole: [whole, (whole,), Pair("x", whole)], "m": {whole: 1}})
    assert well_formed_value(given) == wanted
    assert isinstance(well_formed_value(Pair("x", half)), Pair)
    assert well_formed("\ud83d\ude00 \ude00\ud83d") == "😀 \ufffd\ufffd"
    assert well_formed_value(Open(half)).text == half


def test_json_too_deep_to_be_replaced_is_left_to_the_journal_to_refuse() -> None:
    value: Any = "\ud800"
    for _ in range(100_000):
        value = [value]
    assert well_formed_value(value) is value


@given(ANY)
def test_the_plain_form_of_a_text_is_its_own_plain_form(text: str) -> None:
    once = plain(text)
    once.encode()
    assert plain(once) == once
    assert plain(f"\ufeff{text}") == once


@pytest.mark.parametrize(
    ("text", "form"),
    [
        *((f"sta{char}tus", "status") for char in "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\u202a\u202e\u2066"),
        *((f"sta{char}tus", "status") for char in "\u2069\ufe0e\ufe0f\U000e0041\U000e0100\u180e\u034f\u3164\x00\x7f"),
        *((f"a{char}b", "a b") for char in "\xa0\u3000\u2009\u202f\u1680\u205f"),
        *((f"a{end}b", "a\nb") for end in ("\r\n", "\r", "\x85", "\u2028", "\u2029", "\v", "\f")),
        ("／ｓｔｏｐ　＠ｘ", "/stop @x"),
        ("jose\u0301", "josé"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_what_nobody_sees_is_not_recognised(text: str, form: str) -> None:
    assert plain(text) == form


def test_emoji_and_persian_are_trimmed_at_their_ends_only() -> None:
    for text in ("👩‍💻 می‌خواهم", "❤️x"):
        assert trimmed(f"\ufeff\u200b {text}\u200b\xa0\n") == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\xef\xbb\xbfa", "a"),
        ("👩‍💻\u2028x".encode(), "👩‍💻\u2028x"),
    ],
)
def test_a_file_is_read_without_the_marks_that_editors_add(data: bytes, text: str) -> None:
    assert decode(data) == text


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("a\nb".encode("utf-16"), "is UTF-16; save the file as UTF-8"),
        ("b\na".encode("utf-16-be"), "holds a NUL in line 1; save the file as UTF-8 text"),
        ("b\na".encode("utf-16-le"), "holds a NUL in line 1; save the file as UTF-8 text"),
        (b"a\nb\xff", "can't decode byte 0xff"),
    ],
)
def test_a_file_in_another_encoding_is_refused_with_the_remedy(data: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        decode(data)


def test_a_character_is_named_so_that_it_can_be_looked_for() -> None:
    assert character("“") == "U+201C LEFT DOUBLE QUOTATION MARK"
    assert character("\r") == "U+000D a control character"
    assert character("\udc80") == "U+DC80"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_text_is_composed_as_by_unicode(text: str) -> None:
    assert composed(text) == unicodedata.normalize("NFC", text)


CALLS = [
    "@planner",
    "please\n@planner",
    "> old words\n@planner new words",
    "`x` @planner",
    "```\ncode\n```\n@planner",
    "- item\n\n    @planner in the item",
    "    @planner",
    "a ` tick @planner",
    "[@planner](nostr:npub1x)",
    "#tag\n@planner",
    "say ``a ` b`` to @planner",
    "see https://x.example/a.\n@planner",
]
SILENT = [
    "`@planner`",
    "look: ``a ` @planner``",
    "```python\n@planner\ndef f(): ...\n```",
    "~~~\n@planner\n~~~",
    "```\n@planner",
    "```\n``\n@planner\n~~~\n",
    "so:\n\n    @planner\n    def f(): ...\n",
    "so:\n\n\t@planner\n",
    "> @planner do it",
    ">@planner",
    " > > @planner",
    "- > @planner",
    "＞ @planner",
    "- a\n\n      @planner",
    "https://x.example/@planner",
    "HTTPS://x.example?to=@planner",
    "www.example.com/,@planner",
    "[@planner](https://x.example)",
    "`one\n@planner two`",
]


@given(st.text(alphabet="`~ a@\n#"))
def test_a_fenced_text_is_no_prose_whatever_it_holds(text: str) -> None:
    assert prose(f"before\n{fenced(text)}\nafter").split() == ["before", "after"]


@pytest.mark.parametrize("text", CALLS)
def test_the_authors_own_words_are_prose(text: str) -> None:
    assert "@planner" in prose(text)


@pytest.mark.parametrize("text", SILENT)
def test_code_quotations_and_links_are_no_prose(text: str) -> None:
    assert "@planner" not in prose(text)
    assert "@planner" not in prose(text.replace("\n", "\r\n"))


@given(ANY)
def test_any_text_has_prose(text: str) -> None:
    for reading in readings(text):
        reading.encode()


UNITS = [
    "a",
    "`",
    "``x`",
    ">",
    "> ",
    "- ",
    "1. ",
    "    x\n",
    "```\n",
    "~~~\n",
    "[",
    "[a](",
    "\n",
    " ",
    "\t",
    "@a ",
    "*",
]
UNITS += ["a://", "a.", "www.", "\u200b", "\u0315\u0300", "\u0315", "\uff9e\u0301", "\r", "\ud800", "é", "> a\nb\n"]


@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_time_that_grows_faster_than_it(unit: str) -> None:
    """A quadratic reading of 256 kB takes minutes, the slowest linear one about a second."""
    text = unit * (262_144 // len(unit))
    began = time.process_time()
    for read in (plain, prose, trimmed, composed, well_formed):
        read(text)
        read(f"{text}x")
    assert time.process_time() - began < 15
