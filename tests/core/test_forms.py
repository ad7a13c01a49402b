"""A form of a server: how it is shown, and what an answer gives."""

from typing import Any

import pytest

from tenex.core.answers.forms import Form, NoAnswer

FIELDS: dict[str, dict[str, Any]] = {
    "count": {"type": "integer", "description": "how many", "minimum": 1, "maximum": 9},
    "size": {"type": "string", "enum": ["Small", "Large"]},
    "gift": {"type": "boolean"},
    "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
    "hero": {"type": "string", "oneOf": [{"const": "h-1", "title": "Ann"}, {"const": "h-2", "title": "Bob"}]},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}, "minItems": 1, "maxItems": 2},
    "many": {"type": "array", "items": {"anyOf": [{"const": "1", "title": "One"}, {"const": "2", "title": "Two"}]}},
    "name": {"type": "string", "minLength": 2, "maxLength": 5},
    "born": {"type": "string", "format": "date"},
    "mail": {"type": "string", "format": "email"},
    "site": {"type": "string", "format": "uri"},
    "when": {"type": "string", "format": "date-time"},
    "part": {"type": "number"},
    "colour": {"type": "string", "default": "red"},
}


def form(*names: str, required: tuple[str, ...] = ()) -> Form:
    return Form({name: FIELDS[name] for name in names}, frozenset(required))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("count", "- count (integer, optional): how many"),
        ("size", "- size (one of: Small, Large, optional)"),
        ("old", "- old (one of: a = First, b = Second, optional)"),
        ("hero", "- hero (one of: h-1 = Ann, h-2 = Bob, optional)"),
        ("tags", "- tags (at least 1 and at most 2 of, with commas between: x, y, z, optional)"),
        ("many", "- many (any of, with commas between: 1 = One, 2 = Two, optional)"),
        ("born", "- born (date as 2026-01-31, optional)"),
        ("colour", "- colour (text, red if left out)"),
    ],
)
def test_a_field_is_shown_with_its_kind_and_its_choices_with_their_titles(name: str, line: str) -> None:
    assert form(name).lines()[0] == line
    assert ", optional" not in form(name, required=(name,)).lines()[0]


@pytest.mark.parametrize(
    ("names", "answer", "values"),
    [
        (("count",), " 7 ", {"count": 7}),
        (("size",), "large", {"size": "Large"}),
        (("old",), "second", {"old": "b"}),
        (("hero",), "Bob", {"hero": "h-2"}),
        (("hero",), "h-1.", {"hero": "h-1"}),
        (("tags",), "x, Z", {"tags": ["x", "z"]}),
        (("many",), "Two,1", {"many": ["2", "1"]}),
        (("gift",), "Nope", {"gift": False}),
        (("gift",), "👍", {"gift": True}),
        (("gift",), "true", {"gift": True}),
        (("born",), "2026-02-28", {"born": "2026-02-28"}),
        (("part",), "-1.5", {"part": -1.5}),
        (("name",), "name: Ana", {"name": "Ana"}),
        (("colour",), "red\nand blue", {"colour": "red\nand blue"}),
        ((), "yes", {}),
        ((), "no: not now", None),
        (("count",), "Decline.", None),
        (("count", "gift"), "Count: 2\n- **gift**: yes\nthanks", {"count": 2, "gift": True}),
    ],
)
def test_an_answer_gives_the_values_of_the_fields(names: tuple[str, ...], answer: str, values: Any) -> None:
    asked = form(*names)
    assert asked.read(answer) == Form.of(asked.stored()).read(answer) == values


@pytest.mark.parametrize(
    ("names", "answer", "why"),
    [
        (("count",), "many", "count is a number"),
        (("count",), "1.5", "count is a number"),
        (("count",), "0", "count is at least 1"),
        (("count",), "10", "count is at most 9"),
        (("size",), "medium", "size is one of: Small, Large"),
        (("tags",), "x, w", "tags is one of: x, y, z"),
        (("tags",), "x, y, z", "tags has at most 2 choices"),
        (("tags",), ",", "tags has at least 1 choices"),
        (("gift",), "no problem", "gift is yes or no"),
        (("gift",), "perhaps", "gift is yes or no"),
        (("name",), "A", "name has at least 2 characters"),
        (("name",), "Annabel", "name has at most 5 characters"),
        (("name",), "Ana\nbirthdate: 1990-01-01", "Only name is asked for, and not birthdate"),
        (("name", "born"), "Ana\nborn: 1990-01-01", "The line “Ana” names no field"),
        (("name", "born"), "name: Ana\nbirthdate: 1990-01-01", "“birthdate: 1990-01-01” names no field"),
        (("born",), "2026-02-30", "born is a date as"),
        (("born",), "yesterday", "born is a date as"),
        (("when",), "noon", "when is a time as"),
        (("mail",), "me at home", "mail is an e-mail address"),
        (("site",), "example org", "site is an address"),
        ((), "perhaps", "Answer yes or no"),
        ((), "no problem", "Answer yes or no"),
        (("count", "gift"), "thanks", "Missing: count"),
    ],
)
def test_what_is_no_answer_says_why(names: tuple[str, ...], answer: str, why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        form(*names, required=names[:1]).read(answer)


def test_a_page_is_done_or_declined() -> None:
    page = Form({}, is_page=True)
    assert page.read("Done.") == page.read("yes") == {}
    assert page.read("decline") is None
    with pytest.raises(NoAnswer, match="Answer `done` or `decline`"):
        page.read("soon")
