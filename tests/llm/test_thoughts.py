"""Thoughts are separated from the text of an answer, in a whole text and in any pieces of it."""

import time

import pytest

from tenex.llm.thoughts import ThoughtSplitter, split

DECISION = '{"agents": ["a"], "reason": "it wrote </think> once"}'
CASES = [
    ("Hello there", "", "Hello there"),
    ("<think>hm</think>Hello", "hm", "Hello"),
    ("\n<think>\nhm < /think </thin\n</think>\n\nHi  there", "\nhm < /think </thin\n", "Hi  there"),
    ("[THINK]hm[/THINK]Hello", "hm", "Hello"),
    ("<thought>hm</thought>Hello", "hm", "Hello"),
    ("<think>hm", "hm", ""),
    ("hm</think>Hello", "hm", "Hello"),
    ("hm</think>", "hm", ""),
    ('He said "yes"</think>"Yes."', 'He said "yes"', '"Yes."'),
    ('{"agents": ["b"]} is wrong</think>{"agents": ["a"]}', '{"agents": ["b"]} is wrong', '{"agents": ["a"]}'),
    ("<think>a</think>b</think>Hi", "a\n\nb", "Hi"),
    ("<think>a<think>b</think>Hi", "a<think>b", "Hi"),
    ("<think>a</think>One.\n<think>b</think>Two.", "a\n\nb", "One.\nTwo."),
    ("One.\n<think>b", "b", "One.\n"),
    ("<think></think></think>Hi", "", "Hi"),
    ("Write `<think>` and `</think>` around it.", "", "Write `<think>` and `</think>` around it."),
    ("text.split('</think>')[0]", "", "text.split('</think>')[0]"),
    ("A <think> tag opens it.", "", "A <think> tag opens it."),
    (DECISION, "", DECISION),
    ("<b>x [1] <thin", "", "<b>x [1] <thin"),
    ("<THINK>hm</THINK>Hello", "hm", "Hello"),
    ("<|START_THINKING|>hm<|END_THINKING|>Hello", "hm", "Hello"),
    ("<|channel>thought\nhm<channel|>Hello", "\nhm", "Hello"),
    ("<mm:think>hm</mm:think>Hello", "hm", "Hello"),
    ("hm\n[BEGIN FINAL RESPONSE]\nHello", "hm\n", "Hello"),
    ("So:\n```\n<think>\nhm\n</think>\nHi\n```\nDone.", "", "So:\n```\n<think>\nhm\n</think>\nHi\n```\nDone."),
    ("~~~xml\n<thinking>x</thinking>\n~~~", "", "~~~xml\n<thinking>x</thinking>\n~~~"),
    ("It is `<reasoning>x</reasoning>` here.", "", "It is `<reasoning>x</reasoning>` here."),
    ("Maybe\n```\ncode\n</think>Hello", "Maybe\n```\ncode\n", "Hello"),
    ("See ```\n<think>\n```\n</think>Hello", "See ```\n<think>\n```\n", "Hello"),
    ('Close it with "</think>', 'Close it with "', ""),
    ("", "", ""),
    (" \n", "", " \n"),
]


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("text", "thinking", "expected"), CASES)
def test_thoughts_are_separated_from_a_text_and_a_stream(
    text: str, thinking: str, expected: str, size: int | None
) -> None:
    """A stream is not known to be one JSON value before it has ended."""
    if size is None:
        thoughts, rest = split(text).end()
        assert thoughts.strip() == thinking.strip()
    else:
        stream = ThoughtSplitter()
        for place in range(0, len(text), size):
            stream.add(text[place : place + size])
        rest = stream.end()[1]
    assert rest == expected or (size and text is DECISION)


def test_only_a_closing_tag_that_nothing_opened_is_unopened() -> None:
    texts = ("hm</think>Hello", "<think>hm</think>Hello", "Close it with `</think>`.")
    assert [split(text).unopened for text in texts] == [True, False, False]


def test_a_long_thought_costs_the_same_for_each_piece() -> None:
    """Searched again for every piece, a thought of 20,000 tokens would block the event loop for half a minute."""
    began = time.process_time()
    stream = ThoughtSplitter()
    stream.add("<think>")
    for _ in range(50_000):
        stream.add("hm. ")
    stream.add("</think>Hi")
    assert stream.text == "Hi"
    assert time.process_time() - began < 5
