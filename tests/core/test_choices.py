"""Which choice a text means: by its words, or by its number."""

import pytest

from tenex.core.answers.choices import chosen, worded_choice
from tenex.core.answers.forms import Form, NoAnswer


@pytest.mark.parametrize(
    ("text", "choices", "place"),
    [
        ("blue", ["red", "Blue"], 1),
        ("“BLUE”.", ["red", "blue"], 1),
        ("ｂｌｕｅ", ["red", "blue"], 1),
        ("2", ["red", "blue"], 1),
        ("(2)", ["red", "blue"], 1),
        ("#2:", ["red", "blue"], 1),
        ("2⃣", ["red", "blue"], 1),
        ("🔟", [*"abcdefghij"], 9),
        ("3", ["3", "2", "1"], 0),
        ("C#", ["C", "C#"], 1),
        ("c", ["C", "C#"], 0),
        ("-1", ["1", "-1"], 1),
        ("c++!", ["C", "C++"], 1),
        ("?", ["?", "!"], 0),
        ("blue", ["Blue", "BLUE"], None),
        ("blue or red", ["red", "blue"], None),
        ("3", ["red", "blue"], None),
        ("0", ["red", "blue"], None),
        ("", ["red", "blue"], None),
        ("...", ["red", "blue"], None),
        ("2 apples", ["red", "blue"], None),
        ("2", [], None),
    ],
)
def test_a_text_means_a_choice_only_if_it_says_nothing_else(text: str, choices: list[str], place: int | None) -> None:
    assert chosen(text, choices) == place


def test_words_alone_are_no_number() -> None:
    assert worded_choice("2", ["red", "blue"]) is None


@pytest.mark.parametrize("answer", ["large", " “Large”! ", "@executor L", "l"])
def test_the_choice_of_a_form_is_read_by_the_same_rule(answer: str) -> None:
    form = Form(
        {"size": {"type": "string", "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}]}}
    )
    assert form.read(answer) == {"size": "l"}


def test_what_is_the_value_of_one_choice_and_the_title_of_another_is_neither() -> None:
    form = Form({"size": {"type": "string", "oneOf": [{"const": "a", "title": "b"}, {"const": "b", "title": "c"}]}})
    with pytest.raises(NoAnswer, match="size is one of: a, b"):
        form.read("b")
