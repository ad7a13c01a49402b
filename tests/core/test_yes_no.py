"""What a text or a picture answers: the one grammar of yes and no."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.answers.yes_no import (
    Answer,
    Unclear,
    is_clear_no,
    is_clear_yes,
    read_answer,
    read_answers,
    read_picture,
)
from tests.kits.call_approvals import TURNED_ROUND

BUT = Unclear.MORE_THAN_YES
TURNS = Unclear.NO_AND_WORDS


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", Answer(is_yes=True)),
        ("OK, thanks!", Answer(is_yes=True)),
        ("👍", Answer(is_yes=True, is_written=False)),
        ("no", Answer(is_yes=False)),
        ("no: use the other branch", Answer(is_yes=False, reason="use the other branch")),
        ("Nein, erst die Tests", Answer(is_yes=False, reason="erst die Tests")),
        ("always", Answer(is_yes=True, remember=True)),
        ("yes, always", Answer(is_yes=True, remember=True)),
        ("20 min", Answer(is_yes=True, remember=True, minutes=20)),
        ("yes for 2 hours", Answer(is_yes=True, remember=True, minutes=120)),
        ("0 min", None),
        ("9999 hours", None),
        ("always all", Answer(is_yes=True, remember=True, is_for_all=True)),
        ("no way!", Answer(is_yes=False)),
        ("No, thank you", Answer(is_yes=False)),
        ("no, too broad", Answer(is_yes=False, reason="too broad")),
        ("no - too broad", Answer(is_yes=False, reason="too broad")),
        ("no. Not now", Answer(is_yes=False, reason="Not now")),
        ("no\nnot on main", Answer(is_yes=False, reason="not on main")),
        ("不，太宽", Answer(is_yes=False, reason="太宽")),
        ("👎 too broad", Answer(is_yes=False, reason="too broad")),
        ("no: no problem, use the other", Answer(is_yes=False, reason="no problem, use the other")),
        ("no, no, too broad", Answer(is_yes=False, reason="no, too broad")),
        ("denied: ask Bob", Answer(is_yes=False, reason="ask Bob")),
        ("/deny ask Bob", Answer(is_yes=False, reason="ask Bob")),
        ("/approve", Answer(is_yes=True)),
        ("/approve but only main", BUT),
        ("no-brainer", TURNS),
        ("no? ok", TURNS),
        ("no too broad", TURNS),
        ("no, yes", TURNS),
        ("no, always", TURNS),
        ("no 20 min", TURNS),
        ("ok no", BUT),
        ("No tests were run on the branch, so I wonder what happened to it", None),
        ("yes?", BUT),
        ("why?", None),
        ("yes, but not to main", BUT),
        ("not yet", None),
        ("always?", BUT),
        ("20 min?", None),
        ("always, but not main", BUT),
        ("", None),
    ],
)
def test_what_a_text_answers(text: str, answer: Answer | Unclear | None) -> None:
    assert read_answer(text) == answer


def yes(number: int = 0, **more: Any) -> Answer:
    return Answer(is_yes=True, number=number, **more)


def no(number: int = 0, reason: str = "") -> Answer:
    return Answer(is_yes=False, number=number, reason=reason)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("yes", (yes(),)),
        ("1 yes, 2 no: too broad", (yes(1), no(2, "too broad"))),
        ("1. yes\n2) no", (yes(1), no(2))),
        ("2: always", (yes(2, remember=True),)),
        ("2 no: not now, 3 of them fail", (no(2, "not now, 3 of them fail"),)),
        ("1 ok, 12 ja", (yes(1), yes(12))),
        ("20 min", (yes(remember=True, minutes=20),)),
        ("1 20 min, 2 no", (yes(1, remember=True, minutes=20), no(2))),
        ("1 yes, 1 no", ()),
        ("1 yes, 2 perhaps", ()),
        ("1 yes please do, 2 no", ()),
        ("do 1 yes", ()),
        ("1 perhaps, 2 yes", ()),
        ("1 no problem, 2 yes", ()),
        ("1 /approve, 2 deny: later", (yes(1), no(2, "later"))),
        ("1", ()),
        ("0 yes", ()),
        ("1 yes " * 99, ()),
        (", ".join(f"{number} yes" for number in range(1, 101)), ()),
    ],
)
def test_what_a_text_answers_by_numbers(text: str, answers: tuple[Answer, ...]) -> None:
    assert read_answers(text) == answers


def test_reactions_are_compared_without_tone_and_variation() -> None:
    assert read_picture("👍🏿") == read_picture("👍") == Answer(is_yes=True, is_written=False)
    assert read_picture("") is None


@pytest.mark.parametrize("picture", ["👍", "👌", "✅", "🤙", "👎", "❌", "🛑", "+", "-"])
def test_a_picture_says_the_same_as_a_reaction_and_as_a_reply(picture: str) -> None:
    assert read_picture(picture) is not None
    assert read_answer(f" {picture}") == read_picture(picture)


@pytest.mark.parametrize("text", TURNED_ROUND)
def test_words_that_may_turn_a_no_round_are_neither_yes_nor_no(text: str) -> None:
    for written in (text, text.upper(), f"{text}!", f"{text} 👍"):
        assert read_answer(written) is TURNS
        assert not is_clear_yes(written)
        assert not is_clear_no(written)


@given(st.text(max_size=40))
def test_no_text_after_a_yes_or_a_no_makes_it_the_other(text: str) -> None:
    after_no = read_answer(f"no {text}")
    assert not isinstance(after_no, Answer) or not after_no.is_yes
    after_yes = read_answer(f"yes {text}")
    assert not isinstance(after_yes, Answer) or after_yes.is_yes
