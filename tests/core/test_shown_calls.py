"""Calls as a person is shown them: other calls have other texts, and nothing in a text is hidden or passes for more."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenex.core.approvals.decide import digest_of
from tenex.core.approvals.message import LINE, call_line, call_text, is_shown_whole
from tenex.core.approvals.shown_values import odd_places, shown_value, visible

PAIRS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("web__get", {"note": "x\npath: build/tmp"}, {"note": "x", "path": "build/tmp"}),
    ("web__get", {"a": "false"}, {"a": False}),
    ("web__get", {"a": "[1, 2]"}, {"a": [1, 2]}),
    ("web__get", {"a": "null"}, {"a": None}),
    ("web__get", {"a": "1"}, {"a": 1}),
    ("web__get", {"a": 1}, {"a": 1.0}),
    ("web__get", {"a": '{"b": 1}'}, {"a": {"b": 1}}),
    ("web__get", {"a": '"b"'}, {"a": "b"}),
    ("web__get", {"a": ""}, {}),
    ("web__get", {"a": ""}, {"a": None}),
    ("web__get", {"a": "b "}, {"a": "b"}),
    ("web__get", {"a": "b\n"}, {"a": "b"}),
    ("web__get", {"a": "\u202e"}, {"a": "\\u202e"}),
    ("web__get", {"a": "x\u202ey"}, {"a": '"x\\u202ey"'}),
    ("web__get", {"a: b": "c"}, {"a": "b: c"}),
    ("web__get", {"a": "1\nb: 2"}, {"a": "1", "b": "2"}),
    ("web__get", {"a": [" "]}, {"a": ["  "]}),
    ("web__get", {"a": "b" + " " * 5}, {"a": "b" + " " * 6}),
    ("web__get", {"a": "сurl"}, {"a": "curl"}),
    ("web__get", {"a": "сurl"}, {"a": "\\u0441url"}),
    ("write_file", {"path": "a\n+ b", "content": "c"}, {"path": "a", "content": "b\nc"}),
    ("write_file", {"path": "a", "content": "b\n"}, {"path": "a", "content": "b"}),
    ("write_file", {"path": "a", "content": "b "}, {"path": "a", "content": "b"}),
    ("write_file", {"path": "a", "content": "b\u202e"}, {"path": "a", "content": "b\\u202e"}),
    ("write_file", {"path": "a", "content": '"b\\u202e"'}, {"path": "a", "content": "b\u202e"}),
    ("write_file", {"path": "a", "content": ""}, {"path": "a", "content": "\n"}),
    ("shell", {"command": "a", "timeout": 5}, {"command": "a"}),
    ("shell", {"command": "a", "timeout": 5}, {"command": "a", "timeout": "5"}),
    ("shell", {"command": "a\ntimeout: 5"}, {"command": "a", "timeout": 5}),
    ("shell", {"command": "a", "cwd": "b"}, {"command": "a"}),
    ("shell", {"command": "a", "network": True}, {"command": "a"}),
    ("shell", {"command": "a, network: true"}, {"command": "a", "network": True}),
    (
        "edit_file",
        {"path": "a", "edits": [{"old": "b", "new": "c", "all": True}]},
        {"path": "a", "edits": [{"old": "b", "new": "c"}]},
    ),
    (
        "edit_file",
        {"path": "a", "edits": [{"old": "b", "new": "c"}, {"old": "d", "new": "e"}]},
        {"path": "a", "edits": [{"old": "b\nd", "new": "c\ne"}]},
    ),
    (
        "edit_file",
        {"path": "a", "edits": [{"old": "b\n@@ 2 of 2 @@", "new": ""}]},
        {"path": "a", "edits": [{"old": "b", "new": ""}, {"old": "", "new": ""}]},
    ),
]


@pytest.mark.parametrize(("tool", "one", "other"), PAIRS)
def test_calls_that_differ_have_texts_that_differ(tool: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert call_text(tool, one) != call_text(tool, other)


TEXTS = st.text(st.sampled_from("ab \n\t\\\"'u0241+-@:,[]{}null\u202e\u0441\u0336\u2800е漢"), max_size=9)
SCALARS = TEXTS | st.booleans() | st.none() | st.integers(-9, 9) | st.sampled_from([0.5, 1.0, "1", "true", "[]", "{}"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)
NAMES = st.sampled_from(["path", "content", "command", "timeout", "edits", "a"]) | TEXTS
EDITS = st.lists(
    st.fixed_dictionaries({"old": TEXTS, "new": TEXTS}, optional={"all": st.booleans()}), min_size=1, max_size=2
)
CALLS = (
    st.dictionaries(NAMES, VALUES, max_size=3)
    | st.fixed_dictionaries({"path": TEXTS, "content": TEXTS})
    | st.fixed_dictionaries({"path": TEXTS, "edits": EDITS})
    | st.fixed_dictionaries({"command": TEXTS}, optional={"timeout": SCALARS, "cwd": TEXTS})
)
TOOLS = st.sampled_from(["shell", "write_file", "edit_file", "web__get"])


@given(TOOLS, CALLS, CALLS)
def test_different_calls_have_different_texts(tool: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assume(digest_of(tool, one) != digest_of(tool, other))
    assert call_text(tool, one) != call_text(tool, other)


@given(VALUES)
def test_a_value_is_shown_as_itself_or_as_json_of_it(value: Any) -> None:
    shown = shown_value(value)
    assert "\n" not in shown
    assert shown == value if isinstance(value, str) and not shown.startswith('"') else json.loads(shown) == value


@given(st.text())
def test_what_is_shown_holds_nothing_that_is_hidden(text: str) -> None:
    assert json.loads(shown_value(text)) == text if shown_value(text) != text else True
    assert odd_places(shown_value(text)) == frozenset()
    assert visible(text).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("сurl x", "\\u0441"),
        ("ехес", "\\u0435"),
        ("рm -rf", "\\u0440"),
        ("gοogle", "\\u03bf"),
        ("ɡit", "\\u0261"),
        ("ｃurl", "\\uff43"),
        ("𝐜url", "\\ud835"),
        ("x\u2800y", "\\u2800"),
        ("x\u3164y", "\\u3164"),
        ("x\u00a0y", "\\u00a0"),
        ("a" + "\u0301" * 300, "\\u0301"),
        ("r\u0336m\u0336", "\\u0336"),
        ("a\u20dd", "\\u20dd"),
        ("\u0301a", "\\u0301"),
        ("a\u037eb", "\\u037e"),
        ("a⁄b", "\\u2044"),
        ("rm ‐rf", "\\u2010"),
        ("a" + " " * 4 + "b", "\\u0020"),
        ("echo ok" + " " * 600 + "; rm -rf x", "\\u0020"),
        ("x\u200by", "\\u200b"),
        ("x\u202ey", "\\u202e"),
        ("ı", "\\u0131"),
        ("x\x7fy", "\\u007f"),
        ("a\tb", "\\t"),
        ("https://аpple.com", "\\u0430"),
        ("a․b", "\\u2024"),
        ("x\U000e0041", "\\udb40"),
    ],
)
def test_what_is_not_what_it_looks_like_is_marked(text: str, marked: str) -> None:
    assert marked in call_text("shell", {"command": text})
    assert marked in call_line("shell", {"command": text})


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'größer 漢字 été'",
        "echo Привет, мир",
        "echo Καλημέρα κόσμε",
        "echo สวัสดี",
        "echo नमस्ते",
        "使用git提交",
        "echo 👍",
        "echo e\u0301",
        "echo tiếng Việt",
        "echo שלום",
        "grep a  b",
        "сейчас",
        "a — b",
    ],
)
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert call_text("shell", {"command": text}) == f"command: {text}"


def test_indentation_of_a_text_is_shown_as_it_is() -> None:
    content = "def f():\n    if x:\n        return 1"
    lines = ["path: a", "+ def f():", "+     if x:", "+         return 1"]
    assert call_text("write_file", {"path": "a", "content": content}).split("\n") == lines


@pytest.mark.parametrize(
    ("tool", "arguments", "is_whole"),
    [
        ("shell", {"command": "git push origin main"}, True),
        ("shell", {"command": "echo ok" + " " * 600 + "; rm -rf important"}, False),
        ("shell", {"command": "echo ok" + "\n" * 300 + "; rm -rf important"}, False),
        ("shell", {"command": "x" * (LINE + 1)}, False),
        ("shell", {"command": "x", "cwd": "y" * LINE}, False),
        ("web__get", {"url": "x" * LINE}, False),
        ("write_file", {"path": "a", "content": "b\n" * 30}, True),
        ("write_file", {"path": "a", "content": "b\n" * 50}, False),
        ("write_file", {"path": "a", "content": "b" * 900}, True),
        ("write_file", {"path": "a" * LINE, "content": "b"}, False),
    ],
)
def test_a_call_is_shown_whole_if_it_fits_below_and_into_the_first_line(
    tool: str, arguments: dict[str, Any], is_whole: bool
) -> None:
    assert is_shown_whole(tool, arguments) is is_whole
